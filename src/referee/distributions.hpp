// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/definition.hpp"
#include "referee/device/parameters.hpp"

// Inputs of a trial. Every element is a pure function of (seed, tensor ordinal, flat index):
// Philox4x32-10 with key = seed and counter = {index low, index high, ordinal, purpose}, then only
// integer operations and correctly rounded double operations. So device (kf_fill) and host
// (`fill_on_host`) agree bit for bit, and an evaluator without CUDA judges on the very same inputs.

namespace kernelforge::referee {

/// What is done to the natural values (`InitSpec`) of an input. All are multiplications, so the
/// sign of every value, and with it the domain of sqrt or log, stays; a natural mean of zero stays
/// zero. Integers, booleans, constants, permutations, distinct values and inputs whose init is
/// not `varied` are always natural. Of offsets it is the lengths of the segments that differ:
/// - natural: those of random cuts, about as far apart as their mean is long
/// - scaled: nearly equal
/// - heavy_tails: a few are many times longer than the others
/// - structured: one holds half of all, one at least is empty (from three segments on)
enum class Distribution : std::uint32_t {
    /// As `InitSpec` says. Catches wrong indexing, missing work, low precision.
    natural,
    /// Times 2^k, k uniform in -4 … 4, drawn for each tensor. Catches code that sniffs magnitudes
    /// to
    /// choose a cheaper path, and constants that stand for the scale of the data.
    scaled,
    /// One element in 1000, at random, 50 times larger. Catches thresholds and quantisation by
    /// tensor,
    /// missing maximum subtraction, accumulators of small range.
    heavy_tails,
    /// Every row times 2^k, k in -3 … 3; rows of the last eighth times another 16 and every element
    /// of
    /// them times 2^j, j in -4 … 4; one impulse of 256 natural standard deviations (or bounds), in
    /// one
    /// of two trials within the last 64 columns and in one of two within the last row; one row
    /// in 16 holds one natural value in all its elements. Catches precision chosen from the first
    /// rows, skipped tails, truncated reductions, and thresholds that expect a spread.
    structured,
};

[[nodiscard]] constexpr std::string_view to_string(Distribution distribution) noexcept {
    switch (distribution) {
        case Distribution::natural:
            return "natural";
        case Distribution::scaled:
            return "scaled";
        case Distribution::heavy_tails:
            return "heavy tails";
        case Distribution::structured:
            return "structured";
    }
    return "unknown";
}

/// The distribution of a trial: any four consecutive trials from a multiple of 4 see all four, in
/// an order drawn from `seed`.
[[nodiscard]] Distribution distribution_of_trial(std::uint64_t seed, std::uint64_t trial);

/// The seed of a trial's inputs, from the evaluator's secret. Different trials give unrelated
/// inputs.
[[nodiscard]] std::uint64_t seed_of_trial(std::uint64_t secret, std::uint64_t trial);

/// Parameters of `kf_fill` for one input; `data` stays 0. `ordinal` is the input's position in the
/// definition. Natural values, before rounding to `dtype` (to nearest even; float8 saturates;
/// integers round to nearest and saturate; bool is value > 0, for kinds normal and uniform value >
/// centre):
/// - normal: mean + stddev * z, z the centred sum of eight 16-bit uniforms over its standard
/// deviation
///   (|z| < 4.9, excess kurtosis -0.15)
/// - uniform: low + (high - low) * u, u of 53 bits in [0, 1)
/// - integers: floor(low) … floor(high), each equally likely (bias below 2^-64 * span)
/// - constant: low
/// - permutation: of 0 … extent-1 along the last axis, another one for each row
/// - heavy_tail: normal, one element in 1000 times a factor uniform in [1, 100)
/// @throws Error invalid_argument (bounds that are not finite or the wrong way round, a negative
/// stddev,
///         an extent < 0, a kind that needs its task: offsets, distinct, used_by), unsupported
///         (float4_e2m1)
[[nodiscard]] FillParameters fill_parameters(const InitSpec& init, DType dtype,
                                             std::span<const std::int64_t> shape,
                                             Distribution distribution, std::uint64_t seed,
                                             std::uint32_t ordinal);

/// The same for an input of a task, of any kind: offsets and distinct take their bound from `axes`
/// (values of all axes), `used_by` its slices from the other input (a slice that is not named is
/// all 0xFF bytes: NaN, or -1). Inputs of a task with an output of kind `set` have no constant
/// rows.
/// @throws Error as above; invalid_argument also for an axis or input that is not there and for
///         more distinct values than there are
[[nodiscard]] FillParameters fill_parameters(const Task& task,
                                             const std::map<std::string, std::int64_t>& axes,
                                             const TensorSpec& input, std::uint32_t ordinal,
                                             Distribution distribution, std::uint64_t seed);

/// What `task.init` says about an input, with the default where it says nothing: standard normal
/// for floating-point types; integers uniform in 0 … 100 (clipped to the type), booleans fair.
[[nodiscard]] InitSpec init_of(const Task& task, const TensorSpec& input);

/// Host twin of `kf_fill`: writes elements [first, first + n) of the tensor that `parameters`
/// describe, n = bytes.size() / element size. `parameters.data` is ignored.
void fill_on_host(const FillParameters& parameters, std::uint64_t first,
                  std::span<std::byte> bytes);

/// Value of an element as a double: exact for all but int64 beyond 2^53. bool: 0 or 1, else the
/// byte. `bytes` holds at least one element.
/// @throws Error unsupported (float4_e2m1)
[[nodiscard]] double element_value(DType dtype, std::span<const std::byte> bytes);

/// Rounds as `fill_parameters` says. `bytes` takes one element. @throws Error unsupported
/// (float4_e2m1)
void store_element(DType dtype, double value, std::span<std::byte> bytes);

/// Bytes of one element. @throws Error unsupported (float4_e2m1)
[[nodiscard]] std::size_t element_bytes(DType dtype);

/// Philox4x32-10 (Salmon et al., SC11), for its known-answer tests and for other seeded draws.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

}  // namespace kernelforge::referee
