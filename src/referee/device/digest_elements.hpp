// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/elements.hpp"

// Digests of outputs: one text for the host compiler and NVRTC, as elements.hpp.

namespace kernelforge::referee {

/// Fourth word of the Philox counter, apart from those of inputs (`Purpose`).
enum DigestPurpose : u32 {
    purpose_sign = 0x80000000U,
    purpose_hash,
    purpose_sample,
};

/// Secret signs, 128 for each draw. Keeps the last word for the neighbours.
struct Signs {
    u64 group = ~0ULL;
    u32 word = 0;
};

KERNELFORGE_BOTH double with_sign(Signs& signs, u64 seed, u32 stream, u64 index, double value) {
    if ((index >> 5) != signs.group) {
        signs.group = index >> 5;
        const Words words = draw(seed, stream, index >> 7, purpose_sign);
        const u32 low = (signs.group & 1U) != 0 ? words.w[1] : words.w[0];
        const u32 high = (signs.group & 1U) != 0 ? words.w[3] : words.w[2];
        signs.word = (signs.group & 2U) != 0 ? high : low;
    }
    return ((signs.word >> (index & 31U)) & 1U) != 0 ? -value : value;
}

/// One element's share of a hash: unpredictable without the seed, different for every index.
KERNELFORGE_BOTH u64 hashed(u64 seed, u32 stream, u64 index, u64 bits) {
    const Words words = draw(seed, stream, index, purpose_hash);
    u64 x = bits ^ joined(words.w[0], words.w[1]);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return (x ^ (x >> 31)) * (joined(words.w[2], words.w[3]) | 1U);
}

KERNELFORGE_BOTH void add_to_digest(DigestTile& tile, Signs& signs, const DigestParameters& p,
                                    u64 index, u64 bits) {
    const double value = decode(p.dtype, bits);
    const bool floating = is_floating(p.dtype);
    if (floating && value != value) {
        ++tile.nans;
        return;
    }
    if (p.exact != 0) {
        // The two zeros are equal values.
        tile.hash += hashed(p.seed, p.stream, index, floating && value == 0.0 ? 0 : bits);
        return;
    }
    if (!is_finite(value)) {
        tile.hash += hashed(p.seed, p.stream, index, value > 0.0 ? 1 : 2);
        return;
    }
    tile.signed_sum += with_sign(signs, p.seed, p.stream, index, value);
    tile.square_sum += value * value;
}

KERNELFORGE_BOTH void merge(DigestTile& into, const DigestTile& other) {
    into.signed_sum += other.signed_sum;
    into.square_sum += other.square_sum;
    into.hash += other.hash;
    into.nans += other.nans;
}

KERNELFORGE_BOTH u64 digest_tiles(const DigestParameters& p) {
    return p.tiling.tiles_down * p.tiling.tiles_across;
}

/// Which tile sample `sample` of slot `call` is: all of them in order when there are no more than
/// samples; else the last one, where tails are, and tiles drawn anew for every call.
KERNELFORGE_BOTH u64 sampled_tile(const DigestParameters& p, u64 call, u32 sample) {
    const u64 tiles = digest_tiles(p);
    if (tiles <= p.samples) return sample;
    if (sample == 0) return tiles - 1;
    const Words words = draw(p.seed, p.stream, call * 65536 + sample, purpose_sample);
    return high_product(joined(words.w[0], words.w[1]), tiles);
}

/// Square of a tile's norm that its errors are measured by.
KERNELFORGE_BOTH double tile_norm2(const DigestParameters& p, double square_sum, u64 elements,
                                   double reference2) {
    return tile_mean_square(square_sum, elements, reference2, p.tiling.rows * p.tiling.columns,
                            p.tile_floor) *
           static_cast<double>(elements);
}

KERNELFORGE_BOTH void judge_tile(DigestVerdict& v, const DigestParameters& p,
                                 const DigestTile& found, const DigestTile& expected, u64 elements,
                                 double reference2) {
    v.bad += found.nans + expected.nans + (found.hash != expected.hash ? 1U : 0U);
    const double norm2 = tile_norm2(p, expected.square_sum, elements, reference2);
    if (norm2 > v.largest_tile2) v.largest_tile2 = norm2;
    const double difference = found.signed_sum - expected.signed_sum;
    const double square = difference * difference;
    v.projection2 += square;
    if (square == 0.0) return;
    const double ratio2 = norm2 > 0.0 ? square / norm2 : double_of_bits(0x7FF0000000000000ULL);
    // Written so that a NaN is over the limit.
    if (!(ratio2 <= p.projection_limit * p.projection_limit)) ++v.over;
    if (ratio2 > v.worst_projection) v.worst_projection = ratio2;
}

KERNELFORGE_BOTH void judge_element(DigestVerdict& v, double& error2, const DigestParameters& p,
                                    u64 index, u64 found_bits, u64 expected_bits, double tile_rms) {
    const double found = decode(p.dtype, found_bits);
    const double expected = decode(p.dtype, expected_bits);
    const u32 mode = p.exact != 0 ? compare_exact : compare_rms;
    const bool bad = is_bad(p.dtype, mode, found_bits, expected_bits, found, expected);
    const bool far =
        mode == compare_rms && is_far(mode, found, expected, tile_rms, p.element_limit);
    if (is_finite(found) && is_finite(expected)) {
        error2 += (found - expected) * (found - expected);
    }
    if (!bad && !far) return;
    v.bad += bad ? 1U : 0U;
    v.far += far ? 1U : 0U;
    if (index >= v.first) return;
    v.first = index;
    v.found = found;
    v.expected = expected;
}

/// The RMS error of a sampled tile is known exactly.
KERNELFORGE_BOTH void judge_sample(DigestVerdict& v, const DigestParameters& p, double error2,
                                   double norm2) {
    if (p.exact != 0 || error2 == 0.0) return;
    const double ratio2 = norm2 > 0.0 ? error2 / norm2 : double_of_bits(0x7FF0000000000000ULL);
    if (!(ratio2 <= p.tile_limit * p.tile_limit)) ++v.over;
    if (ratio2 > v.worst_sample) v.worst_sample = ratio2;
}

/// `worst_*` hold squares until the call is judged.
KERNELFORGE_BOTH void merge(DigestVerdict& into, const DigestVerdict& other) {
    into.projection2 += other.projection2;
    if (other.largest_tile2 > into.largest_tile2) into.largest_tile2 = other.largest_tile2;
    if (other.worst_projection > into.worst_projection) {
        into.worst_projection = other.worst_projection;
    }
    if (other.worst_sample > into.worst_sample) into.worst_sample = other.worst_sample;
    into.over += other.over;
    into.bad += other.bad;
    into.far += other.far;
    if (other.first >= into.first) return;
    into.first = other.first;
    into.found = other.found;
    into.expected = other.expected;
}

}  // namespace kernelforge::referee
