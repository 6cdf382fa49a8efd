// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/measure_spans.hpp"

namespace kernelforge::worker {

/// Start and end of every kernel, memset and copy, from CUPTI activity records. At most one in a
/// process. Must exist before the modules load whose kernels it is to see. Work is matched by the
/// correlation ids that CUPTI gives to the calls of the driver and of the runtime, also of those
/// that a library makes: one count, which only grows (modulo 2^32).
class CuptiRecorder {
  public:
    virtual ~CuptiRecorder() = default;
    /// Newest correlation id of any driver or runtime call: work that is enqueued between two
    /// readings has an id after the first and not after the second. [device]
    [[nodiscard]] virtual std::uint32_t newest_correlation() const = 0;
    /// Drops what was recorded. The context must be idle. [device]
    virtual void clear() = 0;
    /// All records since `clear`, in no order. The context must be idle. [device]
    /// @throws Error device_unavailable when CUPTI refuses or dropped records
    [[nodiscard]] virtual std::vector<ActivityRecord> take_records() = 0;
};

/// Either a recorder, or why there is none.
struct CuptiOutcome {
    std::unique_ptr<CuptiRecorder> recorder;
    std::string why_not;
};

/// Loads libcupti (the given paths in order, then the usual names) and starts recording.
[[nodiscard]] CuptiOutcome start_cupti(const std::vector<std::string>& paths);

}  // namespace kernelforge::worker
