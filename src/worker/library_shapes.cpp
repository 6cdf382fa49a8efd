// SPDX-License-Identifier: Apache-2.0
#include "worker/library_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernelforge/error.hpp"
#include "worker/library/parameters.hpp"

namespace kernelforge::worker::library {

namespace {

using Argument = plan::ResolvedCallArgument;

/// The arguments of a call by key.
class Arguments {
  public:
    explicit Arguments(const plan::ResolvedCall& call) : call_(call) {}

    [[nodiscard]] const Argument* find(std::string_view key) const {
        const auto at = std::find_if(call_.arguments.begin(), call_.arguments.end(),
                                     [&](const Argument& each) { return each.key == key; });
        return at == call_.arguments.end() ? nullptr : &*at;
    }
    [[nodiscard]] Operand buffer(std::string_view key) const {
        const Argument* found = find(key);
        if (found == nullptr) return {};
        return {found->name, found->dtype};
    }
    [[nodiscard]] const Argument& at(std::string_view key) const {
        const Argument* found = find(key);
        if (found == nullptr) fail(key, "is missing");
        return *found;
    }
    /// An integer of at least `least`; `otherwise` where it is not given.
    [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise,
                                       std::int64_t least = 1) const {
        const Argument* found = find(key);
        const std::int64_t value = found == nullptr ? otherwise : found->integer;
        if (value < least) fail(key, fmt::format("is {}, expected at least {}", value, least));
        return value;
    }
    [[nodiscard]] double number(std::string_view key, double otherwise) const {
        const Argument* found = find(key);
        if (found == nullptr) return otherwise;
        return found->kind == plan::CallArgument::Kind::integer
                   ? static_cast<double>(found->integer)
                   : found->floating;
    }
    /// Index of a word among `words`; 0 where it is not given.
    [[nodiscard]] std::size_t word(std::string_view key,
                                   std::initializer_list<std::string_view> words) const {
        const Argument* found = find(key);
        if (found == nullptr) return 0;
        const auto* const at = std::find(words.begin(), words.end(), found->name);
        if (at == words.end()) fail(key, "is '" + found->name + "', which is not one of its words");
        return static_cast<std::size_t>(at - words.begin());
    }
    [[nodiscard]] std::int64_t elements(std::string_view key) const {
        std::int64_t count = 1;
        for (const std::int64_t extent : at(key).shape) {
            if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) {
                fail(key, "has an impossible shape");
            }
        }
        return count;
    }
    void expect_elements(std::string_view key, std::int64_t expected) const {
        const std::int64_t found = elements(key);
        if (found != expected) {
            fail(key, fmt::format("has {} elements, expected {}", found, expected));
        }
    }
    [[nodiscard]] std::int64_t product(std::string_view key,
                                       std::initializer_list<std::int64_t> factors) const {
        std::int64_t count = 1;
        for (const std::int64_t factor : factors) {
            if (__builtin_mul_overflow(count, factor, &count)) {
                fail(key, "would have more elements than 63 bits count");
            }
        }
        return count;
    }
    void expect_type(std::string_view key, std::string_view type) const {
        if (at(key).dtype != type) {
            fail(key, fmt::format("holds {}, expected {}", at(key).dtype, type));
        }
    }

    [[noreturn]] void fail(std::string_view key, const std::string& message) const {
        const Argument* found = find(key);
        std::string subject(key);
        if (found != nullptr && found->kind == plan::CallArgument::Kind::buffer) {
            subject += "=" + found->name;
        }
        throw Error(ErrorCode::invalid_argument, call_.position,
                    call_.function + ": " + subject + " " + message);
    }

  private:
    const plan::ResolvedCall& call_;
};

struct Matrix {
    std::int64_t rows = 1;
    std::int64_t columns = 1;
};

/// Of one matrix of the batch, as stored.
Matrix stored(const Arguments& call, std::string_view key, std::int64_t batch) {
    const Argument& buffer = call.at(key);
    Matrix result;
    if (!buffer.shape.empty()) result.columns = buffer.shape.back();
    const std::int64_t count = call.elements(key);
    if (count == 0) call.fail(key, "is empty");
    result.rows = count / result.columns;
    if (result.rows % batch != 0) {
        call.fail(key,
                  fmt::format("has {} rows, which batch={} does not divide", result.rows, batch));
    }
    result.rows /= batch;
    return result;
}

Matrix operated(const Arguments& call, std::string_view key, std::int64_t batch) {
    Matrix matrix = stored(call, key, batch);
    if (call.at(key).transposed) std::swap(matrix.rows, matrix.columns);
    return matrix;
}

void expect_matrix(const Arguments& call, std::string_view key, std::int64_t batch,
                   std::int64_t rows, std::int64_t columns) {
    const Matrix found = operated(call, key, batch);
    if (found.rows != rows || found.columns != columns) {
        call.fail(key, fmt::format("is {} x {}, expected {} x {}", found.rows, found.columns, rows,
                                   columns));
    }
}

SdpaShape::Rows rows_of(const Arguments& call, std::string_view key, const std::string& prefix,
                        std::int64_t count, std::int64_t width) {
    SdpaShape::Rows rows;
    rows.buffer = call.buffer(key);
    rows.offset = call.integer(prefix + "_offset", 0, 0);
    rows.stride = call.integer(prefix + "_stride", width, width);
    const std::int64_t last = call.product(key, {count - 1, rows.stride});
    const std::int64_t have = call.elements(key);
    if (rows.offset > have || last > have - rows.offset || width > have - rows.offset - last) {
        call.fail(key, fmt::format("has {} elements, too few for {} rows of {} with offset {} and "
                                   "stride {}",
                                   have, count, width, rows.offset, rows.stride));
    }
    return rows;
}

std::string operand_key(const Operand& operand, bool transposed) {
    if (!operand.given()) return "-";
    return operand.dtype + (transposed ? "^T" : "");
}

}  // namespace

std::size_t element_bytes(std::string_view dtype) {
    constexpr std::pair<std::string_view, std::size_t> sizes[] = {
        {"f64", 8}, {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"e4m3", 1}, {"e5m2", 1}, {"i8", 1},
        {"i16", 2}, {"i32", 4}, {"i64", 8}, {"u8", 1},   {"u16", 2},  {"u32", 4},  {"u64", 8}};
    for (const auto& [name, bytes] : sizes) {
        if (name == dtype) return bytes;
    }
    throw Error(ErrorCode::invalid_argument,
                "library step: '" + std::string(dtype) + "' is not an element type that it knows");
}

std::string MatmulShape::key() const {
    constexpr std::array<std::string_view, 3> epilogues = {"none", "relu", "gelu"};
    return fmt::format(
        "matmul m={} n={} k={} batch={} A={} B={} C={}{} D={} bias={} scales={}{} "
        "epilogue={} compute={}",
        m, n, k, batch, operand_key(a, a_transposed), operand_key(b, b_transposed),
        operand_key(c, false), in_place() ? " in place" : "", d.dtype, operand_key(bias, false),
        a_scale.given() ? "A" : "", b_scale.given() ? "B" : "",
        epilogues[static_cast<std::size_t>(epilogue)], tf32 ? "tf32" : "f32");
}

MatmulShape matmul_shape(const plan::ResolvedCall& resolved) {
    const Arguments call(resolved);
    MatmulShape shape;
    shape.batch = call.integer("batch", 1);
    const Matrix a = operated(call, "A", shape.batch);
    shape.m = a.rows;
    shape.k = a.columns;
    shape.n = operated(call, "B", shape.batch).columns;
    expect_matrix(call, "B", shape.batch, shape.k, shape.n);
    expect_matrix(call, "D", shape.batch, shape.m, shape.n);
    if (call.find("C") != nullptr) {
        expect_matrix(call, "C", shape.batch, shape.m, shape.n);
        call.expect_type("C", call.at("D").dtype);
    }
    if (call.find("bias") != nullptr) call.expect_elements("bias", shape.n);
    for (const std::string_view scale : {"A_scale", "B_scale"}) {
        if (call.find(scale) == nullptr) continue;
        call.expect_elements(scale, 1);
        call.expect_type(scale, "f32");
        if (element_bytes(call.at("A").dtype) != 1) {
            call.fail(scale, "is for A and B of 8-bit floats");
        }
    }
    shape.a = call.buffer("A");
    shape.b = call.buffer("B");
    shape.c = call.buffer("C");
    shape.d = call.buffer("D");
    shape.bias = call.buffer("bias");
    shape.a_scale = call.buffer("A_scale");
    shape.b_scale = call.buffer("B_scale");
    shape.a_transposed = call.at("A").transposed;
    shape.b_transposed = call.at("B").transposed;
    shape.epilogue =
        static_cast<MatmulShape::Epilogue>(call.word("epilogue", {"none", "relu", "gelu"}));
    shape.alpha = call.number("alpha", 1.0);
    shape.beta = shape.c.given() ? call.number("beta", 1.0) : 0.0;
    shape.tf32 = call.word("compute", {"f32", "tf32"}) == 1;
    if (shape.tf32 && shape.a.dtype != "f32") call.fail("compute", "is tf32, which is for f32");
    return shape;
}

SdpaShape sdpa_shape(const plan::ResolvedCall& resolved) {
    const Arguments call(resolved);
    SdpaShape shape;
    shape.batch = call.integer("batch", 1);
    shape.heads = call.integer("heads", 1);
    shape.kv_heads = call.integer("kv_heads", shape.heads);
    shape.q_len = call.integer("q_len", 1);
    shape.kv_len = call.integer("kv_len", 1);
    shape.dim = call.integer("dim", 1);
    shape.causal = call.integer("causal", 0, 0) != 0;
    shape.scale = call.number("scale", 1.0);
    if (shape.heads % shape.kv_heads != 0) {
        call.fail("kv_heads", fmt::format("is {}, which does not divide heads={}", shape.kv_heads,
                                          shape.heads));
    }
    if (shape.causal && shape.q_len != shape.kv_len) {
        call.fail("causal", fmt::format("is 1 with q_len={} and kv_len={}, expected equal lengths",
                                        shape.q_len, shape.kv_len));
    }
    const std::string& type = call.at("Q").dtype;
    if (type != "f16" && type != "bf16") call.fail("Q", "holds " + type + ", expected f16 or bf16");
    for (const std::string_view key : {"K", "V", "O"}) call.expect_type(key, type);
    const std::int64_t q_rows = call.product("Q", {shape.batch, shape.q_len});
    const std::int64_t kv_rows = call.product("K", {shape.batch, shape.kv_len});
    const std::int64_t q_width = call.product("Q", {shape.heads, shape.dim});
    const std::int64_t kv_width = call.product("K", {shape.kv_heads, shape.dim});
    shape.q = rows_of(call, "Q", "q", q_rows, q_width);
    shape.k = rows_of(call, "K", "k", kv_rows, kv_width);
    shape.v = rows_of(call, "V", "v", kv_rows, kv_width);
    shape.o = rows_of(call, "O", "o", q_rows, q_width);
    shape.lse = call.buffer("lse");
    if (shape.lse.given()) {
        call.expect_type("lse", "f32");
        call.expect_elements("lse", call.product("lse", {q_rows, shape.heads}));
    }
    return shape;
}

ReduceShape reduce_shape(const plan::ResolvedCall& resolved) {
    const Arguments call(resolved);
    ReduceShape shape;
    shape.outer = call.integer("outer", 1);
    shape.n = call.integer("n", 1);
    shape.inner = call.integer("inner", 1);
    call.expect_elements("A", call.product("A", {shape.outer, shape.n, shape.inner}));
    call.expect_elements("D", call.product("D", {shape.outer, shape.inner}));
    shape.in = call.buffer("A");
    shape.out = call.buffer("D");
    static_cast<void>(call.at("op"));
    shape.operation =
        static_cast<ReduceShape::Operation>(call.word("op", {"sum", "max", "min", "mean"}));
    const bool whole = shape.in.dtype.front() == 'i';
    if (whole && shape.operation == ReduceShape::Operation::mean) {
        call.fail("op", "is mean, which is for floating-point types, found " + shape.in.dtype);
    }
    return shape;
}

SortShape sort_shape(const plan::ResolvedCall& resolved) {
    const Arguments call(resolved);
    SortShape shape;
    shape.n = call.integer("n", 1);
    const std::int64_t count = call.elements("A");
    if (count == 0 || count % shape.n != 0) {
        call.fail("A", fmt::format("has {} elements, which n={} does not divide", count, shape.n));
    }
    shape.rows = count / shape.n;
    shape.descending = call.integer("descending", 0, 0) != 0;
    call.expect_elements("D", count);
    call.expect_type("D", call.at("A").dtype);
    shape.in = call.buffer("A");
    shape.out = call.buffer("D");
    shape.values = call.buffer("values");
    shape.values_out = call.buffer("values_out");
    if (shape.values.given() != shape.values_out.given()) {
        call.fail("values", "and values_out go together");
    }
    if (shape.values.given()) {
        call.expect_elements("values", count);
        call.expect_elements("values_out", count);
        call.expect_type("values_out", shape.values.dtype);
    }
    return shape;
}

ReduceSplit split_reduction(const ReduceShape& shape, int multiprocessors) {
    constexpr std::int64_t least_contiguous = 4096;
    constexpr std::int64_t least_rows = 128;
    constexpr std::int64_t blocks_a_multiprocessor = 4;
    const bool contiguous = shape.inner == 1;
    const std::int64_t tiles =
        contiguous ? 1 : (shape.inner + reduce_column_lanes - 1) / reduce_column_lanes;
    const std::int64_t blocks = std::max<std::int64_t>(1, shape.outer * tiles);
    const std::int64_t wanted = std::max(1, multiprocessors) * blocks_a_multiprocessor / blocks;
    const std::int64_t least = contiguous ? least_contiguous : least_rows;
    ReduceSplit split{1, shape.n};
    if (wanted <= 1 || shape.n < 2 * least) return split;
    const std::int64_t parts = std::min(wanted, shape.n / least);
    constexpr std::int64_t unit = reduce_vector_bytes;  // so that parts of any type start aligned
    split.chunk = ((shape.n + parts - 1) / parts + unit - 1) / unit * unit;
    split.splits = (shape.n + split.chunk - 1) / split.chunk;
    return split;
}

}  // namespace kernelforge::worker::library
