// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/decode_layout.hpp"
#include "emulator/decode_rows.hpp"
#include "emulator/decode_speculation.hpp"
#include "emulator/program.hpp"

// One function's instructions, from PTX operands to virtual registers.

namespace kernelforge::emulator::decoding {

/// An address operand: a register (or none), a variable (or none), and bytes added to them.
struct Address {
    RowRef row = no_row;
    Row shape = Row::b64;
    std::int32_t symbol = -1;
    std::int64_t offset = 0;
};

/// "m64n128k32" among the words: {64, 128, 32}; zeros: there is no shape.
[[nodiscard]] std::array<int, 3> matrix_shape(const Instruction& instruction);

/// State of decoding one function: its registers, labels and the instructions made so far.
class FunctionDecoder {
  public:
    FunctionDecoder(const ModuleLayout& module, const FunctionLayout& layout, Code& code,
                    FixedRows& fixed, Isa isa);
    /// Appends the function's instructions to the code. @throws PtxError
    void run();

  private:
    using Operands = std::vector<Operand>;

    // Registers and operands (decode_operands.cpp).
    void declare_registers();
    void find_constant_registers();
    [[nodiscard]] std::optional<RowRef> constant_value(const Instruction& instruction, Row row,
                                                       Type type);
    [[nodiscard]] int register_of(const std::string& name) const;
    [[nodiscard]] std::optional<std::int32_t> find_symbol(const std::string& name) const;
    [[nodiscard]] Row shape_of(const Operand& operand, Row otherwise) const;
    [[nodiscard]] Type type_of(const Operand& operand) const;
    [[nodiscard]] RowRef source(const Operand& operand, Row shape);
    [[nodiscard]] RowRef destination(const Operand& operand, Row shape);
    [[nodiscard]] RowRef symbol_value(const Operand& operand, Row shape);
    [[nodiscard]] Address address(const Operand& operand) const;
    [[nodiscard]] RowRef temporary(Row shape);
    /// A register operand of a new name, for instructions that the decoder makes itself.
    [[nodiscard]] Operand named_temporary(Type type);
    static Operand integer(std::uint64_t bits);
    void expect_operands(std::size_t least, std::size_t most) const;
    [[nodiscard]] Space space(Space otherwise) const;
    [[nodiscard]] Type value_type() const;
    [[nodiscard]] int immediate(const Operand& operand, int least, int most) const;
    [[nodiscard]] std::string name() const { return now_->full_name(); }
    /// Of the instruction that is being decoded. Code that the compiler made of several places has
    /// no line: it gets that of the nearest code before it, or the function's first.
    [[nodiscard]] Place place() const;
    [[nodiscard]] bool has(std::string_view modifier) const { return now_->has(modifier); }
    [[noreturn]] void bad(const std::string& what) const;
    [[noreturn]] void unknown(const std::string& why = {}) const;

    // Instructions (decode_function.cpp).
    void decode(const Instruction& instruction);
    void probe(const Instruction& load, const Speculation& speculation);
    DecodedInstruction& emit(Kind kind, std::size_t attribute, const std::vector<RowRef>& operands,
                             Effects effects);
    void pure(const Instruction& instruction);
    /// A register-to-register instruction of the decoder's own making, unguarded.
    void make(const char* opcode, std::vector<std::string> modifiers, Operands operands);
    void move();
    void convert_address();
    void is_space();
    void map_rank();
    void rank();
    void branch();
    void branch_table();
    void call();
    void call_system(SystemFunction function);
    void copy_arguments(const Operands& operands, const std::vector<Symbol>& parameters,
                        std::vector<CallOp::Copy>& copies, bool inwards);
    void nothing() {}
    void refuse();
    void create_policy();
    void nanosleep();
    void trap();
    void breakpoint();
    void exit();
    void ret();
    void query(const QueryOp& op, std::vector<RowRef> operands);
    void clock(SpecialRegister which, const Operand& operand);
    void finish();

    // decode_memory.cpp
    void load();
    void store();
    void atomic();
    void memory_order(MemoryOp& op, Order otherwise) const;
    [[nodiscard]] MemoryOp memory_op(MemoryOp::What what) const;
    void place_address(MemoryOp& op, const Address& where) const;
    [[nodiscard]] Row data_shape(const std::vector<Operand>& values, Type type) const;
    void emit_memory(const MemoryOp& op, const std::vector<RowRef>& operands, int destinations);

    // decode_sync.cpp
    void barrier();
    void cluster_barrier();
    void vote();
    void match();
    void shuffle();
    void reduce();
    void elect();
    void active_mask();
    void fence();
    void emit_sync(const SyncOp& op, const std::vector<RowRef>& operands, int destinations);

    // decode_async.cpp
    void copy_async();
    void copy_bulk();
    void copy_tensor();
    void reduce_async();
    void mbarrier();
    void mbarrier_arrive(AsyncOp op);
    void mbarrier_wait(AsyncOp op);
    void add_address(AsyncOp& op, std::vector<RowRef>& rows, const Operand& operand) const;
    void add_value(AsyncOp& op, std::vector<RowRef>& rows, const Operand& operand, Row shape);
    void emit_async(const AsyncOp& op, const std::vector<RowRef>& operands, int destinations);

    // decode_matrix.cpp
    void load_matrix();
    void store_matrix();
    void transpose_matrix();
    void wgmma();
    void wgmma_multiply();
    void place_address(MatrixOp& op, const Operand& operand, std::vector<RowRef>& rows) const;

    // decode_wmma.cpp
    void wmma();
    void wmma_transfer(MatrixOp::What what);

    using Handler = void (FunctionDecoder::*)();
    static const std::unordered_map<std::string_view, Handler>& handlers();

    const ModuleLayout& module_;
    const FunctionLayout& layout_;
    const Function& function_;
    Code& code_;
    FixedRows& fixed_;
    Isa isa_;
    VirtualCode virtual_;
    std::unordered_map<std::string, int> register_numbers_;
    std::vector<Type> register_types_;
    std::vector<RowRef> constant_registers_;  ///< by register: its fixed row, or no_row
    std::vector<std::uint32_t> starts_;       ///< PTX instruction -> first decoded one
    const Instruction* now_ = nullptr;
    int line_ = 0;  ///< source line of the newest instruction that has one
    MemoryOp::Speculative speculative_ = MemoryOp::Speculative::no;  ///< of the load `now_`
    bool guarded_ = true;  ///< whether `emit` guards as `now_` says
    int carry_ = -1;       ///< virtual register of the carry flag
    int temporaries_ = 0;
};

}  // namespace kernelforge::emulator::decoding
