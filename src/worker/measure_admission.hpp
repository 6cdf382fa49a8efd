// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernelforge/evaluator.hpp"
#include "worker/measure_device.hpp"

namespace kernelforge::worker {

/// Whether the request's task is fit to judge by (docs/referee.md, "Admission"), on its workloads:
/// appends to `evaluation.admission` and concludes status, rule and message. `evaluation` is the
/// verdict on the request's candidate, the portable baseline, with its times. Does nothing at other
/// depths, and when the baseline itself is not ok. All that runs is trusted. [device]
/// @throws DriverError, DeviceTimeout, Error unsupported (a comparison or type)
void check_admission(Device& device, const EvaluationRequest& request, Clock::time_point deadline,
                     Evaluation& evaluation);

}  // namespace kernelforge::worker
