// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <random>

#include "fuzz_program.hpp"

// Draws a tree from a seed.

namespace kernelforge::fuzz {
namespace {

using Kind = Statement::Kind;

/// Where a statement is to stand.
struct Place {
    int depth = 0;        ///< of nested statements
    bool kernel = false;  ///< not in a function
    u32 lanes = 0;        ///< those of each warp that are here together; 0: unknown
    u32 grain = 32;       ///< `lanes` are whole aligned groups of so many
    bool whole_block = false;
    bool in_loop = false;  ///< directly, so that a break leaves it
};

class Generator {
  public:
    Generator(u64 seed, u64 index, bool sm90)
        : random_(seed * 0x9e3779b97f4a7c15 + index), sm90_(sm90) {}

    Program draw() {
        choose_types();
        choose_operations();
        choose_launch();
        fill_input();
        for (const Type type : types_) add_table(type);
        for (u32 i = below(4); i > 0; --i) add_function();
        make_kernel();
        return std::move(program_);
    }

  private:
    u32 below(u64 limit) { return static_cast<u32>(random_() % limit); }
    bool one_in(u32 n) { return below(n) == 0; }
    template <class Container>
    const auto& pick(const Container& from) {
        return from[below(from.size())];
    }

    void choose_types() {
        types_ = {Type::s32, Type::u32};
        const auto maybe = [this](u32 percent, std::initializer_list<Type> several) {
            if (below(100) < percent) types_.insert(types_.end(), several);
        };
        maybe(50, {Type::s64, Type::u64});
        maybe(35, {Type::s16, Type::u16});
        maybe(25, {Type::s8, Type::u8});
        maybe(60, {Type::f32});
        maybe(40, {Type::f64});
        maybe(20, {Type::f16});
        maybe(15, {Type::bf16});
        program_.halves = has(Type::f16) || has(Type::bf16);
    }
    bool has(Type type) const {
        return type == Type::boolean ||
               std::find(types_.begin(), types_.end(), type) != types_.end();
    }

    void choose_operations() {
        const bool contracted = one_in(3);  // the compiler may contract operators
        for (const Operation& one : all_operations()) {
            const bool known =
                has(one.result) && std::all_of(one.arguments.begin(), one.arguments.end(),
                                               [this](Type type) { return has(type); });
            const bool halves = one.text.find("half") != std::string::npos ||
                                one.text.find("bfloat16") != std::string::npos;
            if (!known || (one.needs_sm90 && !sm90_) || (halves && !program_.halves) ||
                (one.contracts && contracted)) {
                continue;
            }
            operations_[static_cast<std::size_t>(one.result)].push_back(&one);
        }
        program_.options.push_back(contracted ? "-fmad=true" : "-fmad=false");
        program_.options.push_back("-w");
        if (one_in(4)) program_.options.push_back("-extra-device-vectorization");
        if (one_in(4)) program_.options.push_back("-std=c++17");
    }

    void choose_launch() {
        // Of a warp that is not full, the lanes that are there are an aligned group.
        program_.threads = one_in(6) ? u32{1} << below(5) : 32 * (1 + below(4));
        program_.blocks = 1 + below(2);
        program_.dynamic_shared = one_in(3);
    }

    /// Values of which much depends, else any.
    u64 interesting(Type type) {
        const std::size_t bits = bytes_of(type) * 8;
        const u64 all = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
        if (type == Type::boolean) return below(2);
        if (is_integer(type)) {
            switch (below(6)) {
                case 0:
                    return below(4);
                case 1:
                    return all - below(3);
                case 2:
                    return (u64{1} << (bits - 1)) - below(2);
                case 3:
                    return (u64{1} << below(bits)) & all;
                case 4:
                    return below(100) & all;
                default:
                    return random_() & all;
            }
        }
        return interesting_float(type, bits, all);
    }
    u64 interesting_float(Type type, std::size_t bits, u64 all) {
        const u64 sign = u64{below(2)} << (bits - 1);
        const u64 top = type == Type::f64    ? u64{0x7ff} << 52
                        : type == Type::f32  ? u64{0xff} << 23
                        : type == Type::bf16 ? u64{0xff} << 7
                                             : u64{0x1f} << 10;
        switch (below(10)) {
            case 0:
                return sign;  // zero
            case 1:
                return sign | (top - below(2));  // infinity and the greatest
            case 2:
                return one_in(3) ? (top | (top >> 1)) & all : sign | (1 + below(9));  // subnormal
            case 3:
                return random_() & all;
            default: {
                const Quad value = static_cast<Quad>(static_cast<s32>(below(4001)) - 2000) /
                                   static_cast<Quad>(u64{1} << below(12));
                return type == Type::f64    ? bits_of(rounded<f64>({value, 0}))
                       : type == Type::f32  ? bits_of(rounded<f32>({value, 0}))
                       : type == Type::bf16 ? bits_of(rounded<bf16>({value, 0}))
                                            : bits_of(rounded<f16>({value, 0}));
            }
        }
    }

    void fill_input() {
        program_.input.assign(input_bytes, '\0');
        for (std::size_t at = 0; at < input_bytes; at += 8) {
            const Type type = pick(types_);
            for (std::size_t i = 0; i < 8; i += bytes_of(type)) {
                const u64 value = interesting(type);
                std::memcpy(program_.input.data() + at + i, &value, bytes_of(type));
            }
        }
    }

    void add_table(Type type) {
        Table table;
        table.type = type;
        for (u32 i = 0; i < table_length; ++i) table.values.push_back(interesting(table.type));
        program_.tables.push_back(std::move(table));
    }

    // Expressions

    Expression constant(Type type) {
        Expression e;
        e.type = type;
        e.value = interesting(type);
        return e;
    }
    Expression variable(Type type, int index) {
        Expression e;
        e.kind = Expression::Kind::variable;
        e.type = type;
        e.index = index;
        return e;
    }
    Expression indexed(Expression::Kind kind, Type type, int index, int depth) {
        Expression e;
        e.kind = kind;
        e.type = type;
        e.index = index;
        e.arguments.push_back(expression(Type::u32, depth));
        return e;
    }

    template <class Function>
    int any_index(std::size_t count, Function matches) {
        std::vector<int> found;
        for (std::size_t i = 0; i < count; ++i) {
            if (matches(i)) found.push_back(static_cast<int>(i));
        }
        return found.empty() ? -1 : pick(found);
    }
    int any_variable(Type type, bool writable) {
        return any_index(function_->variables.size(), [&](std::size_t i) {
            const Variable& one = function_->variables[i];
            return one.type == type && (one.writable || !writable);
        });
    }

    Expression leaf(Type type, int depth) {
        const u32 what = below(10);
        if (what < 6) {
            const int index = any_variable(type, false);
            if (index >= 0) return variable(type, index);
        }
        if (what == 6 && type != Type::boolean) {
            return indexed(Expression::Kind::input, type, static_cast<int>(below(2)),
                           std::min(depth - 1, 1));
        }
        // What comes from a table is not known to the compiler.
        if (what == 7 || (what == 9 && one_in(2))) {
            const int index = any_index(program_.tables.size(), [&](std::size_t i) {
                return program_.tables[i].type == type;
            });
            if (index >= 0) return indexed(Expression::Kind::table, type, index, depth - 1);
        }
        if (what == 8) {
            const int index = any_index(function_->arrays.size(), [&](std::size_t i) {
                return function_->arrays[i] == type;
            });
            if (index >= 0) return indexed(Expression::Kind::array, type, index, depth - 1);
        }
        return constant(type);
    }

    Expression expression(Type type, int depth) {
        const auto& choices = operations_[static_cast<std::size_t>(type)];
        if (depth <= 0 || one_in(5) || choices.empty()) return leaf(type, std::max(depth, 0));
        if (one_in(8)) {
            const int index = any_index(program_.functions.size(), [&](std::size_t i) {
                return program_.functions[i].result == type;
            });
            if (index >= 0) return call(index, depth);
        }
        Expression e;
        e.kind = Expression::Kind::operation;
        e.type = type;
        e.operation = pick(choices);
        for (const Type argument : e.operation->arguments) {
            e.arguments.push_back(expression(argument, depth - 1));
        }
        return e;
    }
    Expression call(int index, int depth) {
        const Function& function = program_.functions[static_cast<std::size_t>(index)];
        Expression e;
        e.kind = Expression::Kind::call;
        e.type = function.result;
        e.index = index;
        for (std::size_t i = 0; i < function.parameters; ++i) {
            e.arguments.push_back(expression(function.variables[i].type, depth - 2));
        }
        return e;
    }
    Expression any(Type type) { return expression(type, 1 + static_cast<int>(below(3))); }

    // Functions

    void add_variables(Function& function) {
        for (const Type type : types_) {
            for (u32 i = 1 + below(3); i > 0; --i) function.variables.push_back({type, true});
        }
        function.variables.push_back({Type::boolean, true});
        for (u32 i = below(3); i > 0; --i) function.arrays.push_back(pick(types_));
    }
    void initialise(Function& function, std::size_t first) {
        for (std::size_t i = first; i < function.variables.size(); ++i) {
            Statement s;
            s.targets = {static_cast<int>(i)};
            const Type type = function.variables[i].type;
            s.expressions.push_back(&function == &program_.kernel && type != Type::boolean &&
                                            one_in(2)
                                        ? input_of_thread(type)
                                        : any(type));
            function.body.push_back(std::move(s));
        }
    }

    /// A value of its own for every thread.
    Expression input_of_thread(Type type) {
        Expression e;
        e.kind = Expression::Kind::input;
        e.type = type;
        Expression at;
        at.kind = Expression::Kind::operation;
        at.operation = &exclusive_or();
        at.arguments = {variable(Type::u32, thread_variable), constant(Type::u32)};
        e.arguments.push_back(std::move(at));
        return e;
    }
    static const Operation& exclusive_or() {
        static const Operation& found = *std::find_if(
            all_operations().begin(), all_operations().end(), [](const Operation& one) {
                return one.result == Type::u32 && one.text == "(u32)($0 ^ $1)";
            });
        return found;
    }

    void add_function() {
        Function function;
        for (u32 i = 1 + below(4); i > 0; --i) {
            function.variables.push_back({pick(types_), true});
        }
        function.parameters = function.variables.size();
        function.result = one_in(6) ? Type::boolean : pick(types_);
        for (u32 i = 2; i > 0; --i) function.variables.push_back({pick(types_), true});
        if (one_in(3)) function.arrays.push_back(pick(types_));
        function_ = &function;
        initialise(function, function.parameters);
        Place place;
        place.depth = 1;
        append(function.body, place, 1 + below(3));
        function.value = any(function.result);
        function_ = nullptr;
        program_.functions.push_back(std::move(function));
    }

    void make_kernel() {
        Function& kernel = program_.kernel;
        for (int i = 0; i < kernel_variables; ++i) kernel.variables.push_back({Type::u32, false});
        add_variables(kernel);
        function_ = &kernel;
        initialise(kernel, kernel_variables);
        Place place;
        place.kernel = true;
        place.grain = std::min(program_.threads, u32{32});
        place.lanes = place.grain == 32 ? 0xffffffff : (u32{1} << place.grain) - 1;
        place.whole_block = true;
        append(kernel.body, place, one_in(8) ? 40 : 6 + below(10));
        if (one_in(3)) {
            kernel.body.push_back(early_end());
            place.lanes = 0;
            place.whole_block = false;
            append(kernel.body, place, 1 + below(3));
        }
        add_outputs();
    }
    Statement early_end() {
        Statement s;
        s.kind = Kind::branch;
        s.expressions.push_back(any(Type::boolean));
        s.bodies.resize(2);
        Statement end;
        end.kind = Kind::finish;
        s.bodies[0].push_back(end);
        return s;
    }

    /// Every variable once; as vectors where there are two or four of a type.
    void add_outputs() {
        std::array<std::vector<int>, type_count> by_type;
        for (std::size_t i = kernel_variables; i < program_.kernel.variables.size(); ++i) {
            by_type[static_cast<std::size_t>(program_.kernel.variables[i].type)].push_back(
                static_cast<int>(i));
        }
        for (int t = 0; t < type_count; ++t) {
            std::vector<int>& left = by_type[static_cast<std::size_t>(t)];
            const Type type = static_cast<Type>(t);
            while (!left.empty()) {
                std::size_t count = one_in(2) ? 4 : 2;
                if (left.size() < count || vector_name(type, count).empty()) count = 1;
                Output output;
                output.type = type;
                output.variables.assign(left.end() - static_cast<std::ptrdiff_t>(count),
                                        left.end());
                left.resize(left.size() - count);
                program_.outputs.push_back(std::move(output));
            }
        }
        lay_out(program_);
    }

    // Statements

    void append(Body& body, const Place& place, u32 count) {
        for (; count > 0; --count) body.push_back(statement(place));
    }

    Statement statement(const Place& place) {
        const u32 what = below(100);
        if (what < 20 && place.lanes != 0) return together(place);
        if (what < 50 && place.depth < 3) return nested(place);
        if (what < 56 && place.in_loop) {
            Statement s;
            s.kind = Kind::leave;
            s.index = static_cast<int>(below(2));
            s.expressions.push_back(any(Type::boolean));
            return s;
        }
        if (what < 60 && !place.kernel && place.depth > 1) {
            Statement s;
            s.kind = Kind::finish;
            s.expressions.push_back(any(function_->result));
            return s;
        }
        return alone(place);
    }

    Statement alone(const Place& place) {
        Statement s;
        const u32 what = below(10);
        if (what < 2 && !function_->arrays.empty()) {
            s.kind = Kind::store;
            s.index = static_cast<int>(below(function_->arrays.size()));
            s.expressions.push_back(any(Type::u32));
            s.expressions.push_back(any(function_->arrays[static_cast<std::size_t>(s.index)]));
            return s;
        }
        if (what == 2 && load_vector(s)) return s;
        if (what == 3 && place.kernel && accumulate(s, false)) return s;
        if (what == 4 && place.kernel && own_atomic(s)) return s;
        return assign();
    }
    Statement assign() {
        Statement s;
        std::vector<int> writable;
        for (std::size_t i = 0; i < function_->variables.size(); ++i) {
            if (function_->variables[i].writable) writable.push_back(static_cast<int>(i));
        }
        s.targets = {pick(writable)};
        s.expressions.push_back(
            any(function_->variables[static_cast<std::size_t>(s.targets[0])].type));
        return s;
    }

    bool load_vector(Statement& s) {
        const Type type = pick(types_);
        std::size_t count = one_in(2) ? 4 : 2;
        if (vector_name(type, count).empty()) count = 2;
        if (vector_name(type, count).empty() || any_variable(type, true) < 0) return false;
        s.kind = Kind::load_vector;
        for (std::size_t i = 0; i < count; ++i) s.targets.push_back(any_variable(type, true));
        s.expressions.push_back(any(Type::u32));
        return true;
    }
    bool accumulate(Statement& s, bool shared) {
        s.index = static_cast<int>(below(accumulators().size()));
        const Accumulator& a = accumulators()[static_cast<std::size_t>(s.index)];
        if (!has(a.type) || !has(a.value) || (shared && *a.function == '\0')) return false;
        s.kind = shared ? Kind::shared_atomic : Kind::accumulate;
        s.expressions.push_back(any(Type::u32));
        s.expressions.push_back(any(a.value));
        return true;
    }
    bool own_atomic(Statement& s) {
        s.index = static_cast<int>(below(own_atomics().size()));
        const OwnAtomic& a = own_atomics()[static_cast<std::size_t>(s.index)];
        const int target = any_variable(a.type, true);
        if (!has(a.type) || target < 0) return false;
        s.kind = Kind::own_atomic;
        s.targets = {target};
        s.expressions.push_back(any(a.type));
        if (std::string(a.function) == "atomicCAS") s.expressions.push_back(any(a.type));
        return true;
    }

    Statement nested(const Place& outer) {
        Place inner = outer;
        ++inner.depth;
        inner.in_loop = false;
        Statement s;
        const u32 what = below(10);
        if (what < 2 && outer.lanes != 0 && outer.grain > 1) return lane_branch(inner);
        if (what == 2 && outer.kernel && outer.lanes != 0) {
            s.kind = Kind::warp_branch;
            s.mask = below(16);
            inner.whole_block = false;
            return with_bodies(std::move(s), inner, 2);
        }
        if (what == 3) return loop(outer, true);
        if (what < 6) return loop(outer, false);
        inner.lanes = 0;
        inner.whole_block = false;
        if (what == 6) {
            s.kind = Kind::choice;
            s.expressions.push_back(any(Type::u32));
            s.mask = below(16);
            return with_bodies(std::move(s), inner, 4);
        }
        s.kind = Kind::branch;
        s.expressions.push_back(any(Type::boolean));
        inner.in_loop = outer.in_loop;
        return with_bodies(std::move(s), inner, 2);
    }
    Statement with_bodies(Statement s, const Place& inner, u32 count) {
        s.bodies.resize(count);
        for (u32 i = 0; i < count; ++i) append(s.bodies[i], inner, (i == 0 ? 1 : 0) + below(3));
        return s;
    }

    Statement lane_branch(Place inner) {
        Statement s;
        s.kind = Kind::lane_branch;
        inner.whole_block = false;
        const u32 grain = u32{1} << below(static_cast<u64>(std::bit_width(inner.grain)) - 1);
        const u32 lanes = inner.lanes;
        do {
            s.mask = 0;
            for (u32 at = 0; at < 32; at += grain) {
                if (one_in(2)) s.mask |= ((u32{1} << grain) - 1) << at;
            }
        } while ((s.mask & lanes) == 0 || (s.mask & lanes) == lanes);
        inner.grain = grain;
        s.bodies.resize(2);
        inner.lanes = lanes & s.mask;
        append(s.bodies[0], inner, 1 + below(3));
        inner.lanes = lanes & ~s.mask;
        append(s.bodies[1], inner, below(3));
        return s;
    }

    /// `even`: every thread goes round as often as the others.
    Statement loop(Place inner, bool even) {
        Statement s;
        s.kind = Kind::loop;
        s.unrolled = one_in(2);
        ++inner.depth;
        inner.in_loop = !even;
        if (!even) {
            inner.lanes = 0;
            inner.whole_block = false;
        }
        s.expressions.push_back(even ? constant(Type::u32) : any(Type::u32));
        s.targets = {static_cast<int>(function_->variables.size())};
        function_->variables.push_back({Type::u32, false});
        s.bodies.resize(1);
        append(s.bodies[0], inner, 1 + below(3));
        return s;
    }

    /// Something that lanes or threads do together.
    Statement together(const Place& place) {
        Statement s;
        s.mask = place.lanes;
        bool made = false;
        switch (below(8)) {
            case 0:
            case 1:
                made = shuffle(s, place);
                break;
            case 2:
                made = vote(s);
                break;
            case 3:
                made = match(s);
                break;
            case 4:
                made = reduce(s);
                break;
            case 5:
                made = warp_exchange(s, place);
                break;
            case 6:
                made = place.whole_block && exchange(s);
                break;
            default:
                made = place.whole_block && shared_atomic(s);
                break;
        }
        if (made) return s;
        Statement simple;
        simple.mask = place.lanes;
        simple.kind = place.whole_block && one_in(2) ? Kind::barrier : Kind::warp_barrier;
        return simple;
    }
    /// Some type with a variable to write to.
    bool target_and_value(Statement& s, const Type type) {
        const int target = has(type) ? any_variable(type, true) : -1;
        if (target < 0) return false;
        s.targets = {target};
        s.expressions.push_back(any(type));
        return true;
    }
    bool shuffle(Statement& s, const Place& place) {
        const Type type = pick(types_);
        if (bytes_of(type) == 1 || type == Type::s16 || type == Type::u16) return false;
        if (place.grain < 2) return false;
        s.kind = Kind::shuffle;
        s.index = static_cast<int>(below(4));
        s.width = u32{2} << below(static_cast<u64>(std::bit_width(place.grain)) - 1);
        if (!target_and_value(s, type)) return false;
        s.expressions.push_back(any(Type::u32));
        return true;
    }
    bool vote(Statement& s) {
        s.kind = Kind::vote;
        s.index = static_cast<int>(below(3));
        s.targets = {any_variable(Type::u32, true)};
        s.expressions.push_back(any(Type::boolean));
        return s.targets[0] >= 0;
    }
    bool match(Statement& s) {
        s.kind = Kind::match;
        s.index = static_cast<int>(below(2));
        s.targets = {any_variable(Type::u32, true)};
        s.expressions.push_back(any(has(Type::u64) && one_in(2) ? Type::u64 : Type::u32));
        return s.targets[0] >= 0;
    }
    bool reduce(Statement& s) {
        s.kind = Kind::reduce;
        const Type type = one_in(2) ? Type::s32 : Type::u32;
        s.index = static_cast<int>(below(type == Type::u32 ? 6 : 3));
        return target_and_value(s, type);
    }
    bool warp_exchange(Statement& s, const Place& place) {
        if (place.grain < 2) return false;
        s.kind = Kind::warp_exchange;
        s.width = 1 + below(place.grain - 1);
        return target_and_value(s, pick(types_));
    }
    bool exchange(Statement& s) {
        s.kind = Kind::exchange;
        if (!target_and_value(s, pick(types_))) return false;
        s.expressions.push_back(any(Type::u32));
        return true;
    }
    bool shared_atomic(Statement& s) {
        if (!accumulate(s, true)) return false;
        const int target =
            any_variable(accumulators()[static_cast<std::size_t>(s.index)].type, true);
        if (target < 0) return false;
        s.targets = {target};
        s.expressions.push_back(any(Type::u32));
        return true;
    }

    std::mt19937_64 random_;
    bool sm90_;
    Program program_;
    std::vector<Type> types_;
    std::array<std::vector<const Operation*>, type_count> operations_;
    Function* function_ = nullptr;  ///< that is being made
};

}  // namespace

Program draw(u64 seed, u64 index, bool sm90) {
    return Generator(seed, index, sm90).draw();
}

}  // namespace kernelforge::fuzz
