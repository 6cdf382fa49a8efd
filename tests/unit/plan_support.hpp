// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "plan/plan.hpp"

// What the tests of the plan share.

namespace kernelforge::plan::test {

/// x [rows, cols] float32, w [cols] bfloat16, eps float32, k int32 -> y [rows, cols] float32;
/// rows and batch are variable, cols is 1024, half is cols / 2.
inline Definition definition() {
    Definition result;
    result.name = "test";
    result.axes = {{"rows", Axis::Kind::variable, 0, "", ""},
                   {"cols", Axis::Kind::constant, 1024, "", ""},
                   {"batch", Axis::Kind::variable, 0, "", ""},
                   {"middle", Axis::Kind::expression, 0, "cols/2", ""}};
    result.inputs = {{"x", {"rows", "cols"}, false, DType::float32, ""},
                     {"w", {"cols"}, false, DType::bfloat16, ""},
                     {"eps", {}, true, DType::float32, ""},
                     {"k", {}, true, DType::int32, ""}};
    result.outputs = {{"y", {"rows", "cols"}, false, DType::float32, ""}};
    return result;
}

/// A device like an H200, and rows = 64.
inline Environment environment() {
    Environment result;
    result.axes = {{"rows", 64}, {"cols", 1024}, {"batch", 8}, {"middle", 512}};
    result.scalars = {{"eps", 1e-5}, {"k", 7}};
    result.tensors = {
        {"x", {{64, 1024}, 0}}, {"w", {{1024}, 0x7f0000010010}}, {"y", {{64, 1024}, 0}}};
    result.device.multiprocessors = 132;
    result.device.l2_bytes = 60 << 20;
    result.device.max_shared_bytes_per_block = 232448;
    result.device.memory_bytes = std::int64_t{141} << 30;
    return result;
}

inline constexpr const char* copy_kernel =
    "__global__ void copy(const float* __restrict__ x, float* __restrict__ y, int n) {}\n";

/// Plan lines in front of the kernel above.
inline std::string with_copy(const std::string& lines) {
    return lines + "\n" + copy_kernel;
}

inline Plan parse(const std::string& source) {
    return parse_plan(source, "c.cu", definition());
}

}  // namespace kernelforge::plan::test
