// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fuzz_ops.hpp"

// A random kernel as a tree. It is drawn from a seed, printed as CUDA C++, and evaluated here.

namespace kernelforge::fuzz {

struct Expression {
    enum class Kind { constant, variable, input, table, array, operation, call };
    Kind kind = Kind::constant;
    Type type = Type::u32;
    u64 value = 0;  ///< of a constant
    int index = 0;  ///< of a variable, table, array or function; of input 1: by __ldg
    const Operation* operation = nullptr;
    std::vector<Expression> arguments;  ///< of input, table and array: the index
};

struct Statement {
    enum class Kind {
        assign,         ///< targets[0] = e0
        store,          ///< array `index` [e0] = e1
        branch,         ///< if (e0) bodies[0] else bodies[1]
        lane_branch,    ///< the lanes of `mask` bodies[0], others bodies[1]
        warp_branch,    ///< the warps of `mask` bodies[0], others bodies[1]
        loop,           ///< targets[0] counts to e0 & 7
        choice,         ///< switch (e0 & 3); a case in `mask` falls into the next one
        leave,          ///< if (e0) break, or continue where `index` is 1
        finish,         ///< return, of a function e0
        load_vector,    ///< targets = elements of the vector e0 of the input
        accumulate,     ///< accumulator `index` [e0], atomically with e1
        own_atomic,     ///< targets[0] = atomic `index` of the thread's own word with e0
        shuffle,        ///< targets[0] = e0 of the lane that e1 says; `index` is a ShuffleKind
        vote,           ///< targets[0] = any, all or ballot (`index`) of e0
        match,          ///< targets[0] = match any or all (`index`) of e0
        reduce,         ///< targets[0] = reduction `index` of e0 over the lanes
        exchange,       ///< through shared memory: targets[0] = e0 of the thread e1
        warp_exchange,  ///< the same of the lane that differs in the bits `width`
        shared_atomic,  ///< accumulator `index` in shared memory [e0] with e1; targets[0] = [e2]
        barrier,        ///< __syncthreads
        warp_barrier    ///< __syncwarp
    };
    Kind kind = Kind::assign;
    std::vector<int> targets;  ///< variables
    std::vector<Expression> expressions;
    std::vector<std::vector<Statement>> bodies;
    int index = 0;
    u32 mask = 0xffffffff;  ///< lanes that take part, of what warps do together
    u32 width = 32;
    bool unrolled = true;  ///< a loop that the compiler may unroll
};
using Body = std::vector<Statement>;
enum class ShuffleKind { index, up, down, exclusive };

struct Variable {
    Type type = Type::u32;
    bool writable = true;
};

struct Function {
    std::vector<Variable> variables;  ///< parameters first
    std::size_t parameters = 0;
    Type result = Type::u32;
    std::vector<Type> arrays;  ///< each of `array_length` elements
    Body body;
    Expression value;  ///< that it returns at its end
};
inline constexpr u32 array_length = 8;

/// The kernel's first variables, whose type is u32 and which are never written.
enum KernelVariable { thread_variable, lane_variable, warp_variable, block_variable };
inline constexpr int kernel_variables = 4;

/// Constant memory.
struct Table {
    Type type = Type::u32;
    std::vector<u64> values;
};
inline constexpr u32 table_length = 16;

/// Variables that are stored together, as a vector where there are several.
struct Output {
    Type type = Type::u32;
    std::vector<int> variables;
    std::size_t offset = 0;  ///< of thread 0 in the output buffer
};

struct Accumulator {
    const char* function;  ///< of CUDA C++; empty: addition by compare and swap
    Type type;
    Type value;  ///< type of what is accumulated, before it is converted
    u64 initial;
};
[[nodiscard]] const std::vector<Accumulator>& accumulators();
inline constexpr u32 accumulator_slots = 16;
inline constexpr u32 accumulator_bytes = accumulator_slots * 8;

struct OwnAtomic {
    const char* function;
    Type type;
    std::size_t offset;  ///< in the thread's own bytes
};
[[nodiscard]] const std::vector<OwnAtomic>& own_atomics();
inline constexpr std::size_t own_bytes = 32;
/// Types of a thread's own words and where they lie.
struct OwnWord {
    Type type;
    std::size_t offset;
};
[[nodiscard]] const std::vector<OwnWord>& own_words();

inline constexpr u32 input_bytes = 4096;

struct Program {
    std::vector<Function> functions;  ///< each may call earlier ones
    Function kernel;
    std::vector<Table> tables;
    std::vector<Output> outputs;
    std::string input;  ///< `input_bytes`
    u32 blocks = 1, threads = 32;
    bool dynamic_shared = false;
    bool halves = false;               ///< uses f16 or bf16
    std::vector<std::string> options;  ///< of the compiler
    /// Operations with this in their text are evaluated wrongly, to see that it is found.
    std::string planted;

    [[nodiscard]] std::size_t output_bytes() const;
    /// Of 8 bytes: one a thread, and enough for an accumulator.
    [[nodiscard]] u32 shared_words() const { return std::max(threads, accumulator_slots); }
};

/// Lays the outputs out one after another.
void lay_out(Program& program);

/// Kernel `index` of a seed; what needs sm_90 only where that is so.
[[nodiscard]] Program draw(u64 seed, u64 index, bool sm90);
[[nodiscard]] std::string print(const Program& program);

/// The name of a vector of elements, nothing where there is none.
[[nodiscard]] std::string vector_name(Type type, std::size_t elements);

/// Contents of the buffers of a launch.
struct Buffers {
    std::string accumulators, own, output;
    [[nodiscard]] bool operator==(const Buffers&) const = default;
};
[[nodiscard]] Buffers initial_buffers(const Program& program);
/// What the kernel leaves in them; nothing where that takes too long to be found out. [any]
[[nodiscard]] std::optional<Buffers> evaluate(const Program& program);

}  // namespace kernelforge::fuzz
