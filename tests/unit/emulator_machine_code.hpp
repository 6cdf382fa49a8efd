// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "emulator/machine.hpp"

// Kernels made by hand, instruction for instruction, and a device to run them on.

namespace kernelforge::emulator {

template <class Value, class Function>
void for_lanes(std::uint32_t mask, Function function) {
    for (; mask != 0; mask &= mask - 1) function(std::countr_zero(mask));
}

/// d = a + b, b32.
inline void add32(const Rows& rows, const RowRef* o, std::uint32_t mask) {
    for_lanes<int>(mask, [&](int i) {
        rows.at<std::uint32_t>(o[0])[i] =
            rows.at<std::uint32_t>(o[1])[i] + rows.at<std::uint32_t>(o[2])[i];
    });
}
inline void multiply32(const Rows& rows, const RowRef* o, std::uint32_t mask) {
    for_lanes<int>(mask, [&](int i) {
        rows.at<std::uint32_t>(o[0])[i] =
            rows.at<std::uint32_t>(o[1])[i] * rows.at<std::uint32_t>(o[2])[i];
    });
}
inline void and32(const Rows& rows, const RowRef* o, std::uint32_t mask) {
    for_lanes<int>(mask, [&](int i) {
        rows.at<std::uint32_t>(o[0])[i] =
            rows.at<std::uint32_t>(o[1])[i] & rows.at<std::uint32_t>(o[2])[i];
    });
}
/// d (b64) = a (b64) + b (b32) * c (b32)
inline void index64(const Rows& rows, const RowRef* o, std::uint32_t mask) {
    for_lanes<int>(mask, [&](int i) {
        rows.at<std::uint64_t>(o[0])[i] =
            rows.at<std::uint64_t>(o[1])[i] +
            std::uint64_t{rows.at<std::uint32_t>(o[2])[i]} * rows.at<std::uint32_t>(o[3])[i];
    });
}
/// p = a < b, unsigned
inline void less32(const Rows& rows, const RowRef* o, std::uint32_t mask) {
    for_lanes<int>(mask, [&](int i) {
        auto& bits = *rows.at<std::uint32_t>(o[0]);
        const bool less = rows.at<std::uint32_t>(o[1])[i] < rows.at<std::uint32_t>(o[2])[i];
        bits = (bits & ~(1U << i)) | std::uint32_t{less} << i;
    });
}

/// Builds the code of one kernel; further functions follow `function`.
class Assembler {
  public:
    Assembler() {
        code.constants.reserve(1 << 14);
        function("kernel");
        Entry entry;
        entry.name = "kernel";
        code.entries.push_back(entry);
        code.calls.emplace_back();
    }

    RowRef b32() { return row(128); }
    RowRef b64() { return row(256); }
    RowRef predicate() { return row(128); }
    RowRef constant32(std::uint32_t value) { return constant<std::uint32_t>(value); }
    RowRef constant64(std::uint64_t value) { return constant<std::uint64_t>(value); }
    RowRef special(SpecialRegister which) {
        const RowRef made = constant32(0);
        code.specials.emplace_back(which, made);
        return made;
    }
    std::int32_t symbol(Space space, std::uint64_t offset, std::uint64_t bytes) {
        Symbol made;
        made.name = "s";
        made.space = space;
        made.offset = offset;
        made.bytes = bytes;
        made.of_launch = space == Space::param;
        code.symbols.push_back(made);
        return static_cast<std::int32_t>(code.symbols.size() - 1);
    }

    DecodedInstruction& emit(Kind kind, std::initializer_list<RowRef> operands = {},
                             std::size_t attribute = 0) {
        DecodedInstruction made;
        made.kind = kind;
        made.operands = static_cast<std::uint32_t>(code.operands.size());
        made.operand_count = static_cast<std::uint16_t>(operands.size());
        made.attribute = static_cast<std::uint32_t>(attribute);
        made.place = {static_cast<int>(code.instructions.size()) + 1,
                      static_cast<int>(code.instructions.size()) + 1};
        code.operands.insert(code.operands.end(), operands);
        code.instructions.push_back(made);
        return code.instructions.back();
    }
    DecodedInstruction& pure(PureFn run, std::initializer_list<RowRef> operands) {
        DecodedInstruction& made = emit(Kind::pure, operands);
        made.pure = run;
        return made;
    }
    DecodedInstruction& memory(const MemoryOp& op, std::initializer_list<RowRef> operands) {
        code.memory.push_back(op);
        return emit(Kind::memory, operands, code.memory.size() - 1);
    }
    DecodedInstruction& load(Space space, RowRef to, RowRef address, Row address_row = Row::b64) {
        MemoryOp op;
        op.space = space;
        op.address_row = address_row;
        return memory(op, {to, address});
    }
    DecodedInstruction& store(Space space, RowRef address, RowRef from,
                              Row address_row = Row::b64) {
        MemoryOp op;
        op.what = MemoryOp::What::store;
        op.space = space;
        op.address_row = address_row;
        return memory(op, {address, from});
    }
    DecodedInstruction& load_parameter(RowRef to, std::uint64_t offset) {
        MemoryOp op;
        op.space = Space::param;
        op.type = Type::b64;
        op.data_row = Row::b64;
        op.alignment = 8;
        op.symbol = symbol(Space::param, offset, 8);
        return memory(op, {to, no_row});
    }
    DecodedInstruction& sync(SyncOp op, std::initializer_list<RowRef> operands) {
        code.sync.push_back(op);
        return emit(Kind::sync, operands, code.sync.size() - 1);
    }
    DecodedInstruction& barrier(std::uint32_t id = 0) { return sync({}, {constant32(id)}); }
    std::size_t here() const { return code.instructions.size(); }
    void land(std::size_t branch) {
        code.instructions[branch].target = static_cast<std::uint32_t>(here());
    }
    /// A branch to be landed later, or to where it says.
    std::size_t branch(RowRef guard = no_row, bool negated = false, std::size_t target = 0) {
        DecodedInstruction& made = emit(Kind::branch);
        made.guard = guard;
        made.guard_negated = negated;
        made.target = static_cast<std::uint32_t>(target);
        return here() - 1;
    }
    void function(const std::string& name, std::uint32_t parameter_bytes = 0) {
        finish();
        CodeFunction made;
        made.name = name;
        made.first = static_cast<std::uint32_t>(here());
        made.parameter_bytes = parameter_bytes;
        code.functions.push_back(made);
        frame_ = 0;
    }
    std::shared_ptr<const Code> take() {
        finish();
        return std::make_shared<const Code>(std::move(code));
    }

    Code code;

  private:
    RowRef row(std::uint32_t bytes) {
        const RowRef made = static_cast<RowRef>(frame_);
        frame_ += bytes;
        return made;
    }
    template <class Word>
    RowRef constant(Word value) {
        const std::size_t at = code.constants.size();
        for (int lane = 0; lane < warp_lanes; ++lane) {
            code.constants.append(reinterpret_cast<const char*>(&value), sizeof value);
        }
        return ~static_cast<RowRef>(at);
    }
    void finish() {
        if (code.functions.empty()) return;
        code.functions.back().end = static_cast<std::uint32_t>(here());
        code.functions.back().frame_bytes = frame_;
    }

    std::uint32_t frame_ = 0;
};

/// Device memory, and launches.
struct TestDevice {
    explicit TestDevice(int threads = 2, MachineLimits limits = {})
        : machine(memory, limits, threads) {}

    template <class T>
    std::uint64_t make(std::size_t count, T value = T{}, bool writable = true) {
        const std::size_t bytes = count * sizeof(T);
        auto block = std::make_shared<Block>(bytes);
        const std::uint64_t address = memory.reserve(bytes);
        memory.map(address, bytes, block, 0, writable);
        for (std::size_t i = 0; i < count; ++i) at<T>(address)[i] = value;
        made.emplace_back(address, bytes);
        return address;
    }
    template <class T>
    T* at(std::uint64_t address) {
        return reinterpret_cast<T*>(memory.host(address, sizeof(T)));
    }
    Outcome run(const std::shared_ptr<const Code>& code, std::uint32_t blocks,
                std::uint32_t threads, std::initializer_list<std::uint64_t> parameters,
                std::chrono::milliseconds most = std::chrono::seconds(10)) {
        LoadedCode loaded{code, {}};
        Launch launch;
        launch.module = &loaded;
        launch.entry = code->entries.data();
        launch.grid = {blocks, 1, 1};
        launch.block = {threads, 1, 1};
        for (const std::uint64_t value : parameters) {
            launch.parameters.append(reinterpret_cast<const char*>(&value), sizeof value);
        }
        return machine.run(launch, std::chrono::steady_clock::now() + most);
    }

    AddressSpace memory;
    std::vector<std::pair<std::uint64_t, std::size_t>> made;  ///< address and bytes
    Machine machine;
};

}  // namespace kernelforge::emulator
