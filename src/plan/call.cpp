// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "plan/directive.hpp"
#include "plan/steps.hpp"

// `//@call function(key=value, …)`: the functions with their keys, and what each demands of shapes
// and types. docs/candidate_format.md has the same table in words.

namespace kernelforge::plan {
namespace {

enum class Role { read, read_or_transposed, written, word, integer, floating };

struct Key {
    std::string_view name;
    Role role = Role::read;
    bool required = false;
    std::string_view words = {};  ///< of a word, separated by blanks
};

class Checker;

struct Function {
    std::string_view name;
    std::span<const Key> keys;
    void (*check)(const Checker& call);
};

/// The arguments of one call by key, and errors at their place.
class Checker {
  public:
    Checker(const Call& call, const ResolvedCall& resolved) : call_(call), resolved_(resolved) {}

    [[nodiscard]] const ResolvedCallArgument* find(std::string_view key) const {
        return resolved_.find(key);
    }
    /// Of a key that the parser demands.
    [[nodiscard]] const ResolvedCallArgument& at(std::string_view key) const {
        const ResolvedCallArgument* found = find(key);
        if (found == nullptr) fail(key, "is missing");
        return *found;
    }
    [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const {
        const ResolvedCallArgument* found = find(key);
        return found == nullptr ? otherwise : found->integer;
    }
    /// An integer in a range. @throws Error
    [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise,
                                       std::int64_t low, std::int64_t high) const {
        const std::int64_t value = integer(key, otherwise);
        if (value < low || value > high) {
            fail(key, "is " + std::to_string(value) + ", expected " + std::to_string(low) + " to " +
                          std::to_string(high));
        }
        return value;
    }
    void expect_type(std::string_view key, std::initializer_list<std::string_view> types) const {
        const std::string& type = at(key).dtype;
        if (std::find(types.begin(), types.end(), type) != types.end()) return;
        std::string list;
        for (const std::string_view each : types)
            list += (list.empty() ? "" : " or ") + std::string(each);
        fail(key, "holds " + type + ", expected " + list);
    }
    void expect_elements(std::string_view key, std::int64_t count, const std::string& why) const {
        const std::int64_t found = elements(key);
        if (found == count) return;
        fail(key, "has " + std::to_string(found) + " elements, expected " + std::to_string(count) +
                      " (" + why + ")");
    }
    [[nodiscard]] std::int64_t elements(std::string_view key) const {
        std::int64_t count = 1;
        for (const std::int64_t extent : at(key).shape) count = times(count, extent);
        return count;
    }
    /// Saturates, so that an impossible number fits nothing.
    [[nodiscard]] static std::int64_t times(std::int64_t a, std::int64_t b) {
        std::int64_t product = 0;
        return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
    }
    [[nodiscard]] static std::int64_t plus(std::int64_t a, std::int64_t b) {
        std::int64_t sum = 0;
        return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
    }

    /// "matmul: A=x holds f32, …" at the argument, or at the call where it is absent.
    [[noreturn]] void fail(std::string_view key, const std::string& message) const {
        SourcePosition position = call_.position;
        std::string subject(key);
        for (const CallArgument& each : call_.arguments) {
            if (each.key != key) continue;
            position = each.position;
            if (each.kind == CallArgument::Kind::buffer) subject += "=" + each.name;
        }
        throw Error(ErrorCode::invalid_argument, position,
                    call_.function + ": " + subject + " " + message);
    }

  private:
    const Call& call_;
    const ResolvedCall& resolved_;
};

// --- matmul ---------------------------------------------------------------------------------

constexpr Key matmul_keys[] = {{"D", Role::written, true},
                               {"A", Role::read_or_transposed, true},
                               {"B", Role::read_or_transposed, true},
                               {"C", Role::read},
                               {"bias", Role::read},
                               {"epilogue", Role::word, false, "none relu gelu"},
                               {"alpha", Role::floating},
                               {"beta", Role::floating},
                               {"A_scale", Role::read},
                               {"B_scale", Role::read},
                               {"compute", Role::word, false, "f32 tf32"},
                               {"batch", Role::integer}};

/// One matrix of a batch, after transposition.
struct Matrix {
    std::int64_t rows = 1;
    std::int64_t columns = 1;
};

std::string to_text(const Matrix& matrix) {
    return std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns);
}

Matrix matrix(const Checker& call, std::string_view key, std::int64_t batch) {
    const ResolvedCallArgument& buffer = call.at(key);
    Matrix result;
    if (!buffer.shape.empty()) result.columns = buffer.shape.back();
    for (std::size_t i = 0; i + 1 < buffer.shape.size(); ++i)
        result.rows = Checker::times(result.rows, buffer.shape[i]);
    if (result.rows % batch != 0) {
        call.fail(key, "has " + std::to_string(result.rows) +
                           " rows, which batch=" + std::to_string(batch) + " does not divide");
    }
    result.rows /= batch;
    if (buffer.transposed) std::swap(result.rows, result.columns);
    return result;
}

bool is_fp8(const std::string& type) {
    return type == "e4m3" || type == "e5m2";
}

void check_fp8(const Checker& call, const Matrix& a, const Matrix& b) {
    constexpr std::int64_t unit = 16;  // cuBLASLt, "FP8 Usage"
    call.expect_type("B", {"e4m3", "e5m2"});
    if (call.at("A").dtype == "e5m2" && call.at("B").dtype == "e5m2")
        call.fail("B", "holds e5m2 as A does, expected e4m3 for one of them");
    if (call.at("A").transposed) call.fail("A", "is transposed, which 8-bit floats cannot be");
    if (!call.at("B").transposed)
        call.fail("B",
                  "is not transposed, expected B=" + call.at("B").name + "^T for 8-bit floats");
    if (a.columns % unit != 0 || b.columns % unit != 0) {
        call.fail("B", "is " + to_text(b) + " after transposition, expected multiples of " +
                           std::to_string(unit) + " for 8-bit floats");
    }
    call.expect_type("D", {"f32", "bf16", "f16"});
    for (const std::string_view scale : {"A_scale", "B_scale"}) {
        if (call.find(scale) == nullptr) continue;
        call.expect_type(scale, {"f32"});
        call.expect_elements(scale, 1, "one scale for the tensor");
    }
}

void check_matmul_types(const Checker& call, const Matrix& a, const Matrix& b) {
    call.expect_type("A", {"f64", "f32", "f16", "bf16", "e4m3", "e5m2"});
    const std::string& type = call.at("A").dtype;
    const ResolvedCallArgument* compute = call.find("compute");
    if (compute != nullptr && compute->name == "tf32" && type != "f32")
        call.fail("compute", "is tf32, which is for A and B of f32, found " + type);
    if (is_fp8(type)) return check_fp8(call, a, b);
    for (const std::string_view scale : {"A_scale", "B_scale"}) {
        if (call.find(scale) != nullptr)
            call.fail(scale, "is for A and B of 8-bit floats, found " + type);
    }
    call.expect_type("B", {type});
    if (type == "f16" || type == "bf16")
        call.expect_type("D", {type, "f32"});
    else
        call.expect_type("D", {type});
}

void check_matmul(const Checker& call) {
    const std::int64_t batch = call.integer("batch", 1, 1, INT32_MAX);
    const Matrix a = matrix(call, "A", batch);
    const Matrix b = matrix(call, "B", batch);
    const Matrix d = matrix(call, "D", batch);
    if (a.columns != b.rows) {
        call.fail("B", "is " + to_text(b) + " and A is " + to_text(a) + ", expected " +
                           std::to_string(a.columns) + " rows of B");
    }
    if (d.rows != a.rows || d.columns != b.columns) {
        call.fail("D", "is " + to_text(d) + ", expected " + to_text(Matrix{a.rows, b.columns}));
    }
    check_matmul_types(call, a, b);
    if (call.find("C") != nullptr) {
        const Matrix c = matrix(call, "C", batch);
        if (c.rows != d.rows || c.columns != d.columns)
            call.fail("C", "is " + to_text(c) + ", expected " + to_text(d) + " as D");
        call.expect_type("C", {call.at("D").dtype});
    } else if (call.find("beta") != nullptr) {
        call.fail("beta", "is given without C");
    }
    if (call.find("bias") != nullptr) {
        call.expect_elements("bias", d.columns, "one for each column of D");
        call.expect_type("bias", {call.at("D").dtype, "bf16"});
    }
}

// --- sdpa -----------------------------------------------------------------------------------

constexpr Key sdpa_keys[] = {
    {"O", Role::written, true},      {"Q", Role::read, true},      {"K", Role::read, true},
    {"V", Role::read, true},         {"lse", Role::written},       {"batch", Role::integer, true},
    {"heads", Role::integer, true},  {"kv_heads", Role::integer},  {"q_len", Role::integer, true},
    {"kv_len", Role::integer, true}, {"dim", Role::integer, true}, {"causal", Role::integer},
    {"scale", Role::floating, true}, {"q_offset", Role::integer},  {"k_offset", Role::integer},
    {"v_offset", Role::integer},     {"o_offset", Role::integer},  {"q_stride", Role::integer},
    {"k_stride", Role::integer},     {"v_stride", Role::integer},  {"o_stride", Role::integer}};

/// One of Q, K, V, O: `rows` rows of `width` elements, each `stride` after the last.
void check_rows(const Checker& call, std::string_view key, std::string_view prefix,
                std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t unit = 8;  // 16 bytes, which the library's kernels load at once
    const std::string offset_key = std::string(prefix) + "_offset";
    const std::string stride_key = std::string(prefix) + "_stride";
    const std::int64_t offset = call.integer(offset_key, 0, 0, INT64_MAX);
    const std::int64_t stride = call.integer(stride_key, width, width, INT64_MAX);
    for (const std::string& each : {offset_key, stride_key}) {
        if (call.integer(each, 0) % unit != 0)
            call.fail(each, "is " + std::to_string(call.integer(each, 0)) +
                                ", expected a multiple of " + std::to_string(unit));
    }
    const std::int64_t needed =
        Checker::plus(Checker::plus(offset, Checker::times(rows - 1, stride)), width);
    if (needed <= call.elements(key)) return;
    call.fail(key, "has " + std::to_string(call.elements(key)) + " elements, " +
                       std::to_string(rows) + " rows of " + std::to_string(width) +
                       " with offset " + std::to_string(offset) + " and stride " +
                       std::to_string(stride) + " need " + std::to_string(needed));
}

void check_sdpa(const Checker& call) {
    constexpr std::int64_t most = INT32_MAX;
    const std::int64_t batch = call.integer("batch", 1, 1, most);
    const std::int64_t heads = call.integer("heads", 1, 1, most);
    const std::int64_t kv_heads = call.integer("kv_heads", heads, 1, heads);
    const std::int64_t q_len = call.integer("q_len", 1, 1, most);
    const std::int64_t kv_len = call.integer("kv_len", 1, 1, most);
    const std::int64_t dim = call.integer("dim", 8, 8, 256);
    if (dim % 8 != 0) call.fail("dim", "is " + std::to_string(dim) + ", expected a multiple of 8");
    if (heads % kv_heads != 0) {
        call.fail("kv_heads", "is " + std::to_string(kv_heads) +
                                  ", which does not divide heads=" + std::to_string(heads));
    }
    if (call.integer("causal", 0, 0, 1) == 1 && q_len != kv_len) {
        call.fail("causal", "is 1 with q_len=" + std::to_string(q_len) + " and kv_len=" +
                                std::to_string(kv_len) + ", expected equal lengths");
    }
    call.expect_type("Q", {"bf16", "f16"});
    for (const std::string_view key : {"K", "V", "O"}) call.expect_type(key, {call.at("Q").dtype});
    check_rows(call, "Q", "q", Checker::times(batch, q_len), Checker::times(heads, dim));
    check_rows(call, "K", "k", Checker::times(batch, kv_len), Checker::times(kv_heads, dim));
    check_rows(call, "V", "v", Checker::times(batch, kv_len), Checker::times(kv_heads, dim));
    check_rows(call, "O", "o", Checker::times(batch, q_len), Checker::times(heads, dim));
    if (call.find("lse") == nullptr) return;
    call.expect_type("lse", {"f32"});
    call.expect_elements("lse", Checker::times(Checker::times(batch, heads), q_len),
                         "batch * heads * q_len");
}

// --- reduce and sort ------------------------------------------------------------------------

constexpr Key reduce_keys[] = {{"D", Role::written, true},
                               {"A", Role::read, true},
                               {"op", Role::word, true, "sum max min mean"},
                               {"outer", Role::integer, true},
                               {"n", Role::integer, true},
                               {"inner", Role::integer}};

void check_reduce(const Checker& call) {
    const std::int64_t outer = call.integer("outer", 1, 1, INT64_MAX);
    const std::int64_t n = call.integer("n", 1, 1, INT64_MAX);
    const std::int64_t inner = call.integer("inner", 1, 1, INT64_MAX);
    call.expect_elements("A", Checker::times(Checker::times(outer, n), inner), "outer * n * inner");
    call.expect_elements("D", Checker::times(outer, inner), "outer * inner");
    call.expect_type("A", {"f32", "f64", "f16", "bf16", "i32", "i64"});
    const std::string& type = call.at("A").dtype;
    const bool floating = is_floating_type(type);
    if (!floating && call.at("op").name == "mean")
        call.fail("op", "is mean, which is for floating-point types, found " + type);
    // The type in which it is accumulated.
    const std::string_view wide = type == "f64" ? "f64" : floating ? "f32" : "i64";
    call.expect_type("D", {type, wide});
}

constexpr Key sort_keys[] = {{"D", Role::written, true}, {"A", Role::read, true},
                             {"values", Role::read},     {"values_out", Role::written},
                             {"n", Role::integer, true}, {"descending", Role::integer}};

void check_sort(const Checker& call) {
    const std::int64_t count = call.elements("A");
    const std::int64_t n = call.integer("n", 1, 1, INT32_MAX);
    if (count % n != 0) {
        call.fail("A", "has " + std::to_string(count) + " elements, which n=" + std::to_string(n) +
                           " does not divide");
    }
    static_cast<void>(call.integer("descending", 0, 0, 1));
    call.expect_type("A", {"f32", "f64", "f16", "bf16", "i32", "i64"});
    call.expect_type("D", {call.at("A").dtype});
    call.expect_elements("D", count, "as A");
    const bool values = call.find("values") != nullptr;
    if (values != (call.find("values_out") != nullptr)) {
        call.fail(values ? "values" : "values_out",
                  "is given without " + std::string(values ? "values_out" : "values"));
    }
    if (!values) return;
    call.expect_type("values", {"i32", "i64"});
    call.expect_type("values_out", {call.at("values").dtype});
    call.expect_elements("values", count, "as A");
    call.expect_elements("values_out", count, "as A");
}

constexpr Function functions[] = {{"matmul", matmul_keys, check_matmul},
                                  {"sdpa", sdpa_keys, check_sdpa},
                                  {"reduce", reduce_keys, check_reduce},
                                  {"sort", sort_keys, check_sort}};

const Function* find_function(std::string_view name) {
    const auto* const found = std::find_if(std::begin(functions), std::end(functions),
                                           [&](const Function& f) { return f.name == name; });
    return found == std::end(functions) ? nullptr : found;
}

const Key* find_key(const Function& function, std::string_view name) {
    const auto found = std::find_if(function.keys.begin(), function.keys.end(),
                                    [&](const Key& key) { return key.name == name; });
    return found == function.keys.end() ? nullptr : &*found;
}

// --- parsing --------------------------------------------------------------------------------

/// `name`, `name:e4m3`, `name^T`, `name:e4m3^T`.
void parse_buffer(const Piece& value, const Key& key, const Scope& scope, CallArgument& argument) {
    Piece rest = value;
    const Piece name = take_identifier(rest, "a buffer");
    argument.name = std::string(name.text());
    if (scope.scalar(argument.name) != nullptr)
        name.fail("'" + argument.name + "' is a scalar input, expected a buffer");
    if (!scope.is_buffer(argument.name)) {
        name.fail("unknown buffer '" + argument.name + "'" +
                  known_names(argument.name, scope.buffers()));
    }
    if (key.role == Role::written && scope.is_input(argument.name))
        name.fail("'" + argument.name + "' is an input, which cannot be written");
    if (take_sign(rest, ":")) {
        const Piece type = take_identifier(rest, "e4m3 or e5m2");
        argument.type = std::string(type.text());
        if (argument.type != "e4m3" && argument.type != "e5m2") type.expected("e4m3 or e5m2");
        const TensorSpec* tensor = scope.tensor(argument.name);
        const std::size_t bits = tensor != nullptr
                                     ? bits_of(tensor->dtype)
                                     : scope.workspace(argument.name)->element_bytes * 8;
        if (bits != 8)
            type.fail("'" + argument.name + "' has elements of " + std::to_string(bits) +
                      " bits, expected 8 for " + argument.type);
    }
    if (take_sign(rest, "^")) {
        if (!take_word(rest, "T")) rest.expected("'^T'");
        if (key.role != Role::read_or_transposed)
            value.fail(std::string(key.name) + "= cannot be transposed");
        argument.transposed = true;
    }
    expect_end(rest);
}

void parse_word(const Piece& value, const Key& key, CallArgument& argument) {
    std::string list;
    for (std::string_view rest = key.words; !rest.empty();) {
        const std::size_t blank = std::min(rest.find(' '), rest.size());
        const std::string_view word = rest.substr(0, blank);
        if (value.text() == word) {
            argument.name = std::string(word);
            return;
        }
        list += (list.empty() ? "" : ", ") + std::string(word);
        rest.remove_prefix(std::min(blank + 1, rest.size()));
    }
    value.expected("one of " + list);
}

CallArgument parse_argument(const Piece& part, const Function& function, const Scope& scope) {
    Piece rest = part;
    const Piece name = take_identifier(rest, "an argument as key=value");
    const Key* key = find_key(function, name.text());
    if (key == nullptr) {
        std::vector<std::string> known;
        for (const Key& each : function.keys) known.emplace_back(each.name);
        const std::string text(name.text());
        name.fail(std::string(function.name) + " has no argument '" + text + "'" +
                  known_names(text, known));
    }
    expect_sign(rest, "=");
    const Piece value = rest.trimmed();
    if (value.blank()) value.expected("a value for " + std::string(key->name) + "=");
    CallArgument argument;
    argument.key = std::string(key->name);
    argument.position = name.position();
    switch (key->role) {
        case Role::read:
        case Role::read_or_transposed:
        case Role::written:
            argument.kind = CallArgument::Kind::buffer;
            parse_buffer(value, *key, scope, argument);
            break;
        case Role::word:
            argument.kind = CallArgument::Kind::word;
            parse_word(value, *key, argument);
            break;
        case Role::integer:
            argument.kind = CallArgument::Kind::integer;
            argument.integer = scope.integer(value);
            if (scope.asks_occupancy(*argument.integer))
                value.fail("a library step cannot depend on OCC or CLUSTERS");
            break;
        case Role::floating:
            argument.kind = CallArgument::Kind::floating;
            argument.floating = scope.floating(value);
            break;
    }
    return argument;
}

/// What is written is nothing else of the same call, but for matmul's C, which D may overwrite.
void check_overlap(const Call& call) {
    for (const CallArgument& written : call.arguments) {
        if (!is_written(call, written)) continue;
        for (const CallArgument& other : call.arguments) {
            const bool buffer = other.kind == CallArgument::Kind::buffer;
            if (&other == &written || !buffer || other.name != written.name) continue;
            if (call.function == "matmul" && other.key == "C") continue;
            throw Error(ErrorCode::parse, other.position,
                        "'" + other.name + "' is " + other.key + "= and also written as " +
                            written.key + "=");
        }
    }
}

}  // namespace

Call parse_call(const Piece& piece, const Scope& scope) {
    Piece rest = piece;
    const Piece name = take_identifier(rest, "a library function");
    const Function* function = find_function(name.text());
    if (function == nullptr) {
        std::vector<std::string> known;
        for (const Function& each : functions) known.emplace_back(each.name);
        const std::string text(name.text());
        name.fail("unknown library function '" + text + "'" + known_names(text, known));
    }
    const std::optional<Piece> inside = inside_parentheses(rest);
    if (!inside) rest.expected("the arguments in parentheses");
    Call call;
    call.function = std::string(function->name);
    call.position = name.position();
    for (const Piece& part : split_commas(*inside)) {
        CallArgument argument = parse_argument(part, *function, scope);
        for (const CallArgument& other : call.arguments) {
            if (other.key == argument.key) part.fail(argument.key + "= is given twice");
        }
        call.arguments.push_back(std::move(argument));
    }
    for (const Key& key : function->keys) {
        const bool given =
            std::any_of(call.arguments.begin(), call.arguments.end(),
                        [&](const CallArgument& each) { return each.key == key.name; });
        if (key.required && !given)
            name.fail(call.function + " needs " + std::string(key.name) + "=");
    }
    check_overlap(call);
    return call;
}

bool is_written(const Call& call, const CallArgument& argument) {
    const Function* function = find_function(call.function);
    const Key* key = function == nullptr ? nullptr : find_key(*function, argument.key);
    return key != nullptr && key->role == Role::written;
}

void check_call(const Call& call, const ResolvedCall& resolved) {
    const Function* function = find_function(call.function);
    if (function == nullptr)
        throw Error(ErrorCode::invalid_argument, call.position,
                    "unknown library function '" + call.function + "'");
    function->check(Checker(call, resolved));
}

const ResolvedCallArgument* ResolvedCall::find(std::string_view key) const {
    for (const ResolvedCallArgument& each : arguments) {
        if (each.key == key) return &each;
    }
    return nullptr;
}

}  // namespace kernelforge::plan
