// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// How the registers of a warp lie in memory: one row a register, one column a lane.

namespace kernelforge::emulator {

inline constexpr int warp_lanes = 32;
inline constexpr std::uint32_t all_lanes = 0xffff'ffffU;

/// Shape of a row: predicates are one bit a lane; 8 and 16 bit registers live in the low part of
/// b32 rows, whose upper bits are zero.
enum class Row : std::uint8_t {
    predicate,  ///< one std::uint32_t: bit i is lane i
    b32,        ///< std::uint32_t[32]
    b64,        ///< std::uint64_t[32]
    none        ///< a destination that is thrown away (`_`)
};

[[nodiscard]] constexpr std::size_t bytes_of(Row row) noexcept {
    switch (row) {
        case Row::predicate:
            return 4;
        case Row::b32:
            return 128;
        case Row::b64:
            return 256;
        case Row::none:
            return 0;
    }
    return 0;
}

/// Where a row starts: in the frame of the running function (>= 0), or, complemented (~offset), in
/// the warp's fixed rows, which hold constants and special registers. Bytes; rows of b32 and b64
/// are aligned to 128.
using RowRef = std::int32_t;

struct Rows {
    std::byte* frame = nullptr;
    std::byte* fixed = nullptr;

    template <class T>
    [[nodiscard]] T* at(RowRef ref) const noexcept {
        std::byte* base = ref >= 0 ? frame + ref : fixed + ~ref;
        return reinterpret_cast<T*>(base);
    }
};

/// Executes one register-to-register instruction for the lanes of `mask` (not 0): reads the
/// operands' rows, writes the destinations' rows in those lanes only. Destinations come first in
/// `operands`; a destination may be the same row as a source; Row::none destinations have ref
/// `no_row` and must not be written.
using PureFn = void (*)(const Rows& rows, const RowRef* operands, std::uint32_t mask);
inline constexpr RowRef no_row = INT32_MIN;

}  // namespace kernelforge::emulator
