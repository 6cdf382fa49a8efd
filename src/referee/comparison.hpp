// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "referee/device/parameters.hpp"
#include "referee/limits.hpp"

// Comparison of one output with the reference. The sums are made where the data are (the kernels of
// device_code.hpp, or `compare_on_host`); the verdict is made here, from at most 120 bytes.
//
// Usage on a device: p = compare_parameters(…); set p.found, p.expected, p.partials (tile_count(p)
// * sizeof(TilePartial) bytes) and p.result (sizeof(CompareResult) bytes); launch the four kernels;
// copy the CompareResult back; judge(…).

namespace kernelforge::referee {

/// How an output of this shape is cut: 128 x 128 over the last axis and all before it, when both
/// are at least 128; else runs of 16384 consecutive elements.
/// @throws Error invalid_argument (a negative extent)
[[nodiscard]] Tiling tiling_of(std::span<const std::int64_t> shape);

/// Parameters of the comparison kernels; all addresses stay 0. Ragged outputs need `starts` and
/// `tiles` besides.
/// @throws Error unsupported (a kind other than rms, exact, lse and ragged, or float4_e2m1),
///         invalid_argument
[[nodiscard]] CompareParameters compare_parameters(const CompareSpec& spec, DType dtype,
                                                   std::span<const std::int64_t> shape);

[[nodiscard]] std::uint64_t tile_count(const CompareParameters& parameters);

/// Does on the host what the four kernels do; addresses in `parameters` are ignored. `starts` of a
/// ragged output, else empty. Sums may differ from the device's in the last bits, because they are
/// added in another order.
/// @throws Error invalid_argument when a span has not the size of the output
[[nodiscard]] CompareResult compare_on_host(const CompareParameters& parameters,
                                            std::span<const std::byte> found,
                                            std::span<const std::byte> expected,
                                            std::span<const std::uint64_t> starts = {});

/// The verdict on one output in one trial. rms: `bad` and `far` are zero and both RMS errors are
/// within the limits; the all-zero reference accepts only zeros. exact: nothing differs. lse and
/// ragged: as rms, in their own measure and tiles. A result that is not complete never passes.
/// `mismatches` counts bad and far elements.
/// @throws Error unsupported as compare_parameters
[[nodiscard]] OutputError judge(const std::string& output, const CompareSpec& spec,
                                const CompareResult& result, std::string_view distribution);

/// Keeps the worse of two verdicts on the same output in `kept`: a failure over a pass, then more
/// mismatches, then the larger error relative to its limit.
void keep_worse(OutputError& kept, const OutputError& other);

/// One sentence that says whether and how an output is wrong, for people and models: "output y:
/// normalised RMS error 2.3e-03 exceeds 1.0e-05 (worst tile …); at flat index 17 expected 1.5,
/// found 0 (structured inputs)". Empty when it is right.
[[nodiscard]] std::string describe(const OutputError& error);

/// The same with the index spelled out for a shape, `[3, 17]` instead of the flat index.
[[nodiscard]] std::string describe(const OutputError& error, std::span<const std::int64_t> shape);

}  // namespace kernelforge::referee
