// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

// What the functions of `//@call` mean, with their shapes checked; no device, no library.

namespace kernelforge::worker::library {

/// A buffer of a call. `name` is empty where the argument was not given.
struct Operand {
    std::string name;
    std::string dtype;  ///< `f32 bf16 e4m3 i64 …`

    [[nodiscard]] bool given() const noexcept { return !name.empty(); }
};

/// Bytes of an element of a dtype name. @throws Error invalid_argument for a name that is not one
[[nodiscard]] std::size_t element_bytes(std::string_view dtype);

/// D = epilogue(alpha op(A) op(B) + beta C + bias), for each of `batch` matrices that lie one
/// behind the other. op(A) is `[m, k]`, op(B) `[k, n]`, C and D `[m, n]`, bias `[n]`; row-major.
struct MatmulShape {
    enum class Epilogue { none, relu, gelu };  ///< gelu: the tanh approximation
    Operand a;
    Operand b;
    Operand c;
    Operand d;
    Operand bias;
    Operand a_scale;  ///< f32, one element; A is multiplied by it (8-bit floats)
    Operand b_scale;
    bool a_transposed = false;  ///< A is stored as `[k, m]`
    bool b_transposed = false;  ///< B is stored as `[n, k]`
    std::int64_t m = 1;
    std::int64_t n = 1;
    std::int64_t k = 1;
    std::int64_t batch = 1;
    Epilogue epilogue = Epilogue::none;
    double alpha = 1.0;
    double beta = 0.0;  ///< 1 by default where there is a C
    bool tf32 = false;  ///< f32 operands may be rounded to tf32

    [[nodiscard]] bool in_place() const { return c.given() && c.name == d.name; }
    /// All that the choice of an algorithm depends on, on one line; no names, no alpha and beta.
    [[nodiscard]] std::string key() const;
};
/// @throws Error invalid_argument naming the key and what does not fit
[[nodiscard]] MatmulShape matmul_shape(const plan::ResolvedCall& call);

/// O = softmax(scale Q K^T) V for each head. Q, O `[batch, q_len, heads, dim]` and K, V
/// `[batch, kv_len, kv_heads, dim]`: rows (of all heads at one position) are `stride` elements
/// apart, the first is `offset` elements into the buffer.
struct SdpaShape {
    struct Rows {
        Operand buffer;
        std::int64_t offset = 0;
        std::int64_t stride = 0;
    };
    Rows q;
    Rows k;
    Rows v;
    Rows o;
    Operand lse;  ///< f32 `[batch, heads, q_len]`, natural logarithm
    std::int64_t batch = 1;
    std::int64_t heads = 1;
    std::int64_t kv_heads = 1;
    std::int64_t q_len = 1;
    std::int64_t kv_len = 1;
    std::int64_t dim = 1;
    bool causal = false;  ///< query i sees keys 0 to i; q_len is kv_len
    double scale = 1.0;
};
/// @throws Error invalid_argument
[[nodiscard]] SdpaShape sdpa_shape(const plan::ResolvedCall& call);

/// D `[outer, inner]` = op over the middle axis of A `[outer, n, inner]`.
struct ReduceShape {
    enum class Operation { sum, max, min, mean };
    Operand in;
    Operand out;
    Operation operation = Operation::sum;
    std::int64_t outer = 1;
    std::int64_t n = 1;
    std::int64_t inner = 1;
};
/// @throws Error invalid_argument
[[nodiscard]] ReduceShape reduce_shape(const plan::ResolvedCall& call);

/// D = A with each run of n elements sorted, stable; `values` move with their keys.
struct SortShape {
    Operand in;
    Operand out;
    Operand values;
    Operand values_out;
    std::int64_t rows = 1;
    std::int64_t n = 1;
    bool descending = false;
};
/// @throws Error invalid_argument
[[nodiscard]] SortShape sort_shape(const plan::ResolvedCall& call);

/// How a reduction is cut into blocks.
struct ReduceSplit {
    std::int64_t splits = 1;
    std::int64_t chunk = 1;  ///< of n, by each but the last
};
/// Splits the axis where the rows alone would leave multiprocessors idle. A part keeps at least
/// 4096 elements of a contiguous axis, or 128 rows of a strided one, so that the second launch
/// costs less than it gains.
[[nodiscard]] ReduceSplit split_reduction(const ReduceShape& shape, int multiprocessors);

}  // namespace kernelforge::worker::library
