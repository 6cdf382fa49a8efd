// SPDX-License-Identifier: Apache-2.0
#include "plan/expression.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "plan/source_text.hpp"

namespace kernelforge::plan {
namespace {

constexpr int deepest = 64;
constexpr std::size_t most_instructions = 4096;

/// Index of a value in a list of unique ones, added when new.
template <class T>
std::size_t index_of(std::vector<T>& list, const T& value) {
    const auto found = std::find(list.begin(), list.end(), value);
    if (found != list.end()) return static_cast<std::size_t>(found - list.begin());
    list.push_back(value);
    return list.size() - 1;
}

/// What both grammars share: walking over the text, and errors with a position.
class ExpressionCursor {
  public:
    ExpressionCursor(std::string_view text, const SourcePosition& start)
        : text_(text), start_(start) {}

    [[noreturn]] void fail(std::size_t offset, const std::string& message) const {
        throw Error(ErrorCode::parse, position_at(start_, text_, offset), message);
    }
    [[noreturn]] void expected(const std::string& what) {
        skip_space();
        fail(at_, "expected " + what + ", found " + found());
    }

    void skip_space() {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    }
    [[nodiscard]] std::size_t at() const noexcept { return at_; }
    [[nodiscard]] char peek(std::size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    [[nodiscard]] bool at_end() {
        skip_space();
        return at_ >= text_.size();
    }
    bool accept(std::string_view sign) {
        skip_space();
        if (!text_.substr(at_).starts_with(sign)) return false;
        at_ += sign.size();
        return true;
    }
    void expect(std::string_view sign) {
        if (!accept(sign)) expected("'" + std::string(sign) + "'");
    }
    [[nodiscard]] std::string identifier() {
        const std::size_t start = at_;
        while (is_identifier_part(peek())) ++at_;
        return std::string(text_.substr(start, at_ - start));
    }
    void move(std::size_t count) { at_ += count; }
    [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
    [[nodiscard]] std::string found() const {
        const std::string_view left = rest();
        if (left.empty()) return "the end of the expression";
        std::size_t length = 1;
        while (is_identifier_part(left[0]) && length < left.size() &&
               is_identifier_part(left[length]))
            ++length;
        return quoted(left.substr(0, length));
    }

    /// Counts nesting; the limit keeps the parser's own stack small.
    struct Level {
        explicit Level(ExpressionCursor& cursor) : cursor_(cursor) {
            if (++cursor_.depth_ > deepest) {
                cursor_.fail(cursor_.at_, "the expression nests deeper than " +
                                              std::to_string(deepest) + " levels");
            }
        }
        ~Level() { --cursor_.depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
        ExpressionCursor& cursor_;
    };

  private:
    std::string_view text_;
    const SourcePosition& start_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

/// Recursive descent; binary operators by precedence climbing.
class ExpressionParser {
  public:
    using Op = Expression::Op;

    ExpressionParser(Expression& expression)
        : expression_(expression), cursor_(expression.text_, expression.position_) {}

    void parse() {
        conditional();
        if (!cursor_.at_end()) cursor_.expected("an operator or the end of the expression");
    }

  private:
    struct Binary {
        std::string_view sign;
        int precedence;
        Op op;
    };

    std::size_t emit(Op op, std::int64_t operand = 0, std::uint32_t count = 0) {
        if (expression_.code_.size() >= most_instructions) {
            cursor_.fail(offset_, "the expression has more than " +
                                      std::to_string(most_instructions) + " instructions");
        }
        expression_.code_.push_back({op, operand, static_cast<std::uint32_t>(offset_), count});
        return expression_.code_.size() - 1;
    }
    void land(std::size_t jump) {
        expression_.code_[jump].operand = static_cast<std::int64_t>(expression_.code_.size());
    }

    void conditional() {
        const ExpressionCursor::Level level(cursor_);
        binary(1);
        if (!cursor_.accept("?")) return;
        const std::size_t to_else = emit(Op::jump_if_zero);
        conditional();
        cursor_.expect(":");
        const std::size_t to_end = emit(Op::jump);
        land(to_else);
        conditional();
        land(to_end);
    }

    /// The operator at the cursor; longer signs are listed before their prefixes.
    [[nodiscard]] std::optional<Binary> next_operator() {
        static constexpr Binary operators[] = {
            {"||", 1, Op::push},       {"&&", 2, Op::push},
            {"<<", 8, Op::shift_left}, {">>", 8, Op::shift_right},
            {"==", 6, Op::equal},      {"!=", 6, Op::not_equal},
            {"<=", 7, Op::less_equal}, {">=", 7, Op::greater_equal},
            {"|", 3, Op::bit_or},      {"^", 4, Op::bit_xor},
            {"&", 5, Op::bit_and},     {"<", 7, Op::less},
            {">", 7, Op::greater},     {"+", 9, Op::add},
            {"-", 9, Op::subtract},    {"*", 10, Op::multiply},
            {"/", 10, Op::divide},     {"%", 10, Op::modulo},
        };
        cursor_.skip_space();
        for (const Binary& candidate : operators) {
            if (cursor_.rest().starts_with(candidate.sign)) return candidate;
        }
        return std::nullopt;
    }

    void binary(int least) {
        unary();
        for (;;) {
            const std::optional<Binary> found = next_operator();
            if (!found || found->precedence < least) return;
            const std::size_t place = cursor_.at();
            cursor_.move(found->sign.size());
            if (found->sign == "&&" || found->sign == "||") {
                logical(found->sign == "&&", found->precedence);
                continue;
            }
            binary(found->precedence + 1);
            offset_ = place;
            emit(found->op);
        }
    }

    /// Evaluates the right side only when it decides; the value is 0 or 1.
    void logical(bool is_and, int precedence) {
        const std::size_t decided = emit(is_and ? Op::jump_if_zero : Op::jump_if_nonzero);
        binary(precedence + 1);
        emit(Op::to_bool);
        const std::size_t to_end = emit(Op::jump);
        land(decided);
        emit(Op::push, is_and ? 0 : 1);
        land(to_end);
    }

    void unary() {
        cursor_.skip_space();
        const std::size_t place = cursor_.at();
        const char sign = cursor_.peek();
        if (sign == '-' || sign == '!' || sign == '~' || sign == '+') {
            const ExpressionCursor::Level level(cursor_);
            cursor_.move(1);
            unary();
            offset_ = place;
            if (sign == '-') emit(Op::negate);
            if (sign == '!') emit(Op::logical_not);
            if (sign == '~') emit(Op::bit_not);
            return;
        }
        primary();
    }

    void primary() {
        offset_ = cursor_.at();
        const char first = cursor_.peek();
        if (cursor_.accept("(")) {
            conditional();
            cursor_.expect(")");
        } else if (is_digit(first) || (first == '.' && is_digit(cursor_.peek(1)))) {
            number();
        } else if (is_identifier_start(first)) {
            name();
        } else {
            cursor_.expected("a number, a name or '('");
        }
    }

    void number() {
        const std::string_view rest = cursor_.rest();
        std::size_t length = 0;
        while (length < rest.size() && (is_identifier_part(rest[length]) || rest[length] == '.'))
            ++length;
        std::string_view digits = rest.substr(0, length);
        const std::string_view written = digits;
        const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
        if (hexadecimal) digits.remove_prefix(2);
        while (!digits.empty() &&
               std::string_view("uUlL").find(digits.back()) != std::string_view::npos)
            digits.remove_suffix(1);
        std::int64_t value = 0;
        const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(),
                                                    value, hexadecimal ? 16 : 10);
        if (failure == std::errc::result_out_of_range) {
            cursor_.fail(offset_, "the number " + quoted(written) + " does not fit 64 bits");
        }
        if (failure != std::errc() || end != digits.data() + digits.size()) {
            cursor_.fail(offset_, "expected an integer, found " + quoted(written));
        }
        cursor_.move(length);
        emit(Op::push, value);
    }

    void name() {
        const std::string word = cursor_.identifier();
        if (!cursor_.accept("(")) {
            emit(Op::load, static_cast<std::int64_t>(index_of(expression_.names_, word)));
        } else if (word == "min" || word == "max" || word == "cdiv") {
            arithmetic_function(word);
        } else {
            query(word);
        }
    }

    void arithmetic_function(const std::string& word) {
        const std::size_t place = offset_;
        const Op op = word == "min" ? Op::min : word == "max" ? Op::max : Op::cdiv;
        conditional();
        cursor_.expect(",");
        conditional();
        offset_ = place;
        emit(op);
        while (op != Op::cdiv && cursor_.accept(",")) {
            conditional();
            offset_ = place;
            emit(op);
        }
        cursor_.expect(")");
    }

    void query(const std::string& word) {
        const std::size_t place = offset_;
        static const std::vector<std::string> known = {"cdiv",  "min",    "max", "align",
                                                       "numel", "stride", "OCC", "CLUSTERS"};
        if (std::find(known.begin() + 3, known.end(), word) == known.end()) {
            cursor_.fail(place, "unknown function '" + word + "'" + known_names(word, known));
        }
        cursor_.skip_space();
        if (!is_identifier_start(cursor_.peek())) {
            cursor_.expected(std::string("the name of a ") +
                             (word == "OCC" || word == "CLUSTERS" ? "kernel" : "tensor"));
        }
        const std::string argument = cursor_.identifier();
        std::uint32_t count = 0;
        if (word == "stride") {
            cursor_.expect(",");
            conditional();
            count = 1;
        }
        cursor_.expect(")");
        offset_ = place;
        emit(Op::query, static_cast<std::int64_t>(index_of(expression_.queried_, {word, argument})),
             count);
    }

    Expression& expression_;
    ExpressionCursor cursor_;
    std::size_t offset_ = 0;  ///< of the part that is being compiled, for messages
};

Expression Expression::parse(std::string_view text, SourcePosition start) {
    Expression expression;
    expression.text_ = std::string(text);
    expression.position_ = std::move(start);
    if (trimmed(text).empty()) {
        throw Error(ErrorCode::parse, expression.position_,
                    "expected an integer expression, found nothing");
    }
    ExpressionParser(expression).parse();
    return expression;
}

Expression Expression::constant(std::int64_t value) {
    Expression expression;
    expression.text_ = std::to_string(value);
    expression.code_.push_back({Op::push, value, 0, 0});
    return expression;
}

namespace {

using Number = std::optional<std::int64_t>;

Number checked_shift_left(std::int64_t a, std::int64_t b) {
    const std::int64_t result = static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << b);
    if ((result >> b) != a) return std::nullopt;
    return result;
}

/// Rounds towards positive infinity, for any signs.
std::int64_t ceiling_division(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return quotient + ((a % b != 0 && ((a < 0) == (b < 0))) ? 1 : 0);
}

}  // namespace

/// Runs the stack code of one expression.
class ExpressionMachine {
  public:
    ExpressionMachine(const Expression& expression, const Names& names)
        : expression_(expression), names_(names) {}

    std::int64_t run() {
        using Op = Expression::Op;
        stack_.reserve(16);
        const auto& code = expression_.code_;
        for (std::size_t i = 0; i < code.size(); ++i) {
            instruction_ = &code[i];
            const auto target = static_cast<std::size_t>(code[i].operand);
            switch (code[i].op) {
                case Op::push:
                    stack_.push_back(code[i].operand);
                    break;
                case Op::load:
                    stack_.push_back(load(expression_.names_[target]));
                    break;
                case Op::query:
                    query(expression_.queried_[target]);
                    break;
                case Op::jump:
                    i = target - 1;
                    break;
                case Op::jump_if_zero:
                    if (pop() == 0) i = target - 1;
                    break;
                case Op::jump_if_nonzero:
                    if (pop() != 0) i = target - 1;
                    break;
                case Op::negate:
                case Op::logical_not:
                case Op::bit_not:
                case Op::to_bool:
                    stack_.push_back(unary(code[i].op, pop()));
                    break;
                default: {
                    const std::int64_t b = pop();
                    const std::int64_t a = pop();
                    stack_.push_back(binary(code[i].op, a, b));
                }
            }
        }
        return pop();
    }

  private:
    [[noreturn]] void fail(const std::string& message) const {
        throw Error(ErrorCode::invalid_argument,
                    position_at(expression_.position_, expression_.text_, instruction_->offset),
                    message + " in " + quoted(expression_.text_));
    }

    std::int64_t pop() {
        const std::int64_t value = stack_.back();
        stack_.pop_back();
        return value;
    }

    std::int64_t load(const std::string& name) const {
        std::int64_t value = 0;
        if (!names_.integer || !names_.integer(name, value)) fail("unknown name '" + name + "'");
        return value;
    }

    void query(const std::pair<std::string, std::string>& what) {
        std::vector<std::int64_t> rest(instruction_->count);
        for (std::size_t i = rest.size(); i > 0; --i) rest[i - 1] = pop();
        if (!names_.query) fail(what.first + "(" + what.second + ") has no value here");
        try {
            stack_.push_back(names_.query(what.first, what.second, rest));
        } catch (const Error& error) {
            if (error.position().line != 0) throw;
            fail(error.what());
        }
    }

    std::int64_t unary(Expression::Op op, std::int64_t a) const {
        using Op = Expression::Op;
        if (op == Op::logical_not) return a == 0 ? 1 : 0;
        if (op == Op::to_bool) return a != 0 ? 1 : 0;
        if (op == Op::bit_not) return ~a;
        if (a == std::numeric_limits<std::int64_t>::min())
            fail("64-bit overflow of -(" + std::to_string(a) + ")");
        return -a;
    }

    std::int64_t overflow(const char* sign, std::int64_t a, std::int64_t b) const {
        fail("64-bit overflow of " + std::to_string(a) + " " + sign + " " + std::to_string(b));
    }

    std::int64_t binary(Expression::Op op, std::int64_t a, std::int64_t b) const {
        using Op = Expression::Op;
        std::int64_t result = 0;
        switch (op) {
            case Op::add:
                return __builtin_add_overflow(a, b, &result) ? overflow("+", a, b) : result;
            case Op::subtract:
                return __builtin_sub_overflow(a, b, &result) ? overflow("-", a, b) : result;
            case Op::multiply:
                return __builtin_mul_overflow(a, b, &result) ? overflow("*", a, b) : result;
            case Op::divide:
                check_divisor("/", a, b);
                return a / b;
            case Op::modulo:
                check_divisor("%", a, b);
                return a % b;
            case Op::cdiv:
                check_divisor("cdiv", a, b);
                return ceiling_division(a, b);
            case Op::shift_left:
                check_shift(b);
                return shift_left(a, b);
            case Op::shift_right:
                check_shift(b);
                return a >> b;
            case Op::less:
                return a < b ? 1 : 0;
            case Op::less_equal:
                return a <= b ? 1 : 0;
            case Op::greater:
                return a > b ? 1 : 0;
            case Op::greater_equal:
                return a >= b ? 1 : 0;
            case Op::equal:
                return a == b ? 1 : 0;
            case Op::not_equal:
                return a != b ? 1 : 0;
            case Op::bit_and:
                return a & b;
            case Op::bit_xor:
                return a ^ b;
            case Op::bit_or:
                return a | b;
            case Op::min:
                return std::min(a, b);
            case Op::max:
                return std::max(a, b);
            default:
                fail("unknown instruction");
        }
    }

    std::int64_t shift_left(std::int64_t a, std::int64_t b) const {
        const Number shifted = checked_shift_left(a, b);
        return shifted ? *shifted : overflow("<<", a, b);
    }

    void check_divisor(const char* sign, std::int64_t a, std::int64_t b) const {
        if (b == 0) fail("division by zero: " + std::to_string(a) + " " + sign + " 0");
        if (a == std::numeric_limits<std::int64_t>::min() && b == -1) overflow(sign, a, b);
    }

    void check_shift(std::int64_t b) const {
        if (b < 0 || b > 63) fail("shift by " + std::to_string(b) + ", expected 0 to 63");
    }

    const Expression& expression_;
    const Names& names_;
    const Expression::Instruction* instruction_ = nullptr;
    std::vector<std::int64_t> stack_;
};

std::int64_t Expression::evaluate(const Names& names) const {
    if (code_.empty())
        throw Error(ErrorCode::invalid_argument, position_, "an empty expression has no value");
    return ExpressionMachine(*this, names).run();
}

/// Emits postfix code.
class FloatExpressionParser {
  public:
    using Op = FloatExpression::Op;

    explicit FloatExpressionParser(FloatExpression& expression)
        : expression_(expression), cursor_(expression.text_, expression.position_) {}

    void parse() {
        sum();
        if (!cursor_.at_end()) cursor_.expected("one of + - * / or the end of the expression");
    }

  private:
    void emit(Op op, double constant = 0.0, std::size_t name = 0) {
        if (expression_.code_.size() >= most_instructions) {
            cursor_.fail(cursor_.at(), "the expression has more than " +
                                           std::to_string(most_instructions) + " instructions");
        }
        expression_.code_.push_back({op, constant, name});
    }

    void sum() {
        const ExpressionCursor::Level level(cursor_);
        product();
        for (;;) {
            if (cursor_.accept("+")) {
                product();
                emit(Op::add);
            } else if (cursor_.accept("-")) {
                product();
                emit(Op::subtract);
            } else {
                return;
            }
        }
    }

    void product() {
        unary();
        for (;;) {
            if (cursor_.accept("*")) {
                unary();
                emit(Op::multiply);
            } else if (cursor_.accept("/")) {
                unary();
                emit(Op::divide);
            } else {
                return;
            }
        }
    }

    void unary() {
        if (cursor_.accept("-")) {
            const ExpressionCursor::Level level(cursor_);
            unary();
            emit(Op::negate);
        } else if (cursor_.accept("+")) {
            const ExpressionCursor::Level level(cursor_);
            unary();
        } else {
            primary();
        }
    }

    void primary() {
        cursor_.skip_space();
        const char first = cursor_.peek();
        if (cursor_.accept("(")) {
            sum();
            cursor_.expect(")");
        } else if (is_digit(first) || first == '.') {
            number();
        } else if (is_identifier_start(first)) {
            name();
        } else {
            cursor_.expected("a number, a name or '('");
        }
    }

    void number() {
        const std::string_view rest = cursor_.rest();
        double value = 0.0;
        const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
        if (failure == std::errc::result_out_of_range) {
            cursor_.fail(cursor_.at(), "the number " + cursor_.found() + " does not fit a double");
        }
        if (failure != std::errc()) cursor_.expected("a number");
        cursor_.move(static_cast<std::size_t>(end - rest.data()));
        if (cursor_.peek() == 'f' || cursor_.peek() == 'F') cursor_.move(1);
        if (is_identifier_part(cursor_.peek())) cursor_.expected("an operator after the number");
        emit(Op::push, value);
    }

    void name() {
        const std::size_t place = cursor_.at();
        const std::string word = cursor_.identifier();
        if (!cursor_.accept("(")) {
            emit(Op::load, 0.0, index_of(expression_.names_, word));
            return;
        }
        static const std::pair<std::string, Op> one[] = {{"sqrt", Op::sqrt},
                                                         {"rsqrt", Op::rsqrt},
                                                         {"exp", Op::exp},
                                                         {"log", Op::log},
                                                         {"log2", Op::log2}};
        static const std::pair<std::string, Op> two[] = {
            {"pow", Op::pow}, {"min", Op::min}, {"max", Op::max}};
        for (const auto& [known, op] : one) {
            if (word == known) return call(op, 1);
        }
        for (const auto& [known, op] : two) {
            if (word == known) return call(op, 2);
        }
        cursor_.fail(place, "unknown function '" + word + "'" +
                                known_names(word, {"sqrt", "rsqrt", "exp", "log", "log2", "pow",
                                                   "min", "max"}));
    }

    void call(Op op, int arguments) {
        sum();
        if (arguments == 2) {
            cursor_.expect(",");
            sum();
        }
        cursor_.expect(")");
        emit(op);
    }

    FloatExpression& expression_;
    ExpressionCursor cursor_;
};

FloatExpression FloatExpression::parse(std::string_view text, SourcePosition start) {
    FloatExpression expression;
    expression.text_ = std::string(text);
    expression.position_ = std::move(start);
    if (trimmed(text).empty()) {
        throw Error(ErrorCode::parse, expression.position_,
                    "expected a floating-point expression, found nothing");
    }
    FloatExpressionParser(expression).parse();
    return expression;
}

double FloatExpression::evaluate(
    const std::function<bool(const std::string& name, double& value)>& number) const {
    std::vector<double> stack;
    const auto pop = [&stack] {
        const double value = stack.back();
        stack.pop_back();
        return value;
    };
    for (const Instruction& instruction : code_) {
        double value = instruction.constant;
        if (instruction.op == Op::load) {
            const std::string& name = names_[instruction.name];
            if (!number || !number(name, value)) {
                throw Error(ErrorCode::invalid_argument, position_,
                            "unknown name '" + name + "' in " + quoted(text_));
            }
        } else if (instruction.op != Op::push) {
            const double b = pop();
            switch (instruction.op) {
                case Op::negate:
                    value = -b;
                    break;
                case Op::sqrt:
                    value = std::sqrt(b);
                    break;
                case Op::rsqrt:
                    value = 1.0 / std::sqrt(b);
                    break;
                case Op::exp:
                    value = std::exp(b);
                    break;
                case Op::log:
                    value = std::log(b);
                    break;
                case Op::log2:
                    value = std::log2(b);
                    break;
                case Op::add:
                    value = pop() + b;
                    break;
                case Op::subtract:
                    value = pop() - b;
                    break;
                case Op::multiply:
                    value = pop() * b;
                    break;
                case Op::divide:
                    value = pop() / b;
                    break;
                case Op::pow:
                    value = std::pow(pop(), b);
                    break;
                case Op::min:
                    value = std::fmin(pop(), b);
                    break;
                default:
                    value = std::fmax(pop(), b);
                    break;
            }
        }
        stack.push_back(value);
    }
    if (stack.empty())
        throw Error(ErrorCode::invalid_argument, position_, "an empty expression has no value");
    if (!std::isfinite(stack.back())) {
        throw Error(ErrorCode::invalid_argument, position_,
                    "expected a finite value, found " + std::to_string(stack.back()) + " from " +
                        quoted(text_));
    }
    return stack.back();
}

}  // namespace kernelforge::plan
