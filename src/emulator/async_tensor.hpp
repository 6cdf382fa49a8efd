// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/ptx_module.hpp"

// Tensor maps and the tiles that cp.async.bulk.tensor moves: one to five dimensions, tiled mode, no
// interleave. The 128 bytes of a map are an encoding of our own.

namespace kernelforge::emulator {

/// Arguments of cuTensorMapEncodeTiled. Enumerations are the numbers of cuda.h.
struct TensorMapParameters {
    int data_type = 0;  ///< CU_TENSOR_MAP_DATA_TYPE_*
    std::uint32_t rank = 0;
    std::uint64_t address = 0;                       ///< in global memory
    std::array<std::uint64_t, 5> dimensions{};       ///< elements, the contiguous one first
    std::array<std::uint64_t, 4> strides{};          ///< bytes, of dimensions 1 and up
    std::array<std::uint32_t, 5> box{};              ///< elements
    std::array<std::uint32_t, 5> element_strides{};  ///< the first is not used
    int interleave = 0;                              ///< CU_TENSOR_MAP_INTERLEAVE_*
    int swizzle = 0;                                 ///< CU_TENSOR_MAP_SWIZZLE_*
    int fill = 0;                                    ///< CU_TENSOR_MAP_FLOAT_OOB_FILL_*
};

struct EncodedTensorMap {
    std::array<std::byte, 128> bytes{};
    /// Nothing, or why there is no map, as the rest of a sentence about the call. Invalid arguments
    /// and what is not emulated (interleave, im2col, 128-byte swizzles with other atoms, swizzled
    /// boxes narrower than the swizzle) are both errors.
    std::optional<std::string> error;
};
/// [any]
[[nodiscard]] EncodedTensorMap encode_tensor_map(const TensorMapParameters& parameters);

/// A map read back.
struct TensorMap {
    TensorMapParameters parameters;
    Type type = Type::none;  ///< of an element, for reductions
    std::uint32_t element_bytes = 0;
    std::uint32_t swizzle_bytes = 0;           ///< 0, 32, 64, 128
    std::array<std::uint32_t, 5> box_steps{};  ///< elements that a box takes of each dimension
    std::uint32_t box_bytes = 0;               ///< in shared memory; what an mbarrier counts
    std::array<std::byte, 8> fill{};           ///< element for places outside of the tensor
};
/// Nothing: the bytes are no map. [any]
[[nodiscard]] std::optional<TensorMap> decode_tensor_map(const std::byte* bytes);

/// Contiguous bytes of a tile.
struct TilePiece {
    std::uint64_t global = 0;  ///< address; without meaning outside
    std::uint32_t shared = 0;  ///< address as in `shared_address`, swizzled
    std::uint32_t bytes = 0;
    bool inside = false;  ///< else loads write `TensorMap::fill` and stores and reductions skip it
};
/// Pieces of the tile at `coordinates` (rank of them, in elements, may be negative or beyond the
/// end), which cover `box_bytes` of shared memory once. Loads, stores and reductions use the same.
/// [any]
[[nodiscard]] std::vector<TilePiece> tile_pieces(const TensorMap& map,
                                                 std::span<const std::int32_t> coordinates,
                                                 std::uint32_t shared_address);

/// What a tensor copy demands besides: as many coordinates as dimensions, shared memory aligned to
/// 128 bytes. @returns what is wrong, as the rest of a sentence about the copy [any]
[[nodiscard]] std::optional<std::string> tile_fault(const TensorMap& map, int dimensions,
                                                    std::uint32_t shared_address);

/// Writes a piece that lies outside: fill elements at `to`.
void fill_piece(const TensorMap& map, std::byte* to, std::uint32_t bytes) noexcept;

}  // namespace kernelforge::emulator
