// SPDX-License-Identifier: Apache-2.0
#include "emulator/async_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/async_barrier.hpp"
#include "emulator/matrix_numbers.hpp"

namespace kernelforge::emulator {

namespace {

constexpr std::uint32_t piece_bytes = 16;  // what a swizzle moves as one
constexpr std::uint64_t mark = 0x31'70'61'6d'6c'69'74'6bULL;

struct Encoding {
    std::uint64_t mark = 0;
    std::uint64_t address = 0;
    std::array<std::uint64_t, 5> dimensions{};
    std::array<std::uint64_t, 4> strides{};
    std::array<std::uint16_t, 5> box{};
    std::array<std::uint8_t, 5> element_strides{};
    std::uint8_t data_type = 0, rank = 0, swizzle = 0, fill = 0;
    std::array<std::uint8_t, 21> unused{};
};
static_assert(sizeof(Encoding) == 128);

struct DataType {
    Type type = Type::none;
    std::uint32_t bytes = 0;
    bool is_float = false;
};
// CUtensorMapDataType. FLOAT32_FTZ, TFLOAT32 and TFLOAT32_FTZ change values on the way, in ways
// that are not documented; the packed types of 4 and 6 bits belong to later architectures.
constexpr std::array<DataType, 10> data_types{{{Type::u8, 1},
                                               {Type::u16, 2},
                                               {Type::u32, 4},
                                               {Type::s32, 4},
                                               {Type::u64, 8},
                                               {Type::s64, 8},
                                               {Type::f16, 2, true},
                                               {Type::f32, 4, true},
                                               {Type::f64, 8, true},
                                               {Type::bf16, 2, true}}};
constexpr std::array<std::uint32_t, 4> swizzle_widths{0, 32, 64, 128};

using Fault = std::optional<std::string>;

Fault type_fault(const TensorMapParameters& p) {
    if (p.data_type < 0 || p.data_type > 15) {
        return fmt::format("the data type is {}, expected 0 to 15", p.data_type);
    }
    if (static_cast<std::size_t>(p.data_type) >= data_types.size()) {
        return fmt::format("the data type {} is not emulated", p.data_type);
    }
    if (p.interleave < 0 || p.interleave > 2 || p.swizzle < 0 || p.swizzle > 6 || p.fill < 0 ||
        p.fill > 1) {
        return "interleave, swizzle or fill is no value of its enumeration";
    }
    if (p.interleave != 0) return "interleaved layouts are not emulated";
    if (p.swizzle > 3) return "128-byte swizzles of larger atoms are not emulated";
    if (p.fill != 0 && !data_types[static_cast<std::size_t>(p.data_type)].is_float) {
        return "only floating-point tensors can be filled with NaN";
    }
    return std::nullopt;
}

Fault tensor_fault(const TensorMapParameters& p) {
    if (p.rank < 1 || p.rank > 5) return fmt::format("the rank is {}, expected 1 to 5", p.rank);
    if (p.address % 16 != 0) {
        return fmt::format("the global address {:#x} is no multiple of 16", p.address);
    }
    for (std::size_t i = 0; i < p.rank; ++i) {
        if (p.dimensions[i] < 1 || p.dimensions[i] > std::uint64_t{1} << 32) {
            return fmt::format("dimension {} has {} elements, expected 1 to 2^32", i,
                               p.dimensions[i]);
        }
    }
    for (std::size_t i = 0; i + 1 < p.rank; ++i) {
        if (p.strides[i] % 16 != 0 || p.strides[i] >= std::uint64_t{1} << 40) {
            return fmt::format(
                "the stride of dimension {} is {} bytes, expected a multiple of 16 below 2^40",
                i + 1, p.strides[i]);
        }
    }
    return std::nullopt;
}

Fault box_fault(const TensorMapParameters& p) {
    for (std::size_t i = 0; i < p.rank; ++i) {
        if (p.box[i] < 1 || p.box[i] > 256) {
            return fmt::format("the box has {} elements in dimension {}, expected 1 to 256",
                               p.box[i], i);
        }
        if (p.element_strides[i] < 1 || p.element_strides[i] > 8) {
            return fmt::format("the element stride of dimension {} is {}, expected 1 to 8", i,
                               p.element_strides[i]);
        }
    }
    const std::uint32_t inner = p.box[0] * data_types[static_cast<std::size_t>(p.data_type)].bytes;
    if (inner % piece_bytes != 0) {
        return fmt::format("the box is {} bytes wide, expected a multiple of 16", inner);
    }
    const std::uint32_t width = swizzle_widths[static_cast<std::size_t>(p.swizzle)];
    if (width != 0 && inner > width) {
        return fmt::format("the box is {} bytes wide, expected at most the swizzle's {}", inner,
                           width);
    }
    if (width != 0 && inner < width) {
        return fmt::format(
            "a box of {} bytes that is narrower than its swizzle of {} is not emulated", inner,
            width);
    }
    return std::nullopt;
}

Fault find_fault(const TensorMapParameters& p) {
    if (Fault fault = type_fault(p)) return fault;
    if (Fault fault = tensor_fault(p)) return fault;
    return box_fault(p);
}

std::array<std::byte, 8> fill_of(Type type, int fill) {
    std::array<std::byte, 8> bytes{};
    if (fill == 0) return bytes;
    // Which NaN the hardware writes is not documented.
    std::uint64_t nan = 0x7fff'ffff'ffff'ffffULL;
    if (type == Type::f32) nan = canonical_nan_f32;
    if (type == Type::f16 || type == Type::bf16) nan = canonical_nan_16;
    std::memcpy(bytes.data(), &nan, bytes.size());
    return bytes;
}

// One row of a tile: elements that follow each other in global and shared memory.
struct TileRow {
    std::int64_t first = 0;    // coordinate in dimension 0
    std::uint64_t global = 0;  // address of coordinate 0 of the row
    std::uint32_t shared = 0;  // address before the swizzle
    bool inside = true;        // in the dimensions above
};

class Tile {
  public:
    Tile(const TensorMap& map, std::span<const std::int32_t> coordinates, std::uint32_t shared)
        : map_(map), coordinates_(coordinates), shared_(shared) {}

    [[nodiscard]] std::vector<TilePiece> pieces() {
        const std::uint32_t row_bytes = map_.box_steps[0] * map_.element_bytes;
        const std::uint32_t rows = map_.box_bytes / row_bytes;
        for (std::uint32_t i = 0; i < rows; ++i) {
            TileRow row = row_at(i);
            row.shared = shared_ + i * row_bytes;
            add_row(row);
        }
        return std::move(pieces_);
    }

  private:
    // Rows count through the box with dimension 1 fastest.
    [[nodiscard]] TileRow row_at(std::uint32_t index) const {
        const TensorMapParameters& p = map_.parameters;
        TileRow row{.first = coordinates_[0], .global = p.address};
        for (std::size_t i = 1; i < p.rank; ++i) {
            const std::uint32_t step = index % map_.box_steps[i];
            index /= map_.box_steps[i];
            const std::int64_t at =
                std::int64_t{coordinates_[i]} + std::int64_t{step} * p.element_strides[i];
            row.inside = row.inside && at >= 0 && at < static_cast<std::int64_t>(p.dimensions[i]);
            row.global += static_cast<std::uint64_t>(at) * p.strides[i - 1];
        }
        return row;
    }

    void add_row(const TileRow& row) {
        const auto count = std::int64_t{map_.box_steps[0]};
        const auto size = static_cast<std::int64_t>(map_.parameters.dimensions[0]);
        const std::int64_t begin = row.inside ? std::clamp<std::int64_t>(-row.first, 0, count) : 0;
        const std::int64_t end =
            row.inside ? std::clamp<std::int64_t>(size - row.first, begin, count) : 0;
        add(row, 0, begin, false);
        add(row, begin, end, true);
        add(row, end, count, false);
    }

    // Elements [begin, end) of a row; a swizzle takes them apart at multiples of 16 bytes.
    void add(const TileRow& row, std::int64_t begin, std::int64_t end, bool inside) {
        const std::uint32_t size = map_.element_bytes;
        auto at = static_cast<std::uint32_t>(begin) * size;
        const auto last = static_cast<std::uint32_t>(end) * size;
        while (at < last) {
            const std::uint32_t linear = row.shared + at;
            std::uint32_t bytes = last - at;
            if (map_.swizzle_bytes != 0) {
                bytes = std::min(bytes, piece_bytes - linear % piece_bytes);
            }
            TilePiece piece;
            piece.global = row.global + static_cast<std::uint64_t>(row.first * size) + at;
            piece.shared = swizzled(linear);
            piece.bytes = bytes;
            piece.inside = inside;
            pieces_.push_back(piece);
            at += bytes;
        }
    }

    // Bits 4 to 6 of the address are exchanged by those above 7, as many as the swizzle has.
    [[nodiscard]] std::uint32_t swizzled(std::uint32_t address) const {
        if (map_.swizzle_bytes == 0) return address;
        const std::uint32_t rows = map_.swizzle_bytes / piece_bytes - 1;
        return address ^ (address >> 7 & rows) << 4;
    }

    const TensorMap& map_;
    std::span<const std::int32_t> coordinates_;
    std::uint32_t shared_;
    std::vector<TilePiece> pieces_;
};

}  // namespace

EncodedTensorMap encode_tensor_map(const TensorMapParameters& parameters) {
    EncodedTensorMap result;
    result.error = find_fault(parameters);
    if (result.error) return result;
    Encoding encoding;
    encoding.mark = mark;
    encoding.address = parameters.address;
    for (std::size_t i = 0; i < parameters.rank; ++i) {
        encoding.dimensions[i] = parameters.dimensions[i];
        if (i + 1 < parameters.rank) encoding.strides[i] = parameters.strides[i];
        encoding.box[i] = static_cast<std::uint16_t>(parameters.box[i]);
        encoding.element_strides[i] = static_cast<std::uint8_t>(parameters.element_strides[i]);
    }
    encoding.data_type = static_cast<std::uint8_t>(parameters.data_type);
    encoding.rank = static_cast<std::uint8_t>(parameters.rank);
    encoding.swizzle = static_cast<std::uint8_t>(parameters.swizzle);
    encoding.fill = static_cast<std::uint8_t>(parameters.fill);
    std::memcpy(result.bytes.data(), &encoding, sizeof(encoding));
    return result;
}

std::optional<TensorMap> decode_tensor_map(const std::byte* bytes) {
    Encoding encoding;
    std::memcpy(&encoding, bytes, sizeof(encoding));
    if (encoding.mark != mark) return std::nullopt;
    TensorMap map;
    TensorMapParameters& p = map.parameters;
    p.data_type = encoding.data_type;
    p.rank = encoding.rank;
    p.address = encoding.address;
    p.dimensions = encoding.dimensions;
    p.strides = encoding.strides;
    std::copy(encoding.box.begin(), encoding.box.end(), p.box.begin());
    std::copy(encoding.element_strides.begin(), encoding.element_strides.end(),
              p.element_strides.begin());
    p.swizzle = encoding.swizzle;
    p.fill = encoding.fill;
    if (find_fault(p)) return std::nullopt;  // the bytes were written by something else
    const DataType& type = data_types[encoding.data_type];
    map.type = type.type;
    map.element_bytes = type.bytes;
    map.swizzle_bytes = swizzle_widths[encoding.swizzle];
    map.box_bytes = map.element_bytes;
    for (std::size_t i = 0; i < p.rank; ++i) {
        const std::uint32_t step = i == 0 ? 1 : p.element_strides[i];
        map.box_steps[i] = (p.box[i] + step - 1) / step;
        map.box_bytes *= map.box_steps[i];
    }
    map.fill = fill_of(map.type, p.fill);
    return map;
}

std::vector<TilePiece> tile_pieces(const TensorMap& map, std::span<const std::int32_t> coordinates,
                                   std::uint32_t shared_address) {
    return Tile(map, coordinates, shared_address).pieces();
}

std::optional<std::string> tile_fault(const TensorMap& map, int dimensions,
                                      std::uint32_t shared_address) {
    if (dimensions != static_cast<int>(map.parameters.rank)) {
        return fmt::format("has {} coordinates for a tensor of {} dimensions", dimensions,
                           map.parameters.rank);
    }
    if (shared_address % 128 != 0) {
        return fmt::format("has the shared address {:#x}, which is no multiple of 128",
                           shared_address);
    }
    if (map.box_bytes > most_barrier_count) {
        return fmt::format("moves {} bytes, more than an mbarrier counts ({})", map.box_bytes,
                           most_barrier_count);
    }
    return std::nullopt;
}

void fill_piece(const TensorMap& map, std::byte* to, std::uint32_t bytes) noexcept {
    for (std::uint32_t i = 0; i < bytes; i += map.element_bytes) {
        std::memcpy(to + i, map.fill.data(), map.element_bytes);
    }
}

}  // namespace kernelforge::emulator
