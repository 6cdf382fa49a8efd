// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "kernelforge/profile_data.hpp"

namespace kernelforge {

/// A prepared candidate inside a profiling worker, which a collector may run as often as it needs.
/// Owned by the worker; valid during `Collector::collect`.
class LaunchSession {
  public:
    virtual ~LaunchSession() = default;

    /// The workload that is loaded, an index into the task's workloads.
    [[nodiscard]] virtual std::size_t workload() const = 0;
    /// Names of the kernels that one run launches, in order.
    [[nodiscard]] virtual std::vector<std::string> kernels() const = 0;
    /// Restores the inputs, makes the caches cold, and runs the whole plan once on the session's
    /// stream; returns when it is done. The context is current on the calling thread.
    /// @throws Error worker_failed on a device fault
    virtual void run() = 0;
};

/// Gathers data about a running candidate. Loaded inside a worker.
class Collector {
  public:
    virtual ~Collector() = default;

    /// Names of what this collector can give: metric names, or `custom` names. [any]
    [[nodiscard]] virtual std::vector<std::string> provides() const = 0;

    /// Adds what it can of `request` to `data`, and to `data.missing` what it can not. [device]
    /// @throws Error worker_failed, unsupported
    virtual void collect(LaunchSession& session, const DataRequest& request, ProfileData& data,
                         std::stop_token stop) = 0;
};

}  // namespace kernelforge
