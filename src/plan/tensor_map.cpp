// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "plan/directive.hpp"
#include "plan/steps.hpp"

// `//@tensormap NAME = BUFFER dims=(…) strides=(…) box=(…) …`

namespace kernelforge::plan {
namespace {

constexpr std::size_t most_dims = 5;
constexpr std::int64_t most_extent = std::int64_t{1} << 32;
constexpr std::int64_t most_stride = std::int64_t{1} << 40;
constexpr std::int64_t most_box = 256;
constexpr std::int64_t most_step = 8;
constexpr std::int64_t unit_bytes = 16;  // of addresses, strides and inner boxes

std::vector<Expression> numbers(const Piece& value, const Scope& scope, const std::string& what) {
    const std::optional<Piece> inside = inside_parentheses(value);
    if (!inside) value.expected(what + " in parentheses");
    std::vector<Expression> result;
    if (inside->blank()) return result;
    for (const Piece& part : split_commas(*inside)) result.push_back(scope.integer(part));
    if (result.size() > most_dims)
        value.fail("expected at most five " + what + ", found " + std::to_string(result.size()));
    return result;
}

template <class T, std::size_t N>
T one_of(const Piece& value, const std::array<std::pair<std::string_view, T>, N>& known,
         const std::string& what) {
    std::string list;
    for (const auto& [word, meaning] : known) {
        if (value.text() == word) return meaning;
        list += (list.empty() ? "" : ", ") + std::string(word);
    }
    value.expected(what + " (" + list + ")");
}

TensorMap::Swizzle swizzle(const Piece& value) {
    using enum TensorMap::Swizzle;
    static constexpr std::array<std::pair<std::string_view, TensorMap::Swizzle>, 4> known = {
        {{"none", none}, {"32B", bytes32}, {"64B", bytes64}, {"128B", bytes128}}};
    return one_of(value, known, "a swizzle");
}

TensorMap::L2Promotion l2_promotion(const Piece& value) {
    using enum TensorMap::L2Promotion;
    static constexpr std::array<std::pair<std::string_view, TensorMap::L2Promotion>, 4> known = {
        {{"none", none}, {"64B", bytes64}, {"128B", bytes128}, {"256B", bytes256}}};
    return one_of(value, known, "an L2 promotion");
}

bool nan_fill(const Piece& value) {
    static constexpr std::array<std::pair<std::string_view, bool>, 2> known = {
        {{"zero", false}, {"nan", true}}};
    return one_of(value, known, "a fill for out-of-bounds elements");
}

std::string written_type(const Piece& value) {
    const std::string_view text = value.text();
    if (text == "f8" || text == "e4m3" || text == "e5m2") return "u8";
    std::string type = scalar_type(text);
    if (type.empty())
        value.expected("an element type (i8 i16 i32 i64 u8 u16 u32 u64 f8 f16 bf16 f32 f64)");
    return type;
}

/// Splits `key=value` words, where a value in parentheses may hold blanks.
std::vector<std::pair<Piece, Piece>> properties(Piece rest) {
    std::vector<std::pair<Piece, Piece>> result;
    while (!rest.blank()) {
        const Piece key = take_identifier(rest, "a property");
        expect_sign(rest, "=");
        rest = rest.trimmed();
        const std::string_view text = rest.text();
        std::size_t length = 0;
        int depth = 0;
        for (; length < text.size() && (depth > 0 || !is_space(text[length])); ++length) {
            if (text[length] == '(') ++depth;
            if (text[length] == ')') --depth;
        }
        if (depth > 0) rest.fail("expected ')', found the end of the line");
        result.emplace_back(key, rest.sub(0, length));
        rest = rest.sub(length);
    }
    return result;
}

void set_property(const Piece& key, const Piece& value, const Scope& scope, TensorMap& map) {
    const std::string_view word = key.text();
    if (word == "dims") {
        map.dims = numbers(value, scope, "dims");
    } else if (word == "strides") {
        map.strides = numbers(value, scope, "strides");
    } else if (word == "box") {
        map.box = numbers(value, scope, "box extents");
    } else if (word == "steps") {
        map.steps = numbers(value, scope, "steps");
    } else if (word == "offset") {
        map.offset = scope.integer(value);
    } else if (word == "dtype") {
        map.dtype = written_type(value);
    } else if (word == "swizzle") {
        map.swizzle = swizzle(value);
    } else if (word == "l2") {
        map.l2 = l2_promotion(value);
    } else if (word == "oob") {
        map.nan_fill = nan_fill(value);
    } else {
        key.expected("dims, strides, box, steps, offset, dtype, swizzle, l2 or oob");
    }
}

void check_counts(const Piece& piece, const TensorMap& map) {
    const std::size_t dims = map.dims.size();
    const auto found = [](std::size_t count) { return ", found " + std::to_string(count); };
    if (dims < 1) piece.fail("a tensor map needs dims= with one to five extents");
    if (map.box.size() != dims)
        piece.fail("a tensor map needs box= with as many extents as dims=" + found(map.box.size()));
    if (map.strides.size() + 1 != dims) {
        piece.fail("a tensor map needs strides= with one value less than dims=" +
                   found(map.strides.size()));
    }
    if (!map.steps.empty() && map.steps.size() != dims)
        piece.fail("expected steps= with as many values as dims=" + found(map.steps.size()));
}

void check_no_occupancy(const Scope& scope, const TensorMap& map) {
    std::vector<const Expression*> expressions;
    for (const auto* list : {&map.dims, &map.strides, &map.box, &map.steps}) {
        for (const Expression& each : *list) expressions.push_back(&each);
    }
    if (map.offset) expressions.push_back(&*map.offset);
    for (const Expression* each : expressions) {
        if (!scope.asks_occupancy(*each)) continue;
        throw Error(ErrorCode::parse, each->position(),
                    "a tensor map cannot depend on OCC or CLUSTERS");
    }
}

[[noreturn]] void fail(const TensorMap& map, const SourcePosition& position,
                       const std::string& message) {
    throw Error(ErrorCode::invalid_argument, position.line != 0 ? position : map.position,
                "tensor map '" + map.name + "': " + message);
}

/// Each value against a range and a unit of which it must be a multiple.
struct Range {
    std::int64_t low = 1;
    std::int64_t high = 1;
    std::int64_t unit = 1;
};

void check_range(const TensorMap& map, const SourcePosition& position, const std::string& what,
                 std::int64_t value, const Range& range) {
    if (value >= range.low && value <= range.high && value % range.unit == 0) return;
    const std::string unit =
        range.unit == 1 ? "" : "a multiple of " + std::to_string(range.unit) + " ";
    fail(map, position,
         what + " is " + std::to_string(value) + ", expected " + unit + "from " +
             std::to_string(range.low) + " to " + std::to_string(range.high));
}

void check_ranges(const TensorMap& map, const std::vector<Expression>& expressions,
                  const std::vector<std::int64_t>& values, const std::string& what,
                  const Range& range) {
    for (std::size_t i = 0; i < expressions.size(); ++i) {
        check_range(map, expressions[i].position(), what + " " + std::to_string(i), values[i],
                    range);
    }
}

std::int64_t span_bytes(TensorMap::Swizzle swizzle) {
    switch (swizzle) {
        case TensorMap::Swizzle::none:
            return 0;
        case TensorMap::Swizzle::bytes32:
            return 32;
        case TensorMap::Swizzle::bytes64:
            return 64;
        case TensorMap::Swizzle::bytes128:
            return 128;
    }
    return 0;
}

void check_inner_box(const TensorMap& map, const ResolvedTensorMap& numbers, std::int64_t element) {
    const std::int64_t inner = numbers.box.front() * element;
    const std::string text = "the inner box extent has " + std::to_string(inner) + " bytes";
    const SourcePosition& position = map.box.front().position();
    if (inner % unit_bytes != 0)
        fail(map, position, text + ", expected a multiple of " + std::to_string(unit_bytes));
    const std::int64_t span = span_bytes(map.swizzle);
    if (span != 0 && inner > span)
        fail(map, position, text + ", the swizzle allows at most " + std::to_string(span));
}

/// Every element that the map can reach lies in the buffer: what is outside `dims` is filled.
void check_inside(const TensorMap& map, const ResolvedTensorMap& numbers, std::int64_t element,
                  std::int64_t buffer_bytes) {
    // At most 2^40 * 2^32 * 4 and some: far from overflow in 128 bits.
    __extension__ using Wide = __int128;
    Wide end = Wide{numbers.offset} + Wide{numbers.dims.front()} * element;
    for (std::size_t i = 0; i < numbers.strides.size(); ++i)
        end += Wide{numbers.dims[i + 1] - 1} * numbers.strides[i];
    if (end <= buffer_bytes) return;
    const bool huge = end > INT64_MAX;
    fail(map, map.position,
         "it ends " + (huge ? "more than 2^63" : std::to_string(static_cast<std::int64_t>(end))) +
             " bytes behind the start of '" + map.buffer + "', which has " +
             std::to_string(buffer_bytes) + " bytes");
}

}  // namespace

std::string element_type(DType dtype) {
    switch (dtype) {
        case DType::float8_e4m3fn:
            return "e4m3";
        case DType::float8_e5m2:
            return "e5m2";
        case DType::float4_e2m1:
            return "e2m1";
        case DType::boolean:
            return "bool";
        default:
            return scalar_type(to_string(dtype));
    }
}

std::size_t element_bits(std::string_view type) noexcept {
    if (type == "e4m3" || type == "e5m2" || type == "bool") return 8;
    if (type == "e2m1") return 4;
    return scalar_bytes(type) * 8;
}

std::string tensor_map_type(std::string_view element) {
    if (element == "e2m1") return {};
    return element_bits(element) == 8 ? "u8" : std::string(element);
}

void parse_tensor_map(const Piece& piece, const Scope& scope, TensorMap& map) {
    Piece rest = piece;
    expect_sign(rest, "=");
    const Piece buffer = take_identifier(rest, "a tensor or workspace");
    map.buffer = std::string(buffer.text());
    if (!scope.is_buffer(map.buffer)) {
        buffer.fail("unknown tensor or workspace '" + map.buffer + "'" +
                    known_names(map.buffer, scope.buffers()));
    }
    std::set<std::string_view> given;
    for (const auto& [key, value] : properties(rest)) {
        if (!given.insert(key.text()).second)
            key.fail(std::string(key.text()) + "= is given twice");
        set_property(key, value, scope, map);
    }
    check_counts(piece, map);
    check_no_occupancy(scope, map);
    if (map.dtype.empty()) {
        const TensorSpec* tensor = scope.tensor(map.buffer);
        map.dtype = tensor_map_type(tensor != nullptr ? element_type(tensor->dtype)
                                                      : scope.workspace(map.buffer)->element);
    }
    if (map.dtype.empty()) buffer.fail("a tensor map of '" + map.buffer + "' needs dtype=");
    if (map.nan_fill && !is_floating_type(map.dtype))
        buffer.fail("oob=nan is for f16, bf16, f32 and f64, the map holds " + map.dtype);
}

void check_tensor_map(const TensorMap& map, const ResolvedTensorMap& numbers,
                      std::int64_t buffer_bytes) {
    const auto element = static_cast<std::int64_t>(scalar_bytes(map.dtype));
    check_ranges(map, map.dims, numbers.dims, "dimension", {1, most_extent});
    check_ranges(map, map.box, numbers.box, "box extent", {1, most_box});
    check_ranges(map, map.strides, numbers.strides, "stride",
                 {unit_bytes, most_stride - unit_bytes, unit_bytes});
    check_ranges(map, map.steps, numbers.steps, "step", {1, most_step});
    if (numbers.steps.front() != 1)
        fail(map, map.steps.front().position(),
             "step 0 is " + std::to_string(numbers.steps.front()) +
                 ", but elements of the innermost dimension are always loaded one by one");
    if (map.offset)
        check_range(map, map.offset->position(), "the offset", numbers.offset,
                    {0, INT64_MAX / unit_bytes * unit_bytes, unit_bytes});
    check_inner_box(map, numbers, element);
    check_inside(map, numbers, element, buffer_bytes);
}

}  // namespace kernelforge::plan
