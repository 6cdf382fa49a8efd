// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/measure_spans.hpp"

namespace kernelforge::worker {

/// Start and end of every kernel and memset, from CUPTI activity records. At most one in a process.
/// Must exist before the modules load whose kernels it is to see. Calls are matched by the
/// correlation id that CUPTI gives while a driver call is made on the recording thread.
class CuptiRecorder {
  public:
    virtual ~CuptiRecorder() = default;
    /// Correlation id of the newest cuLaunchKernelEx or cuMemsetD8Async; 0 when there was none
    /// since the last call of this function. [device]
    [[nodiscard]] virtual std::uint32_t take_correlation() = 0;
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
