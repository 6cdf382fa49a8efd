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

// Digests: how the output of every timed call is judged although the reference does not run for
// each. After a call every tile is reduced to the sum of its elements times secret random signs,
// and a few secret tiles are copied whole; the same is made of the reference's output on the same
// inputs afterwards. The difference of two signed sums is a random projection of the tile's errors:
// its mean square is the square of their norm. Derivation of the limits: docs/referee.md.
//
// Usage on a device: p = digest_parameters(…); set p.slot_bytes = digest_slot_bytes(p), p.slots
// (room for calls and one for the reference), p.verdicts, p.seed, p.calls, p.reference; launch
// `kf_digest_tiles` and, with samples, `kf_digest_sample` after each call; then once for each set
// of inputs both on the reference's output with call = reference and `kf_digest_judge`.

namespace kernelforge::referee {

/// Whether outputs compared this way are judged by digests; others have to be copied.
[[nodiscard]] bool has_digest(const CompareSpec& spec);

/// Sampled tiles are at most 16 and take at most `sample_bytes`; all addresses, the seed and the
/// counts of slots stay 0. `stream` is the output's position in the definition.
/// @throws Error unsupported (has_digest is false, or float4_e2m1), invalid_argument
[[nodiscard]] DigestParameters digest_parameters(const CompareSpec& spec, DType dtype,
                                                 std::span<const std::int64_t> shape,
                                                 std::uint32_t stream, std::size_t sample_bytes);

/// Bytes of one slot, a multiple of 256.
[[nodiscard]] std::size_t digest_slot_bytes(const DigestParameters& parameters);

/// Host twins of the kernels, for tests and for evaluators without CUDA. Sums may differ from the
/// device's in the last bits.
[[nodiscard]] std::vector<DigestTile> digest_on_host(const DigestParameters& parameters,
                                                     std::span<const std::byte> data);
/// Judges `found`, the digest of slot `parameters.call`, by the reference's output. `found_data`
/// holds the candidate's whole output, of which only sampled tiles are looked at.
[[nodiscard]] DigestVerdict judge_on_host(const DigestParameters& parameters,
                                          std::span<const DigestTile> found,
                                          std::span<const std::byte> found_data,
                                          std::span<const std::byte> reference);

/// The limit on sqrt(projection2 / reference2), from the largest tile's share of the whole.
[[nodiscard]] double whole_projection_limit(double rms_limit, double reference2,
                                            double largest_tile2);

/// The verdict on one output of one timed call. `normalised_rms` is the estimate by projection;
/// `max_tile_rms` the larger of the largest estimate of a tile and the largest true one of a
/// sampled tile, each over its limit, times `tile_limit`. `what` says which call.
[[nodiscard]] OutputError judge_digest(const std::string& output, const CompareSpec& spec,
                                       const DigestParameters& parameters,
                                       const DigestVerdict& verdict, std::string_view what);

}  // namespace kernelforge::referee
