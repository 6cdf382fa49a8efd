// SPDX-License-Identifier: Apache-2.0
#include "plan/expression.hpp"

#include <cstdint>
#include <limits>
#include <string>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using kernelforge::plan::Expression;
using kernelforge::plan::FloatExpression;
using kernelforge::plan::Names;

namespace {

Names names() {
    Names result;
    result.integer = [](const std::string& name, std::int64_t& value) {
        if (name == "M")
            value = 100;
        else if (name == "N")
            value = 7;
        else if (name == "zero")
            value = 0;
        else if (name == "big")
            value = std::numeric_limits<std::int64_t>::max();
        else if (name == "small")
            value = std::numeric_limits<std::int64_t>::min();
        else
            return false;
        return true;
    };
    result.query = [](const std::string& function, const std::string& argument,
                      const std::vector<std::int64_t>& rest) -> std::int64_t {
        if (argument == "bad") throw Error(ErrorCode::invalid_argument, "bad is no tensor");
        if (function == "stride") return 1000 + rest.at(0);
        if (function == "align") return 16;
        return 3;
    };
    return result;
}

std::int64_t value(const std::string& text) {
    return Expression::parse(text, {"f", 3, 5}).evaluate(names());
}

std::string message(const std::string& text) {
    return test::error_of([&] { static_cast<void>(value(text)); }).value_or("no error");
}

double number(const std::string& text) {
    return FloatExpression::parse(text, {"f", 3, 5})
        .evaluate([](const std::string& name, double& result) {
            if (name == "D")
                result = 64.0;
            else if (name == "eps")
                result = 0.5;
            else
                return false;
            return true;
        });
}

std::string float_message(const std::string& text) {
    return test::error_of([&] { static_cast<void>(number(text)); }).value_or("no error");
}

}  // namespace

TEST_CASE("integer expressions have the values of C", "[plan]") {
    CHECK(value("1 + 2 * 3") == 1 + 2 * 3);
    CHECK(value("(1 + 2) * 3") == 9);
    CHECK(value("10 - 3 - 2") == 5);
    CHECK(value("100 / 7 / 2") == 7);
    CHECK(value("-7 / 2") == -3);
    CHECK(value("-7 % 3") == -1);
    CHECK(value("- - 4") == 4);
    CHECK(value("+4") == 4);
    CHECK(value("!0 + !5") == 1);
    CHECK(value("~0") == -1);
    CHECK(value("1 << 10 | 3") == ((1 << 10) | 3));
    CHECK(value("5 & 6 ^ 3 | 8") == (((5 & 6) ^ 3) | 8));
    CHECK(value("1 + 1 << 2") == 8);
    CHECK(value("1 < 2 == 1") == 1);
    CHECK(value("4 & 6 == 6") == (4 & (6 == 6 ? 1 : 0)));
    CHECK(value("3 >= 3 && 2 != 2 || 1") == 1);
    CHECK(value("7 > 8") == 0);
    CHECK(value("7 <= 8") == 1);
    CHECK(value("256 >> 3") == 32);
    CHECK(value("-8 >> 1") == -4);
    CHECK(value("0x20 + 1u + 2ULL") == 35);
    CHECK(value("M > 50 ? N > 50 ? 1 : 2 : 3") == 2);
    CHECK(value("zero ? 1 : M ? 5 : 6") == 5);
    CHECK(value("  M\n\t* N ") == 700);
}

TEST_CASE("the functions of integer expressions round and choose as documented", "[plan]") {
    CHECK(value("cdiv(100, 7)") == 15);
    CHECK(value("cdiv(98, 7)") == 14);
    CHECK(value("cdiv(-7, 2)") == -3);
    CHECK(value("cdiv(7, -2)") == -3);
    CHECK(value("cdiv(-7, -2)") == 4);
    CHECK(value("min(3, 1, 2)") == 1);
    CHECK(value("max(3, M, 2)") == 100);
    CHECK(value("align(x) >= 16 && stride(x, 1) == 1001") == 1);
    CHECK(value("OCC(k) * CLUSTERS(k) + numel(x)") == 12);
}

TEST_CASE("the side of an expression that is not needed is not evaluated", "[plan]") {
    CHECK(value("zero && 1 / zero") == 0);
    CHECK(value("M || 1 / zero") == 1);
    CHECK(value("zero == 0 ? 4 : 1 / zero") == 4);
    CHECK(value("5 && 7") == 1);
    CHECK(value("0 || 9") == 1);
}

TEST_CASE("evaluation refuses what has no 64-bit value and says where", "[plan]") {
    CHECK(message("M / zero") == "f:3:7: division by zero: 100 / 0 in 'M / zero'");
    CHECK_THAT(message("M % zero"), ContainsSubstring("division by zero: 100 % 0"));
    CHECK_THAT(message("cdiv(M, zero)"), ContainsSubstring("division by zero"));
    CHECK_THAT(message("big + 1"),
               ContainsSubstring("f:3:9: 64-bit overflow of 9223372036854775807 + 1"));
    CHECK_THAT(message("small - 1"), ContainsSubstring("64-bit overflow"));
    CHECK_THAT(message("big * 2"), ContainsSubstring("64-bit overflow"));
    CHECK_THAT(message("-small"), ContainsSubstring("64-bit overflow"));
    CHECK_THAT(message("small / -1"), ContainsSubstring("64-bit overflow"));
    CHECK_THAT(message("small % -1"), ContainsSubstring("64-bit overflow"));
    CHECK_THAT(message("cdiv(small, -1)"), ContainsSubstring("64-bit overflow"));
    CHECK_THAT(message("1 << 63"), ContainsSubstring("64-bit overflow"));
    CHECK(value("1 << 62") == std::int64_t{1} << 62);
    CHECK_THAT(message("1 << 64"), ContainsSubstring("shift by 64, expected 0 to 63"));
    CHECK_THAT(message("1 >> -1"), ContainsSubstring("shift by -1"));
    CHECK_THAT(message("1 + unknown"), ContainsSubstring("f:3:9: unknown name 'unknown'"));
    CHECK_THAT(message("2 + numel(bad)"), ContainsSubstring("f:3:9: bad is no tensor in"));
}

TEST_CASE("an expression that is not well-formed is refused with its position", "[plan]") {
    CHECK_THAT(message(""),
               ContainsSubstring("f:3:5: expected an integer expression, found nothing"));
    CHECK_THAT(message("1 +"),
               ContainsSubstring("f:3:8: expected a number, a name or '(', found the end"));
    CHECK_THAT(message("(1"), ContainsSubstring("expected ')', found the end of the expression"));
    CHECK_THAT(
        message("1 2"),
        ContainsSubstring("f:3:7: expected an operator or the end of the expression, found '2'"));
    CHECK_THAT(message("1.5"), ContainsSubstring("expected an integer, found '1.5'"));
    CHECK_THAT(message("12abc"), ContainsSubstring("expected an integer, found '12abc'"));
    CHECK_THAT(message("99999999999999999999"), ContainsSubstring("does not fit 64 bits"));
    CHECK_THAT(message("M ? 1"), ContainsSubstring("expected ':'"));
    CHECK_THAT(message("ceil(M)"), ContainsSubstring("unknown function 'ceil'"));
    CHECK_THAT(message("cdvi(M, 2)"), ContainsSubstring("did you mean 'cdiv'"));
    CHECK_THAT(message("cdiv(M)"), ContainsSubstring("expected ','"));
    CHECK_THAT(message("cdiv(1, 2, 3)"), ContainsSubstring("expected ')'"));
    CHECK_THAT(message("align(3)"), ContainsSubstring("expected the name of a tensor, found '3'"));
    CHECK_THAT(message("OCC()"), ContainsSubstring("expected the name of a kernel"));
    CHECK_THAT(message("1 +\n  $"), ContainsSubstring("f:4:3: expected a number"));
    CHECK_THAT(message("a.b"), ContainsSubstring("found '.'"));
}

TEST_CASE("depth and length of expressions are limited", "[plan]") {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '(') + "1" + std::string(depth, ')');
    };
    CHECK(value(nested(60)) == 1);
    CHECK_THAT(message(nested(100)), ContainsSubstring("nests deeper than 64 levels"));
    CHECK_THAT(message(nested(1000000)), ContainsSubstring("nests deeper"));
    CHECK_THAT(message(std::string(100000, '-') + "1"), ContainsSubstring("nests deeper"));
    std::string chain = "1";
    for (int i = 0; i < 5000; ++i) chain += "+1";
    CHECK_THAT(message(chain), ContainsSubstring("more than 4096 instructions"));
    std::string conditions;
    for (int i = 0; i < 200; ++i) conditions += "0?1:";
    CHECK_THAT(message(conditions + "1"), ContainsSubstring("nests deeper"));
}

TEST_CASE("an expression knows the names and queries that it mentions", "[plan]") {
    const Expression expression =
        Expression::parse("M + N * M + OCC(g) + stride(x, N) + OCC(g)", {});
    CHECK(expression.names() == std::vector<std::string>{"M", "N"});
    CHECK(expression.queried() ==
          std::vector<std::pair<std::string, std::string>>{{"OCC", "g"}, {"stride", "x"}});
    CHECK(Expression().empty());
    CHECK_FALSE(Expression::constant(4).empty());
    CHECK(Expression::constant(-4).evaluate({}) == -4);
    CHECK_THAT(test::error_of([] { static_cast<void>(Expression().evaluate({})); }).value_or(""),
               ContainsSubstring("empty expression"));
}

TEST_CASE("floating-point expressions have the values of C", "[plan]") {
    CHECK(number("1.0 / sqrt(D)") == 0.125);
    CHECK(number("rsqrt(D)") == 0.125);
    CHECK(number("1e-5f") == 1e-5);
    CHECK(number(".5F * -eps") == -0.25);
    CHECK(number("2 - 3 - 4") == -5.0);
    CHECK(number("8 / 2 / 2") == 2.0);
    CHECK(number("1 / 2") == 0.5);
    CHECK(number("pow(2, 10) + min(1, 2) + max(1, 2)") == 1027.0);
    CHECK(number("log2(D) + exp(0) + log(1)") == 7.0);
    CHECK(number("-(D)") == -64.0);
}

TEST_CASE("floating-point expressions refuse what is malformed or not finite", "[plan]") {
    CHECK_THAT(float_message(""),
               ContainsSubstring("f:3:5: expected a floating-point expression, found nothing"));
    CHECK_THAT(float_message("1 / 0"), ContainsSubstring("expected a finite value, found inf"));
    CHECK_THAT(float_message("sqrt(-1)"), ContainsSubstring("expected a finite value"));
    CHECK_THAT(float_message("other"), ContainsSubstring("unknown name 'other'"));
    CHECK_THAT(float_message("sin(1)"), ContainsSubstring("unknown function 'sin'"));
    CHECK_THAT(float_message("1 % 2"), ContainsSubstring("f:3:7: expected one of + - * /"));
    CHECK_THAT(float_message("1.5x"), ContainsSubstring("expected an operator after the number"));
    CHECK_THAT(float_message("1e999"), ContainsSubstring("does not fit a double"));
    CHECK_THAT(float_message("pow(2)"), ContainsSubstring("expected ','"));
    CHECK_THAT(float_message("."), ContainsSubstring("expected a number"));
    CHECK_THAT(float_message(std::string(100000, '(')), ContainsSubstring("nests deeper"));
    CHECK_THAT(float_message(std::string(100000, '-')), ContainsSubstring("nests deeper"));
    CHECK_THAT(
        test::error_of([] { static_cast<void>(FloatExpression().evaluate({})); }).value_or(""),
        ContainsSubstring("empty expression"));
}
