// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"

// Whether a task is fit to judge by (docs/referee.md, "Admission"): the part without a device.

namespace kernelforge {

/// Peaks that the maker promises. No device of that name is faster.
struct DataSheet {
    double bytes_per_s = 0.0;
    double fp32_flop_per_s = 0.0;      ///< vector units
    double matrix16_flop_per_s = 0.0;  ///< 16-bit operands, dense
    double matrix8_flop_per_s = 0.0;   ///< 8-bit operands, dense
};

/// By the driver's device name. Source: NVIDIA's data sheets of H200 and H100 (SXM). Nothing for
/// other devices.
[[nodiscard]] std::optional<DataSheet> data_sheet(std::string_view device_name);

/// The impossible line: compulsory bytes and operations of a workload over the data sheet's peaks,
/// seconds. Operations count at the 8-bit rate where an input or a comparison tier has 8 bits, at
/// the vector rate where the policy forbids matrix instructions. Nothing for an unknown device.
[[nodiscard]] std::optional<double> impossible_s(const Task& task, std::size_t workload,
                                                 std::string_view device_name);

/// Explicit significand bits of the next coarser operands than a tier's: float64 23 (fp32), float32
/// 10 (tf32), tensor_float32 and float16 7 (bf16), bfloat16 3 (e4m3), float8 1 (e2m1).
[[nodiscard]] int coarser_bits(PrecisionTier tier);

/// The same for an input's own type; nothing for types that are not floating-point.
[[nodiscard]] std::optional<int> coarser_bits(DType input);

/// To how many significand bits the downcast null rounds an input where an output is judged at
/// `tier`: coarser than the tier and than the input itself, or rounding would change nothing.
[[nodiscard]] std::optional<int> downcast_bits(PrecisionTier tier, DType input);

/// What one null candidate came to for one output and workload over the trials of a screen.
struct NullOutcome {
    std::string null;                      ///< "zeros", "mean", …
    std::string output;                    ///< by name
    std::string shape;                     ///< "rows=64"
    std::vector<std::string> refused_in;   ///< distributions, each once
    std::vector<std::string> accepted_in;  ///< likewise
    std::string skipped;                   ///< why it makes no sense here; empty: it was tried
};

/// One check for each null and output: it must be refused, for every shape, in at least one of the
/// distributions that a screen shows. A null that was skipped for every shape passes, with the
/// reason.
[[nodiscard]] std::vector<AdmissionCheck> null_checks(const std::vector<NullOutcome>& outcomes);

/// Bound below the baseline's time, and the baseline's time above the impossible line, for every
/// workload of the evaluation that has a time; a time that was not measured passes, with the
/// reason.
[[nodiscard]] std::vector<AdmissionCheck> time_checks(const Task& task,
                                                      const Evaluation& evaluation,
                                                      const Roofs& roofs);

/// Whether every check holds and there is at least one.
[[nodiscard]] bool is_admitted(const Evaluation& evaluation);

/// Sets status, rule and message by the checks: ok, or rejected by rule "admission" with the first
/// that does not hold. An evaluation that is not ok keeps its verdict.
void conclude_admission(Evaluation& evaluation);

}  // namespace kernelforge
