// SPDX-License-Identifier: Apache-2.0
#include "fuzz_shrink.hpp"

#include <algorithm>

namespace kernelforge::fuzz {
namespace {

/// Applies `visit` to every body of a tree.
using BodyVisitor = std::function<void(Body&)>;
void each_body(Body& body, const BodyVisitor& visit) {
    visit(body);
    for (Statement& one : body) {
        for (Body& inner : one.bodies) each_body(inner, visit);
    }
}
void each_body(Program& program, const BodyVisitor& visit) {
    for (Function& function : program.functions) each_body(function.body, visit);
    each_body(program.kernel.body, visit);
}

using ExpressionVisitor = std::function<void(Expression&)>;
void each_expression(Expression& e, const ExpressionVisitor& visit) {
    visit(e);
    for (Expression& one : e.arguments) each_expression(one, visit);
}
void each_expression(Program& program, const ExpressionVisitor& visit) {
    each_body(program, [&visit](Body& body) {
        for (Statement& one : body) {
            for (Expression& e : one.expressions) each_expression(e, visit);
        }
    });
    for (Function& function : program.functions) each_expression(function.value, visit);
}

std::size_t count_statements(Program& program) {
    std::size_t count = 0;
    each_body(program, [&count](Body& body) { count += body.size(); });
    return count;
}
void drop_statements(Program& program, std::size_t first, std::size_t count) {
    std::size_t at = 0;
    each_body(program, [&](Body& body) {
        Body kept;
        for (Statement& one : body) {
            const bool dropped = at >= first && at < first + count;
            ++at;
            if (!dropped) kept.push_back(std::move(one));
        }
        body = std::move(kept);
    });
}

/// Puts what is inside of statement number `index` in its place; whether it holds any.
bool unwrap(Program& program, std::size_t index) {
    std::size_t at = 0;
    bool done = false;
    each_body(program, [&](Body& body) {
        for (std::size_t i = 0; i < body.size() && !done; ++i) {
            if (at++ != index) continue;
            Body inside;
            for (Body& one : body[i].bodies) inside.insert(inside.end(), one.begin(), one.end());
            const auto place = body.begin() + static_cast<std::ptrdiff_t>(i);
            if (inside.empty() || body[i].kind == Statement::Kind::lane_branch) return;
            body.insert(body.erase(place), inside.begin(), inside.end());
            done = true;
        }
    });
    return done;
}

std::size_t count_expressions(Program& program) {
    std::size_t count = 0;
    each_expression(program, [&count](Expression&) { ++count; });
    return count;
}
/// Makes expression number `index` one of its arguments, if that has its type, or a 1; whether it
/// was neither before.
bool simplify(Program& program, std::size_t index, std::size_t argument) {
    Expression* found = nullptr;
    std::size_t at = 0;
    each_expression(program, [&](Expression& e) {
        if (at++ == index) found = &e;
    });
    if (found == nullptr || found->arguments.empty()) return false;
    if (argument < found->arguments.size()) {
        if (found->arguments[argument].type != found->type) return false;
        Expression inner = found->arguments[argument];
        *found = std::move(inner);
        return true;
    }
    Expression one;
    one.type = found->type;
    one.value = is_integer(one.type) || one.type == Type::boolean ? 1 : 0;
    *found = std::move(one);
    return argument == found->arguments.size();
}

class Shrinker {
  public:
    Shrinker(Program program, int most, const std::function<bool(const Program&)>& differs)
        : program_(std::move(program)), left_(most), differs_(differs) {}

    Program run() {
        for (bool smaller = true; smaller && left_ > 0;) {
            smaller = outputs() | statements() | unwrapped() | expressions();
        }
        return std::move(program_);
    }

  private:
    bool accept(const Program& candidate) {
        if (left_-- <= 0 || !differs_(candidate)) return false;
        program_ = candidate;
        return true;
    }

    bool outputs() {
        bool smaller = false;
        for (std::size_t i = program_.outputs.size(); i-- > 0;) {
            Program candidate = program_;
            candidate.outputs.erase(candidate.outputs.begin() + static_cast<std::ptrdiff_t>(i));
            lay_out(candidate);
            smaller |= accept(candidate);
        }
        return smaller;
    }

    /// Halves of all, quarters, … single ones.
    bool statements() {
        bool smaller = false;
        for (std::size_t size = std::max<std::size_t>(count_statements(program_) / 2, 1); size > 0;
             size /= 2) {
            for (std::size_t at = 0; at < count_statements(program_) && left_ > 0;) {
                Program candidate = program_;
                drop_statements(candidate, at, size);
                if (accept(candidate)) {
                    smaller = true;
                } else {
                    at += size;
                }
            }
        }
        return smaller;
    }

    bool unwrapped() {
        bool smaller = false;
        for (std::size_t i = 0; i < count_statements(program_) && left_ > 0; ++i) {
            Program candidate = program_;
            if (unwrap(candidate, i)) smaller |= accept(candidate);
        }
        return smaller;
    }

    bool expressions() {
        bool smaller = false;
        for (std::size_t i = 0; i < count_expressions(program_) && left_ > 0; ++i) {
            for (std::size_t argument = 0; argument < 5; ++argument) {
                Program candidate = program_;
                if (!simplify(candidate, i, argument)) continue;
                smaller |= accept(candidate);
            }
        }
        return smaller;
    }

    Program program_;
    int left_;
    const std::function<bool(const Program&)>& differs_;
};

}  // namespace

Program shrink(Program program, int most, const std::function<bool(const Program&)>& differs) {
    return Shrinker(std::move(program), most, differs).run();
}

}  // namespace kernelforge::fuzz
