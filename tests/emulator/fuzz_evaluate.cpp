// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>

#include "fuzz_program.hpp"

// The meaning of a tree: the threads of a block execute its statements in step.

namespace kernelforge::fuzz {
namespace {

/// Of expressions, in a kernel.
constexpr u64 most_values = 2'000'000;

enum class Flow { runs, skips, left, finished };  ///< skips: the rest of a loop's body

/// One call of a function by a thread.
struct Frame {
    std::vector<u64> variables;
    std::vector<std::vector<u64>> arrays;
    Flow flow = Flow::runs;
    u64 result = 0;
    u32 thread = 0, global = 0;  ///< in the block and in the grid
};
using Frames = std::vector<Frame*>;

template <class T>
u64 combined(const std::string& function, u64 old_bits, u64 bits, u64 other) {
    const T old = value_of<T>(old_bits), value = value_of<T>(bits);
    if (function == "atomicExch") return bits;
    if (function == "atomicAdd" || function.empty()) {
        if constexpr (is_float<T>) return bits_of(add(old, value));
        return bits_of(T(static_cast<u64>(old) + static_cast<u64>(value)));
    }
    if constexpr (!is_float<T>) {
        if (function == "atomicSub")
            return bits_of(T(static_cast<u64>(old) - static_cast<u64>(value)));
        if (function == "atomicMin") return bits_of(std::min(old, value));
        if (function == "atomicMax") return bits_of(std::max(old, value));
        if (function == "atomicAnd") return bits_of(T(old & value));
        if (function == "atomicOr") return bits_of(T(old | value));
        if (function == "atomicXor") return bits_of(T(old ^ value));
        if (function == "atomicInc") return bits_of(old >= value ? T{0} : T(old + 1));
        if (function == "atomicDec") {
            return bits_of(old == 0 || old > value ? value : T(old - 1));
        }
        if (function == "atomicCAS") return old_bits == bits ? other : old_bits;
    }
    return old_bits;
}
u64 atomically(Type type, const std::string& function, u64 old, u64 value, u64 other = 0) {
    switch (type) {
        case Type::s32:
            return combined<s32>(function, old, value, other);
        case Type::u32:
            return combined<u32>(function, old, value, other);
        case Type::s64:
            return combined<s64>(function, old, value, other);
        case Type::u64:
            return combined<u64>(function, old, value, other);
        case Type::f32:
            return combined<f32>(function, old, value, other);
        default:
            return combined<f64>(function, old, value, other);
    }
}
/// Conversions of what accumulators take: an integer of 8 bits for floats, else no change.
u64 converted(const Accumulator& accumulator, u64 value) {
    if (accumulator.type == Type::f32) return bits_of(f32(value_of<s8>(value)));
    if (accumulator.type == Type::f64) return bits_of(f64(value_of<s8>(value)));
    return value;
}

u64 load(const std::string& bytes, std::size_t at, Type type) {
    u64 value = 0;
    std::memcpy(&value, bytes.data() + at, bytes_of(type));
    return value;
}
void save(std::string& bytes, std::size_t at, Type type, u64 value) {
    std::memcpy(bytes.data() + at, &value, bytes_of(type));
}

class Evaluation {
  public:
    explicit Evaluation(const Program& program)
        : program_(program), buffers_(initial_buffers(program)) {}

    std::optional<Buffers> run() {
        for (u32 block = 0; block < program_.blocks; ++block) run_block(block);
        if (values_ > most_values) return std::nullopt;
        return std::move(buffers_);
    }

  private:
    static Frame frame_of(const Function& function) {
        Frame frame;
        frame.variables.assign(function.variables.size(), 0);
        frame.arrays.assign(function.arrays.size(), std::vector<u64>(array_length, 0));
        return frame;
    }

    void run_block(u32 block) {
        std::vector<Frame> frames(program_.threads, frame_of(program_.kernel));
        Frames active;
        for (u32 i = 0; i < program_.threads; ++i) {
            Frame& frame = frames[i];
            frame.thread = i;
            frame.global = block * program_.threads + i;
            frame.variables[thread_variable] = i;
            frame.variables[lane_variable] = i % 32;
            frame.variables[warp_variable] = i / 32;
            frame.variables[block_variable] = block;
            active.push_back(&frame);
        }
        run_body(program_.kernel, program_.kernel.body, active);
        for (const Frame& frame : frames) {
            if (frame.flow == Flow::runs) store_outputs(frame);
        }
    }

    void store_outputs(const Frame& frame) {
        for (const Output& output : program_.outputs) {
            const std::size_t bytes = bytes_of(output.type);
            for (std::size_t i = 0; i < output.variables.size(); ++i) {
                save(buffers_.output,
                     output.offset + (frame.global * output.variables.size() + i) * bytes,
                     output.type, frame.variables[static_cast<std::size_t>(output.variables[i])]);
            }
        }
    }

    u64 value(const Expression& e, const Frame& frame) {
        ++values_;
        std::vector<u64> arguments;
        for (const Expression& one : e.arguments) arguments.push_back(value(one, frame));
        const auto index = static_cast<std::size_t>(e.index);
        switch (e.kind) {
            case Expression::Kind::constant:
                return e.value;
            case Expression::Kind::variable:
                return frame.variables[index];
            case Expression::Kind::input: {
                const std::size_t bytes = bytes_of(e.type);
                return load(program_.input, arguments[0] % (input_bytes / bytes) * bytes, e.type);
            }
            case Expression::Kind::table:
                return program_.tables[index].values[arguments[0] % table_length];
            case Expression::Kind::array:
                return frame.arrays[index][arguments[0] % array_length];
            case Expression::Kind::operation:
                return e.operation->evaluate(arguments.data()) ^ (is_planted(*e.operation) ? 1 : 0);
            case Expression::Kind::call:
                return call(program_.functions[index], arguments);
        }
        return 0;
    }

    bool is_planted(const Operation& operation) const {
        return !program_.planted.empty() &&
               operation.text.find(program_.planted) != std::string::npos;
    }

    u64 call(const Function& function, const std::vector<u64>& arguments) {
        Frame frame = frame_of(function);
        std::copy(arguments.begin(), arguments.end(), frame.variables.begin());
        Frames alone{&frame};
        run_body(function, function.body, alone);
        return frame.flow == Flow::finished ? frame.result : value(function.value, frame);
    }

    static Frames running(const Frames& frames) {
        Frames result;
        for (Frame* frame : frames) {
            if (frame->flow == Flow::runs) result.push_back(frame);
        }
        return result;
    }
    /// Those of which the predicate holds, and the others.
    template <class Predicate>
    static std::pair<Frames, Frames> split(const Frames& frames, Predicate predicate) {
        std::pair<Frames, Frames> result;
        for (Frame* frame : frames) {
            (predicate(*frame) ? result.first : result.second).push_back(frame);
        }
        return result;
    }

    void run_body(const Function& function, const Body& body, const Frames& frames) {
        for (const Statement& one : body) {
            const Frames active = running(frames);
            if (active.empty() || values_ > most_values) return;
            run_statement(function, one, active);
        }
    }

    void run_statement(const Function& function, const Statement& s, const Frames& active) {
        using Kind = Statement::Kind;
        switch (s.kind) {
            case Kind::branch:
                return run_ways(function, s, active, [&](const Frame& frame) {
                    return value(s.expressions[0], frame) != 0;
                });
            case Kind::lane_branch:
                return run_ways(function, s, active, [&](const Frame& frame) {
                    return (s.mask >> (frame.thread % 32) & 1) != 0;
                });
            case Kind::warp_branch:
                return run_ways(function, s, active, [&](const Frame& frame) {
                    return (s.mask >> (frame.thread / 32) & 1) != 0;
                });
            case Kind::loop:
                return run_loop(function, s, active);
            case Kind::choice:
                return run_choice(function, s, active);
            case Kind::shuffle:
            case Kind::vote:
            case Kind::match:
            case Kind::reduce:
            case Kind::warp_exchange:
                return run_warps(function, s, active);
            case Kind::exchange:
                return run_exchange(s, active);
            case Kind::shared_atomic:
                return run_shared_atomic(s, active);
            case Kind::barrier:
            case Kind::warp_barrier:
                return;
            default:
                for (Frame* frame : active) run_alone(function, s, *frame);
        }
    }

    template <class Predicate>
    void run_ways(const Function& function, const Statement& s, const Frames& active,
                  Predicate predicate) {
        const auto [yes, no] = split(active, predicate);
        run_body(function, s.bodies[0], yes);
        run_body(function, s.bodies[1], no);
    }

    void run_loop(const Function& function, const Statement& s, const Frames& active) {
        const auto counter = static_cast<std::size_t>(s.targets[0]);
        std::map<Frame*, u64> trips;
        for (Frame* frame : active) {
            trips[frame] = value(s.expressions[0], *frame) & 7;
            frame->variables[counter] = 0;
        }
        for (Frames in = active; !in.empty() && values_ <= most_values;) {
            in = split(in, [&](Frame& f) {
                     return f.flow == Flow::runs && f.variables[counter] < trips[&f];
                 }).first;
            run_body(function, s.bodies[0], in);
            for (Frame* frame : in) {
                if (frame->flow == Flow::skips) frame->flow = Flow::runs;
            }
            for (Frame* frame : running(in)) ++frame->variables[counter];
        }
        for (Frame* frame : active) {
            if (frame->flow == Flow::left) frame->flow = Flow::runs;
        }
    }

    void run_choice(const Function& function, const Statement& s, const Frames& active) {
        std::map<Frame*, u64> chosen;
        for (Frame* frame : active) chosen[frame] = value(s.expressions[0], *frame) & 3;
        Frames inside;
        for (u64 i = 0; i < 4; ++i) {
            for (Frame* frame : active) {
                if (chosen[frame] == i) inside.push_back(frame);
            }
            run_body(function, s.bodies[i], inside);
            if ((s.mask >> i & 1) == 0) inside.clear();
        }
    }

    void run_alone(const Function& function, const Statement& s, Frame& frame) {
        using Kind = Statement::Kind;
        const auto e = [&](std::size_t i) { return value(s.expressions[i], frame); };
        const auto index = static_cast<std::size_t>(s.index);
        switch (s.kind) {
            case Kind::assign:
                put(s, frame, e(0));
                break;
            case Kind::store: {
                const u64 at = e(0) % array_length;
                frame.arrays[index][at] = e(1);
                break;
            }
            case Kind::leave:
                if (e(0) != 0) frame.flow = s.index == 1 ? Flow::skips : Flow::left;
                break;
            case Kind::finish:
                if (!s.expressions.empty()) frame.result = e(0);
                frame.flow = Flow::finished;
                break;
            case Kind::load_vector: {
                const auto target = static_cast<std::size_t>(s.targets[0]);
                const Type type = function.variables[target].type;
                const std::size_t bytes = bytes_of(type) * s.targets.size();
                const std::size_t at = e(0) % (input_bytes / bytes) * bytes;
                for (std::size_t i = 0; i < s.targets.size(); ++i) {
                    frame.variables[static_cast<std::size_t>(s.targets[i])] =
                        load(program_.input, at + i * bytes_of(type), type);
                }
                break;
            }
            case Kind::accumulate: {
                const Accumulator& a = accumulators()[index];
                const std::size_t at =
                    index * accumulator_bytes + e(0) % accumulator_slots * bytes_of(a.type);
                update(buffers_.accumulators, at, a.type, a.function, converted(a, e(1)));
                break;
            }
            case Kind::own_atomic: {
                const OwnAtomic& a = own_atomics()[index];
                const u64 other = s.expressions.size() > 1 ? e(1) : 0;
                put(s, frame,
                    update(buffers_.own, frame.global * own_bytes + a.offset, a.type, a.function,
                           e(0), other));
                break;
            }
            default:
                break;
        }
    }

    static u64 update(std::string& bytes, std::size_t at, Type type, const char* function,
                      u64 operand, u64 other = 0) {
        const u64 old = load(bytes, at, type);
        // In global memory atom.add.f32 takes subnormal numbers for zeros, and makes them zeros.
        const auto flushed = [&](u64 bits) {
            const bool adds = type == Type::f32 && std::string_view(function) == "atomicAdd";
            return adds && (bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits;
        };
        const u64 made = atomically(type, function, flushed(old), flushed(operand), other);
        save(bytes, at, type, flushed(made));
        return old;
    }
    static void put(const Statement& s, Frame& frame, u64 value) {
        frame.variables[static_cast<std::size_t>(s.targets[0])] = value;
    }

    void run_warps(const Function& function, const Statement& s, const Frames& active) {
        std::map<u32, Frames> warps;
        for (Frame* frame : active) warps[frame->thread / 32].push_back(frame);
        for (const auto& [warp, frames] : warps) run_warp(function, s, frames);
    }

    /// All lanes' sources are read before a result is written.
    void run_warp(const Function&, const Statement& s, const Frames& frames) {
        std::array<u64, 32> first{}, results{};
        for (const Frame* frame : frames) {
            first[frame->thread % 32] = value(s.expressions[0], *frame);
        }
        for (const Frame* frame : frames) {
            const u32 lane = frame->thread % 32;
            results[lane] = result_of(s, frames, first, *frame, lane);
        }
        for (Frame* frame : frames) put(s, *frame, results[frame->thread % 32]);
    }

    u64 result_of(const Statement& s, const Frames& frames, const std::array<u64, 32>& first,
                  const Frame& frame, u32 lane) {
        switch (s.kind) {
            case Statement::Kind::shuffle:
                return first[shuffled(s, lane, value(s.expressions[1], frame))];
            case Statement::Kind::warp_exchange:
                return first[lane ^ s.width];
            case Statement::Kind::vote: {
                u64 ballot = 0;
                for (const Frame* one : frames) {
                    const u32 bit = one->thread % 32;
                    if (first[bit] != 0) ballot |= u64{1} << bit;
                }
                if (s.index == 0) return ballot != 0 ? 1 : 0;
                return s.index == 1 ? u64{ballot == s.mask} : ballot;
            }
            case Statement::Kind::match: {
                u64 same = 0;
                for (const Frame* one : frames) {
                    const u32 bit = one->thread % 32;
                    if (first[bit] == first[lane]) same |= u64{1} << bit;
                }
                if (s.index == 0) return same;
                return same == s.mask ? u32(same + 1) : 0;
            }
            default:
                return reduced(s, frames, first);
        }
    }

    static u32 shuffled(const Statement& s, u32 lane, u64 operand) {
        const u32 begin = lane & ~(s.width - 1), end = begin + s.width;
        const u32 n = static_cast<u32>(operand) & 31;
        switch (static_cast<ShuffleKind>(s.index)) {
            case ShuffleKind::index:
                return begin + n % s.width;
            case ShuffleKind::up:
                return lane >= begin + n ? lane - n : lane;
            case ShuffleKind::down:
                return lane + n < end ? lane + n : lane;
            case ShuffleKind::exclusive:
                return lane ^ (n & (s.width - 1));
        }
        return lane;
    }

    static u64 reduced(const Statement& s, const Frames& frames, const std::array<u64, 32>& first) {
        constexpr const char* names[] = {"atomicAdd", "atomicMin", "atomicMax",
                                         "atomicAnd", "atomicOr",  "atomicXor"};
        u64 result = first[frames[0]->thread % 32];
        for (std::size_t i = 1; i < frames.size(); ++i) {
            result = atomically(s.expressions[0].type, names[s.index], result,
                                first[frames[i]->thread % 32]);
        }
        return result;
    }

    void run_exchange(const Statement& s, const Frames& active) {
        std::vector<u64> shared(program_.threads);
        for (const Frame* frame : active) shared[frame->thread] = value(s.expressions[0], *frame);
        for (Frame* frame : active) {
            const u64 from = value(s.expressions[1], *frame) % program_.threads;
            put(s, *frame, shared[from]);
        }
    }

    void run_shared_atomic(const Statement& s, const Frames& active) {
        const Accumulator& a = accumulators()[static_cast<std::size_t>(s.index)];
        std::vector<u64> slots(accumulator_slots, a.initial);
        for (const Frame* frame : active) {
            u64& slot = slots[value(s.expressions[0], *frame) % accumulator_slots];
            slot =
                atomically(a.type, a.function, slot, converted(a, value(s.expressions[1], *frame)));
        }
        for (Frame* frame : active) {
            put(s, *frame, slots[value(s.expressions[2], *frame) % accumulator_slots]);
        }
    }

    const Program& program_;
    Buffers buffers_;
    u64 values_ = 0;
};

}  // namespace

const std::vector<Accumulator>& accumulators() {
    static const std::vector<Accumulator> all = {
        {"atomicAdd", Type::u32, Type::u32, 17},
        {"atomicAdd", Type::u64, Type::u64, 0xfffffff0},
        {"atomicMin", Type::s32, Type::s32, 0x7fffffff},
        {"atomicMax", Type::u32, Type::u32, 5},
        {"atomicMin", Type::s64, Type::s64, 1},
        {"atomicMax", Type::u64, Type::u64, 0},
        {"atomicAnd", Type::u32, Type::u32, 0xffffffff},
        {"atomicOr", Type::u64, Type::u64, 0},
        {"atomicXor", Type::u32, Type::u32, 0x12345678},
        {"atomicAdd", Type::f32, Type::s8, 0x3f800000},
        {"atomicAdd", Type::f64, Type::s8, 0},
        {"", Type::u32, Type::u32, 3},
    };
    return all;
}

const std::vector<OwnWord>& own_words() {
    static const std::vector<OwnWord> all = {
        {Type::u32, 0}, {Type::s32, 4}, {Type::u64, 8}, {Type::f64, 16}, {Type::f32, 24}};
    return all;
}

const std::vector<OwnAtomic>& own_atomics() {
    static const std::vector<OwnAtomic> all = {
        {"atomicAdd", Type::u32, 0},  {"atomicSub", Type::u32, 0},  {"atomicExch", Type::u32, 0},
        {"atomicInc", Type::u32, 0},  {"atomicDec", Type::u32, 0},  {"atomicCAS", Type::u32, 0},
        {"atomicAdd", Type::s32, 4},  {"atomicMin", Type::s32, 4},  {"atomicMax", Type::s32, 4},
        {"atomicXor", Type::s32, 4},  {"atomicAdd", Type::u64, 8},  {"atomicMin", Type::u64, 8},
        {"atomicAnd", Type::u64, 8},  {"atomicExch", Type::u64, 8}, {"atomicCAS", Type::u64, 8},
        {"atomicAdd", Type::f64, 16}, {"atomicAdd", Type::f32, 24}, {"atomicExch", Type::f32, 24},
    };
    return all;
}

std::size_t Program::output_bytes() const {
    if (outputs.empty()) return 16;
    const Output& last = outputs.back();
    return last.offset + bytes_of(last.type) * last.variables.size() * blocks * threads;
}

void lay_out(Program& program) {
    std::size_t end = 0;
    for (Output& output : program.outputs) {
        output.offset = (end + 15) / 16 * 16;
        end = output.offset +
              bytes_of(output.type) * output.variables.size() * program.blocks * program.threads;
    }
}

Buffers initial_buffers(const Program& program) {
    Buffers buffers;
    buffers.accumulators.resize(accumulators().size() * accumulator_bytes);
    for (std::size_t i = 0; i < accumulators().size(); ++i) {
        const Accumulator& one = accumulators()[i];
        for (u32 slot = 0; slot < accumulator_slots; ++slot) {
            save(buffers.accumulators, i * accumulator_bytes + slot * bytes_of(one.type), one.type,
                 one.initial);
        }
    }
    buffers.own.resize(own_bytes * program.blocks * program.threads);
    for (std::size_t i = 0; i < buffers.own.size(); i += own_bytes) {
        for (const OwnWord& word : own_words()) save(buffers.own, i + word.offset, word.type, 2);
    }
    buffers.output.assign(program.output_bytes(), '\x5a');
    return buffers;
}

std::optional<Buffers> evaluate(const Program& program) {
    return Evaluation(program).run();
}

}  // namespace kernelforge::fuzz
