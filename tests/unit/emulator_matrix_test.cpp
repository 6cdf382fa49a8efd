// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstring>
#include <random>

#include "emulator/matrix_load.hpp"
#include "support/catch.hpp"
#include "unit/emulator_matrix.hpp"

using namespace kernelforge::emulator;
using namespace kernelforge::test;

TEST_CASE("ldmatrix spreads rows of eight over four lanes each", "[emulator]") {
    for (const int count : {1, 2, 4}) {
        for (const bool transposed : {false, true}) {
            CAPTURE(count, transposed);
            std::array<std::array<std::uint16_t, 8>, 32> memory;
            std::array<const std::byte*, 32> pointers{};
            for (std::size_t i = 0; i < 32; ++i) {
                for (std::size_t j = 0; j < 8; ++j) {
                    memory[i][j] = static_cast<std::uint16_t>(i * 8 + j);
                }
                if ((matrix_address_lanes(count) >> i & 1U) != 0) {
                    pointers[i] = reinterpret_cast<const std::byte*>(memory[i].data());
                }
            }
            Frame frame;
            MatrixOp op;
            op.count = count;
            op.transposed = transposed;
            std::array<RowRef, 5> operands{};
            for (int i = 0; i <= count; ++i) operands[static_cast<std::size_t>(i)] = frame.row(i);
            load_matrices(op, frame.rows(), operands.data(), pointers.data());
            for (int matrix = 0; matrix < count; ++matrix) {
                for (int lane = 0; lane < 32; ++lane) {
                    const int row = lane / 4, column = lane % 4 * 2;
                    const int low = transposed ? column * 8 + row : row * 8 + column;
                    const int high = transposed ? low + 8 : low + 1;
                    CHECK(frame.words(matrix)[lane] ==
                          static_cast<std::uint32_t>((matrix * 64 + low) |
                                                     ((matrix * 64 + high) << 16)));
                }
            }
        }
    }
}

TEST_CASE("stmatrix writes what ldmatrix reads, and movmatrix transposes it", "[emulator]") {
    std::mt19937 random(1);
    for (const int count : {1, 2, 4}) {
        for (const bool transposed : {false, true}) {
            CAPTURE(count, transposed);
            Frame frame;
            for (int i = 0; i < count; ++i) {
                for (int lane = 0; lane < 32; ++lane) {
                    frame.words(i + 1)[lane] = static_cast<std::uint32_t>(random());
                }
            }
            std::array<std::array<std::byte, 16>, 32> memory{};
            std::array<std::byte*, 32> pointers{};
            for (std::size_t i = 0; i < 32; ++i) pointers[i] = memory[(i * 5 + 3) % 32].data();
            MatrixOp op;
            op.count = count;
            op.transposed = transposed;
            std::array<RowRef, 5> operands{};
            for (int i = 0; i <= count; ++i) operands[static_cast<std::size_t>(i)] = frame.row(i);
            store_matrices(op, frame.rows(), operands.data(), pointers.data());

            const std::array<RowRef, 5> loaded{frame.row(10), frame.row(11), frame.row(12),
                                               frame.row(13), frame.row(0)};
            op.transposed = false;
            load_matrices(op, frame.rows(), loaded.data(), pointers.data());
            for (int i = 0; i < count; ++i) {
                if (transposed) {
                    const std::array<RowRef, 2> move{frame.row(10 + i), frame.row(10 + i)};
                    transpose_matrix(frame.rows(), move.data());
                }
                CHECK(std::memcmp(frame.words(i + 1), frame.words(10 + i), 128) == 0);
            }
        }
    }
}
