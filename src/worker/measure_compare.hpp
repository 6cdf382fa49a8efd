// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/comparator.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "referee/output_comparison.hpp"
#include "worker/measure_device.hpp"

namespace kernelforge::worker {

/// Loads a plugin that brings comparators, for the whole life of the process. Not while an
/// evaluation runs.
/// @throws Error plugin, with path and cause; not_found
void load_comparator_plugin(const std::string& path);

/// What the comparator says. [any]
/// @throws Error as the comparator does; internal, with its name, where it throws anything else:
/// that
///         is its fault and not a candidate's
[[nodiscard]] OutputError asked(const Comparator& comparator, const std::string& name,
                                const ComparisonInput& input);

/// Memory of the device that is not owned.
struct DeviceBuffer {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
};

/// What one call of both sides left, for the comparison.
struct JudgedCall {
    std::vector<CUdeviceptr> found;     ///< the candidate's outputs, in order of the definition
    std::vector<CUdeviceptr> expected;  ///< the reference's
    std::map<std::string, DeviceBuffer> workspaces;  ///< the reference's, by name
    /// How an input of this call was drawn; null for a scalar and for an unknown name.
    std::function<const referee::FillParameters*(std::string_view input)> fill;
};

/// Compares all outputs of a task on one workload with the reference's, by every kind of
/// comparison. Sums over elements are made on the device; sets, values by index, samples and what
/// plugins judge are copied to the host. [device]
class OutputJudge {
  public:
    /// `task` and `workload` must outlive this.
    /// @throws DriverError; Error unsupported (a type, more outputs than results have room),
    ///         not_found (no loaded plugin has the comparator)
    OutputJudge(Device& device, const Task& task, const Workload& workload);

    /// Bytes of the device's result page from `sink_bytes` on that hold results.
    [[nodiscard]] std::size_t result_bytes() const noexcept {
        return comparisons_.size() * slot_bytes;
    }
    /// Enqueues the work of the device. The results are in the result page.
    /// @throws DriverError
    void enqueue(const JudgedCall& call);
    /// After the results were copied to the start of the device's host page and the device is idle:
    /// the verdicts. `kept` holds the worst of each output so far (empty at first).
    /// @throws DriverError, DeviceTimeout; Error invalid_argument when the reference lacks a
    ///         workspace that the task names; what a comparator throws
    void finish(const JudgedCall& call, std::string_view distribution,
                std::vector<OutputError>& kept, Clock::time_point deadline);
    /// One sentence on the first output that is wrong; empty when all are right.
    [[nodiscard]] std::string describe_wrong(const std::vector<OutputError>& errors) const;

  private:
    static constexpr std::size_t slot_bytes = 128;
    struct Entry {
        std::optional<referee::OutputComparison> comparison;
        std::size_t bytes = 0;
        std::optional<std::size_t> index;  ///< by_index: position of the index output
        MemoryPool::Lease partials;        ///< of the kernels
        MemoryPool::Lease starts;          ///< ragged
        std::unique_ptr<Comparator> comparator;
    };

    void add(const TensorSpec& output, const std::map<std::string, std::int64_t>& axes);
    void set_starts(Entry& entry, const JudgedCall& call, referee::CompareParameters& parameters);
    [[nodiscard]] OutputError kernels_verdict(std::size_t slot,
                                              std::string_view distribution) const;
    [[nodiscard]] OutputError host_verdict(std::size_t slot, const JudgedCall& call,
                                           std::string_view distribution,
                                           Clock::time_point deadline);
    [[nodiscard]] OutputError plugin_verdict(std::size_t slot, const JudgedCall& call,
                                             Clock::time_point deadline);
    [[nodiscard]] std::vector<std::byte> read(DeviceBuffer buffer, Clock::time_point deadline);

    Device& device_;
    const Task& task_;
    const Workload& workload_;
    std::vector<Entry> comparisons_;  // by output
};

}  // namespace kernelforge::worker
