// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "emulator/async_tensor.hpp"
#include "support/catch.hpp"

using namespace kernelforge::emulator;

namespace {

// A tensor [4, 10, 24] of f32 with padded strides.
TensorMapParameters cube() {
    TensorMapParameters p;
    p.data_type = 7;
    p.rank = 3;
    p.address = 0x7f00'0000'1000;
    p.dimensions = {24, 10, 4};
    p.strides = {112, 1120};
    p.box = {8, 4, 2};
    p.element_strides = {1, 1, 1};
    return p;
}

TensorMap map_of(const TensorMapParameters& p) {
    const EncodedTensorMap encoded = encode_tensor_map(p);
    REQUIRE(encoded.error.value_or("") == "");
    const auto map = decode_tensor_map(encoded.bytes.data());
    REQUIRE(map.has_value());
    return *map;
}

// What each element of a tile is: its global address, or 0 outside; by shared address.
std::map<std::uint32_t, std::uint64_t> expected_tile(const TensorMapParameters& p,
                                                     std::uint32_t element,
                                                     const std::vector<int>& at,
                                                     std::uint32_t shared) {
    std::map<std::uint32_t, std::uint64_t> tile;
    std::array<std::uint32_t, 5> counts{1, 1, 1, 1, 1};
    for (std::size_t i = 0; i < p.rank; ++i) {
        const std::uint32_t step = i == 0 ? 1 : p.element_strides[i];
        counts[i] = (p.box[i] + step - 1) / step;
    }
    std::uint32_t linear = 0;
    std::array<std::uint32_t, 5> x{};
    for (x[4] = 0; x[4] < counts[4]; ++x[4])
        for (x[3] = 0; x[3] < counts[3]; ++x[3])
            for (x[2] = 0; x[2] < counts[2]; ++x[2])
                for (x[1] = 0; x[1] < counts[1]; ++x[1])
                    for (x[0] = 0; x[0] < counts[0]; ++x[0]) {
                        std::uint64_t global = p.address;
                        bool inside = true;
                        for (std::size_t i = 0; i < p.rank; ++i) {
                            const long long c =
                                at[i] +
                                static_cast<long long>(x[i] * (i == 0 ? 1 : p.element_strides[i]));
                            inside =
                                inside && c >= 0 && c < static_cast<long long>(p.dimensions[i]);
                            const auto stride =
                                static_cast<long long>(i == 0 ? element : p.strides[i - 1]);
                            global += static_cast<std::uint64_t>(c * stride);
                        }
                        // Rows of the swizzle's width; the row's number turns the chunks.
                        const std::uint32_t width = p.swizzle == 0   ? 0
                                                    : p.swizzle == 1 ? 32
                                                    : p.swizzle == 2 ? 64
                                                                     : 128;
                        std::uint32_t place = linear;
                        if (width != 0) {
                            const std::uint32_t row = linear / width;
                            const std::uint32_t turn = row % 8 / (128 / width);
                            const std::uint32_t chunk = linear % width / 16 ^ turn;
                            place = row * width + chunk * 16 + linear % 16;
                        }
                        tile[shared + place] = inside ? global : 0;
                        linear += element;
                    }
    return tile;
}

void check_tile(const TensorMapParameters& p, const std::vector<int>& at) {
    CAPTURE(p.rank, p.swizzle, at);
    const TensorMap map = map_of(p);
    constexpr std::uint32_t shared = 4096;
    const std::vector<std::int32_t> coordinates(at.begin(), at.end());
    std::map<std::uint32_t, std::uint64_t> found;
    for (const TilePiece& piece : tile_pieces(map, coordinates, shared)) {
        REQUIRE(piece.bytes > 0);
        for (std::uint32_t i = 0; i < piece.bytes; i += map.element_bytes) {
            REQUIRE(found.emplace(piece.shared + i, piece.inside ? piece.global + i : 0).second);
        }
    }
    const auto expected = expected_tile(p, map.element_bytes, at, shared);
    CHECK(found.size() * map.element_bytes == map.box_bytes);
    CHECK(found == expected);
}

}  // namespace

TEST_CASE("tiles of one to five dimensions are found, edges outside included", "[emulator]") {
    check_tile(cube(), {0, 0, 0});
    check_tile(cube(), {16, 3, 1});
    check_tile(cube(), {20, 8, 3});
    check_tile(cube(), {-3, -2, -1});
    check_tile(cube(), {24, 0, 0});
    check_tile(cube(), {-8, 0, 0});
    check_tile(cube(), {0, 0, 1000});

    TensorMapParameters line;
    line.data_type = 9;
    line.rank = 1;
    line.address = 0x7f00'0000'0000;
    line.dimensions = {100};
    line.box = {64};
    line.element_strides = {1};
    check_tile(line, {0});
    check_tile(line, {64});
    check_tile(line, {-63});

    TensorMapParameters five;
    five.data_type = 0;
    five.rank = 5;
    five.address = 0x7f00'0000'0000;
    five.dimensions = {48, 3, 4, 2, 5};
    five.strides = {48, 144, 576, 1152};
    five.box = {16, 2, 3, 2, 2};
    five.element_strides = {1, 1, 2, 1, 1};
    check_tile(five, {0, 0, 0, 0, 0});
    check_tile(five, {40, 2, 1, 1, 4});
}

TEST_CASE("tiles are swizzled by the rows of the pattern", "[emulator]") {
    for (const int swizzle : {1, 2, 3}) {
        TensorMapParameters p;
        p.data_type = 6;
        p.rank = 2;
        p.address = 0x7f00'0000'0000;
        p.dimensions = {500, 77};
        p.strides = {1024};
        p.box = {static_cast<std::uint32_t>(8 << swizzle), 32};
        p.element_strides = {1, 1};
        p.swizzle = swizzle;
        check_tile(p, {0, 0});
        check_tile(p, {480, 60});
        check_tile(p, {-5, -3});
        p.element_strides = {1, 4};
        check_tile(p, {3, 1});
    }
}

TEST_CASE("places outside are filled with zero or NaN", "[emulator]") {
    TensorMapParameters p = cube();
    std::array<std::byte, 32> bytes;
    bytes.fill(std::byte{1});
    fill_piece(map_of(p), bytes.data(), 32);
    CHECK(bytes == std::array<std::byte, 32>{});
    p.fill = 1;
    fill_piece(map_of(p), bytes.data(), 16);
    float value = 0;
    std::memcpy(&value, bytes.data() + 12, 4);
    CHECK(value != value);
    p.data_type = 6;
    fill_piece(map_of(p), bytes.data(), 2);
    CHECK(bytes[0] == std::byte{0xff});
    CHECK(bytes[1] == std::byte{0x7f});
}

TEST_CASE("a tensor map is refused for what cuTensorMapEncodeTiled refuses", "[emulator]") {
    const auto fault = [](auto change) {
        TensorMapParameters p = cube();
        change(p);
        return encode_tensor_map(p).error.value_or("");
    };
    CHECK(fault([](auto&) {}).empty());
    CHECK_THAT(fault([](auto& p) { p.rank = 0; }), ContainsSubstring("rank is 0"));
    CHECK_THAT(fault([](auto& p) { p.rank = 6; }), ContainsSubstring("rank is 6"));
    CHECK_THAT(fault([](auto& p) { p.address += 8; }), ContainsSubstring("address"));
    CHECK_THAT(fault([](auto& p) { p.dimensions[1] = 0; }), ContainsSubstring("dimension 1"));
    CHECK_THAT(fault([](auto& p) { p.dimensions[1] = (1ULL << 32) + 1; }),
               ContainsSubstring("dimension 1"));
    CHECK_THAT(fault([](auto& p) { p.strides[0] = 120; }), ContainsSubstring("stride"));
    CHECK_THAT(fault([](auto& p) { p.strides[1] = 1ULL << 40; }), ContainsSubstring("stride"));
    CHECK_THAT(fault([](auto& p) { p.box[2] = 0; }), ContainsSubstring("box"));
    CHECK_THAT(fault([](auto& p) { p.box[2] = 257; }), ContainsSubstring("box"));
    CHECK_THAT(fault([](auto& p) { p.box[0] = 6; }), ContainsSubstring("24 bytes wide"));
    CHECK_THAT(fault([](auto& p) { p.element_strides[1] = 9; }), ContainsSubstring("element"));
    CHECK_THAT(fault([](auto& p) { p.swizzle = 7; }), ContainsSubstring("enumeration"));
    CHECK_THAT(fault([](auto& p) { p.data_type = 16; }), ContainsSubstring("data type"));
    CHECK_THAT(fault([](auto& p) {
                   p.data_type = 2;
                   p.fill = 1;
               }),
               ContainsSubstring("NaN"));
    CHECK_THAT(fault([](auto& p) {
                   p.box[0] = 16;
                   p.swizzle = 1;
               }),
               ContainsSubstring("at most the swizzle's 32"));
    // Not wrong, but not emulated.
    CHECK_THAT(fault([](auto& p) { p.interleave = 1; }), ContainsSubstring("not emulated"));
    CHECK_THAT(fault([](auto& p) { p.swizzle = 4; }), ContainsSubstring("not emulated"));
    CHECK_THAT(fault([](auto& p) { p.data_type = 11; }), ContainsSubstring("not emulated"));
    CHECK_THAT(fault([](auto& p) { p.swizzle = 3; }), ContainsSubstring("not emulated"));
}

TEST_CASE("bytes that are no tensor map are not read as one", "[emulator]") {
    std::array<std::byte, 128> bytes{};
    CHECK_FALSE(decode_tensor_map(bytes.data()).has_value());
    bytes = encode_tensor_map(cube()).bytes;
    CHECK(decode_tensor_map(bytes.data()).has_value());
    bytes[16] = std::byte{0};  // the first dimension
    CHECK_FALSE(decode_tensor_map(bytes.data()).has_value());
}

TEST_CASE("tensor copies demand the map's rank and aligned shared memory", "[emulator]") {
    const TensorMap map = map_of(cube());
    CHECK_FALSE(tile_fault(map, 3, 256).has_value());
    CHECK_THAT(*tile_fault(map, 2, 256), ContainsSubstring("2 coordinates"));
    CHECK_THAT(*tile_fault(map, 3, 64), ContainsSubstring("multiple of 128"));
    CHECK(map.type == Type::f32);
    CHECK(map.box_bytes == 8 * 4 * 2 * 4);
}
