// SPDX-License-Identifier: Apache-2.0
#include "emulator/decode_function.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "emulator/decode_special.hpp"

namespace kernelforge::emulator::decoding {

FunctionDecoder::FunctionDecoder(const ModuleLayout& module, const FunctionLayout& layout,
                                 Code& code, FixedRows& fixed, Isa isa)
    : module_(module),
      layout_(layout),
      function_(*layout.source),
      code_(code),
      fixed_(fixed),
      isa_(isa) {}

void FunctionDecoder::run() {
    declare_registers();
    find_constant_registers();
    starts_.reserve(function_.instructions.size() + 1);
    const auto first_line =
        std::find_if(function_.instructions.begin(), function_.instructions.end(),
                     [](const Instruction& each) { return each.place.source_line > 0; });
    if (first_line != function_.instructions.end()) line_ = first_line->place.source_line;
    using Speculative = MemoryOp::Speculative;
    const auto speculations = find_speculations(function_);
    std::multimap<std::size_t, std::size_t> probes;  // behind which instruction, of which load
    for (const auto& [load, found] : speculations) probes.emplace(found.known_after, load);
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
        const Instruction& instruction = function_.instructions[i];
        starts_.push_back(static_cast<std::uint32_t>(virtual_.instructions.size()));
        now_ = &instruction;
        if (instruction.place.source_line > 0) line_ = instruction.place.source_line;
        speculative_ = speculations.count(i) != 0 ? Speculative::load : Speculative::no;
        decode(instruction);
        const auto [begin, end] = probes.equal_range(i);
        for (auto each = begin; each != end; ++each) {
            probe(function_.instructions[each->second], speculations.at(each->second));
        }
    }
    now_ = nullptr;
    starts_.push_back(static_cast<std::uint32_t>(virtual_.instructions.size()));
    finish();
}

/// Handlers of what is not register-to-register, or needs a look before. `refuse`: known to PTX,
/// not emulated; unknown words end in `find_pure`.
const std::unordered_map<std::string_view, FunctionDecoder::Handler>& FunctionDecoder::handlers() {
    using F = FunctionDecoder;
    static const std::unordered_map<std::string_view, Handler> table{
        {"mov", &F::move},
        {"cvta", &F::convert_address},
        {"isspacep", &F::is_space},
        {"mapa", &F::map_rank},
        {"getctarank", &F::rank},
        {"bra", &F::branch},
        {"brx", &F::branch_table},
        {"call", &F::call},
        {"ret", &F::ret},
        {"exit", &F::exit},
        {"trap", &F::trap},
        {"brkpt", &F::breakpoint},
        {"nanosleep", &F::nanosleep},
        {"ld", &F::load},
        {"ldu", &F::load},
        {"st", &F::store},
        {"atom", &F::atomic},
        {"red", &F::atomic},
        {"bar", &F::barrier},
        {"barrier", &F::barrier},
        {"vote", &F::vote},
        {"match", &F::match},
        {"shfl", &F::shuffle},
        {"redux", &F::reduce},
        {"elect", &F::elect},
        {"activemask", &F::active_mask},
        {"membar", &F::fence},
        {"fence", &F::fence},
        {"cp", &F::copy_async},
        {"mbarrier", &F::mbarrier},
        {"ldmatrix", &F::load_matrix},
        {"stmatrix", &F::store_matrix},
        {"movmatrix", &F::transpose_matrix},
        {"wgmma", &F::wgmma},
        {"wmma", &F::wmma},
        {"prefetch", &F::nothing},
        {"prefetchu", &F::nothing},
        {"applypriority", &F::nothing},
        {"discard", &F::nothing},
        {"griddepcontrol", &F::nothing},
        {"setmaxnreg", &F::nothing},
        {"pragma", &F::nothing},
        {"pmevent", &F::nothing},
        {"createpolicy", &F::create_policy},
        {"tex", &F::refuse},
        {"tld4", &F::refuse},
        {"txq", &F::refuse},
        {"istypep", &F::refuse},
        {"suld", &F::refuse},
        {"sust", &F::refuse},
        {"sured", &F::refuse},
        {"suq", &F::refuse},
        {"alloca", &F::refuse},
        {"stacksave", &F::refuse},
        {"stackrestore", &F::refuse},
        {"multimem", &F::refuse},
        {"tensormap", &F::refuse},
        {"clusterlaunchcontrol", &F::refuse},
        {"tcgen05", &F::refuse},
    };
    return table;
}

void FunctionDecoder::decode(const Instruction& instruction) {
    guarded_ = true;
    if (!instruction.guard.empty() &&
        virtual_.registers[static_cast<std::size_t>(register_of(instruction.guard))] !=
            Row::predicate) {
        bad(fmt::format("guard {} is no predicate", instruction.guard));
    }
    const auto handler = handlers().find(instruction.opcode);
    if (handler == handlers().end()) {
        pure(instruction);
    } else {
        (this->*handler->second)();
    }
}

void FunctionDecoder::probe(const Instruction& load, const Speculation& speculation) {
    Instruction guarded = load;
    guarded.guard = speculation.predicate;
    guarded.guard_negated = speculation.negated;
    Operand& to = guarded.operands[0];
    if (to.kind != Operand::Kind::vector) to = Operand{};
    for (Operand& each : to.elements) each = Operand{};
    now_ = &guarded;
    speculative_ = MemoryOp::Speculative::probe;
    decode(guarded);
    now_ = nullptr;
}

DecodedInstruction& FunctionDecoder::emit(Kind kind, std::size_t attribute,
                                          const std::vector<RowRef>& operands, Effects effects) {
    if (operands.size() > std::numeric_limits<std::uint16_t>::max()) {
        unknown(fmt::format("{} operands", operands.size()));
    }
    DecodedInstruction& made = virtual_.instructions.emplace_back();
    made.kind = kind;
    made.attribute = static_cast<std::uint32_t>(attribute);
    made.operands = static_cast<std::uint32_t>(virtual_.operands.size());
    made.operand_count = static_cast<std::uint16_t>(operands.size());
    virtual_.operands.insert(virtual_.operands.end(), operands.begin(), operands.end());
    virtual_.effects.push_back(effects);
    if (now_ != nullptr) {
        made.place = place();
        if (guarded_ && !now_->guard.empty()) {
            const auto number = static_cast<std::size_t>(register_of(now_->guard));
            made.guard = constant_registers_[number] != no_row ? constant_registers_[number]
                                                               : static_cast<RowRef>(number);
            made.guard_negated = now_->guard_negated;
        }
    }
    return made;
}

void FunctionDecoder::pure(const Instruction& instruction) {
    std::vector<const Operand*> flat;
    for (const Operand& operand : instruction.operands) {
        if (operand.kind != Operand::Kind::vector) {
            flat.push_back(&operand);
            continue;
        }
        for (const Operand& element : operand.elements) {
            flat.push_back(&element);
        }
    }
    std::vector<Type> types;
    for (const Operand* operand : flat) {
        types.push_back(type_of(*operand));
    }
    std::optional<PureOp> op;
    try {
        op = find_pure(instruction, types, isa_);
    } catch (const PtxError& error) {
        // Its place may be that of nothing.
        throw PtxError(error.kind(), place(), error.what());
    }
    if (!op) {
        unknown();
    }
    const auto destinations = static_cast<std::size_t>(op->destinations);
    const std::size_t carries = (op->writes_carry ? 1U : 0U) + (op->reads_carry ? 1U : 0U);
    if (flat.size() + carries != op->rows.size() || destinations > op->rows.size()) {
        bad(fmt::format("{} operands, expected {}", flat.size(), op->rows.size() - carries));
    }
    if (carries != 0 && carry_ < 0) {
        carry_ = temporary(Row::predicate);
    }
    std::vector<RowRef> rows;
    std::size_t next = 0;
    for (std::size_t i = 0; i < op->rows.size(); ++i) {
        const bool writes = i < destinations;
        const bool is_carry = writes ? op->writes_carry && i + 1 == destinations
                                     : op->reads_carry && i + 1 == op->rows.size();
        if (is_carry) {
            rows.push_back(carry_);
        } else {
            const Operand& operand = *flat[next++];
            rows.push_back(writes ? destination(operand, op->rows[i])
                                  : source(operand, op->rows[i]));
        }
    }
    Effects effects;
    effects.destinations = static_cast<std::uint16_t>(destinations);
    effects.destination_may_reuse = destinations == 1 && !op->whole_warp;
    effects.is_copy = instruction.opcode == "mov" && rows.size() == 2 &&
                      op->rows[0] == op->rows[1] && !flat.back()->negated;
    DecodedInstruction& made = emit(Kind::pure, 0, rows, effects);
    made.pure = op->run;
    made.whole_warp = op->whole_warp;
}

void FunctionDecoder::make(const char* opcode, std::vector<std::string> modifiers,
                           Operands operands) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.modifiers = std::move(modifiers);
    instruction.operands = std::move(operands);
    instruction.place = now_->place;
    const Instruction* const outer = std::exchange(now_, &instruction);
    const bool guarded = std::exchange(guarded_, false);
    pure(instruction);
    guarded_ = guarded;
    now_ = outer;
}

void FunctionDecoder::move() {
    expect_operands(2, 2);
    const Operand& to = now_->operands[0];
    const Operand& from = now_->operands[1];
    if (to.kind == Operand::Kind::reg || to.kind == Operand::Kind::predicate) {
        if (constant_registers_[static_cast<std::size_t>(register_of(to.name))] != no_row) {
            return;
        }
    }
    if (from.kind == Operand::Kind::special) {
        const std::optional<Special> special = find_special(from.name);
        if (!special) {
            unknown(fmt::format("special register {}", from.name));
        }
        if (!special->is_fixed) {
            clock(special->which, to);
            return;
        }
        // The only predicate among them: its row has 32 bits like the others'.
        if (special->which == SpecialRegister::is_explicit_cluster) {
            Instruction compare = *now_;
            compare.opcode = "setp";
            compare.modifiers = {"ne", "u32"};
            compare.operands.push_back(integer(0));
            pure(compare);
            return;
        }
    }
    if (from.kind != Operand::Kind::symbol && from.kind != Operand::Kind::label) {
        pure(*now_);
        return;
    }
    const auto symbol = find_symbol(from.name);
    if (!symbol) {
        if (module_.functions.count(from.name) != 0) {
            unknown(fmt::format("address of function {}", from.name));
        }
        bad(fmt::format("{} is not declared", from.name));
    }
    const Symbol& variable = code_.symbols[static_cast<std::size_t>(*symbol)];
    if (const auto at = module_.shared_constants.find(*symbol);
        at != module_.shared_constants.end()) {
        Instruction constant = *now_;
        constant.operands[1] = integer(static_cast<std::uint64_t>(at->second + from.offset));
        pure(constant);
        return;
    }
    if (variable.space == Space::param && !variable.of_launch) {
        unknown(fmt::format("address of {}, a parameter of a device function", from.name));
    }
    QueryOp op;
    op.what = QueryOp::What::to_space;
    op.space = variable.space;
    op.symbol = *symbol;
    op.offset = from.offset;
    op.row = shape_of(to, Row::b64);
    query(op, {destination(to, op.row), no_row});
}

void FunctionDecoder::clock(SpecialRegister which, const Operand& operand) {
    const auto special = find_special(which);
    Effects effects;
    effects.destinations = 1;
    emit(Kind::clock, static_cast<std::size_t>(which), {destination(operand, special.row)},
         effects);
}

void FunctionDecoder::create_policy() {
    expect_operands(1, 4);
    const Operand& to = now_->operands[0];
    const auto number = static_cast<std::size_t>(register_of(to.name));
    if (constant_registers_[number] == no_row) {
        make("mov", {"b64"}, {to, integer(0)});
    }
}

void FunctionDecoder::query(const QueryOp& op, std::vector<RowRef> operands) {
    code_.queries.push_back(op);
    Effects effects;
    effects.destinations = 1;
    emit(Kind::address_query, code_.queries.size() - 1, operands, effects);
}

void FunctionDecoder::convert_address() {
    expect_operands(2, 2);
    QueryOp op;
    op.space = space(Space::generic);
    if (op.space == Space::generic) {
        unknown("its state space");
    }
    op.what = has("to") ? QueryOp::What::to_space : QueryOp::What::to_generic;
    op.row = shape_of(now_->operands[0], Row::b64);
    op.cluster = has("shared::cluster");
    const Operand& from = now_->operands[1];
    if (from.kind == Operand::Kind::symbol && find_symbol(from.name)) {
        op.symbol = *find_symbol(from.name);
        op.offset = from.offset;
        query(op, {destination(now_->operands[0], op.row), no_row});
        return;
    }
    // Global and constant addresses are generic addresses.
    if (op.space == Space::global || op.space == Space::constant) {
        Instruction copy = *now_;
        copy.opcode = "mov";
        copy.modifiers = {op.row == Row::b64 ? "b64" : "b32"};
        pure(copy);
        return;
    }
    query(op, {destination(now_->operands[0], op.row), source(from, op.row)});
}

void FunctionDecoder::is_space() {
    expect_operands(2, 2);
    QueryOp op;
    op.what = QueryOp::What::is_space;
    op.space = space(Space::generic);
    if (op.space == Space::generic) {
        unknown("its state space");
    }
    op.cluster = has("shared::cluster");
    op.row = shape_of(now_->operands[1], Row::b64);
    query(op, {destination(now_->operands[0], Row::predicate), source(now_->operands[1], op.row)});
}

void FunctionDecoder::map_rank() {
    expect_operands(3, 3);
    QueryOp op;
    op.what = QueryOp::What::map_rank;
    op.space = space(Space::generic);
    op.cluster = has("shared::cluster");
    op.row = shape_of(now_->operands[0], Row::b64);
    const RowRef to = destination(now_->operands[0], op.row);
    const RowRef target = source(now_->operands[2], Row::b32);
    query(op, {to, source(now_->operands[1], op.row), target});
}

void FunctionDecoder::rank() {
    expect_operands(2, 2);
    QueryOp op;
    op.what = QueryOp::What::rank;
    op.space = space(Space::generic);
    op.cluster = has("shared::cluster");
    op.row = shape_of(now_->operands[1], Row::b64);
    const RowRef to = destination(now_->operands[0], Row::b32);
    query(op, {to, source(now_->operands[1], op.row)});
}

void FunctionDecoder::branch() {
    expect_operands(1, 1);
    const auto at = function_.labels.find(now_->operands[0].name);
    if (at == function_.labels.end()) {
        bad(fmt::format("label {} is not defined", now_->operands[0].name));
    }
    // A position in the PTX until `finish`.
    emit(Kind::branch, 0, {}, {}).target = static_cast<std::uint32_t>(at->second);
}

void FunctionDecoder::branch_table() {
    expect_operands(2, 2);
    const auto list = function_.branch_targets.find(now_->operands[1].name);
    if (list == function_.branch_targets.end() || list->second.empty()) {
        bad(fmt::format("list of targets {} is not defined", now_->operands[1].name));
    }
    std::vector<std::uint32_t> targets;
    for (const std::string& label : list->second) {
        const auto at = function_.labels.find(label);
        if (at == function_.labels.end()) {
            bad(fmt::format("label {} is not defined", label));
        }
        targets.push_back(static_cast<std::uint32_t>(at->second));
    }
    const RowRef index = source(now_->operands[0], Row::b32);
    virtual_.tables.push_back(std::move(targets));
    emit(Kind::branch_table, virtual_.tables.size() - 1, {index}, {});
}

void FunctionDecoder::call() {
    if (!now_->call_prototype.empty() || now_->callee.kind == Operand::Kind::reg) {
        unknown("indirect calls");
    }
    static const std::map<std::string, SystemFunction> system{
        {"vprintf", SystemFunction::print},
        {"__assertfail", SystemFunction::assert_fail},
        {"malloc", SystemFunction::allocate},
        {"free", SystemFunction::release},
    };
    const auto at = module_.functions.find(now_->callee.name);
    if (at == module_.functions.end()) {
        bad(fmt::format("function {} is not declared", now_->callee.name));
    }
    if (at->second->is_extern) {
        const auto known = system.find(now_->callee.name);
        if (known == system.end()) {
            unknown(fmt::format("function {} is declared, but defined nowhere", now_->callee.name));
        }
        call_system(known->second);
        return;
    }
    if (at->second->is_entry) {
        unknown("calls of kernels");
    }
    const std::uint32_t callee = module_.defined.at(at->second).index;
    CallOp op;
    copy_arguments(now_->call_arguments, code_.functions[callee].parameters, op.arguments, true);
    copy_arguments(now_->call_returns, code_.functions[callee].returns, op.results, false);
    code_.calls.push_back(std::move(op));
    emit(Kind::call, code_.calls.size() - 1, {}, {}).target = callee;
}

void FunctionDecoder::copy_arguments(const Operands& operands,
                                     const std::vector<Symbol>& parameters,
                                     std::vector<CallOp::Copy>& copies, bool inwards) {
    if (operands.size() != parameters.size()) {
        bad(fmt::format("{} {} of {}, expected {}", operands.size(),
                        inwards ? "arguments" : "results", now_->callee.name, parameters.size()));
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const auto symbol = find_symbol(operands[i].name);
        if (operands[i].kind == Operand::Kind::reg || !symbol) {
            unknown("arguments that are no .param variables");
        }
        const Symbol& variable = code_.symbols[static_cast<std::size_t>(*symbol)];
        if (variable.space != Space::param || variable.of_launch ||
            variable.bytes != parameters[i].bytes) {
            bad(fmt::format("{} does not fit parameter {} of {} bytes", variable.name,
                            parameters[i].name, parameters[i].bytes));
        }
        const auto here = static_cast<std::uint32_t>(variable.offset);
        const auto there = static_cast<std::uint32_t>(parameters[i].offset);
        copies.push_back({inwards ? here : there, inwards ? there : here,
                          static_cast<std::uint32_t>(variable.bytes)});
    }
}

/// Arguments come out of the `.param` area into registers before, the result goes back behind.
void FunctionDecoder::call_system(SystemFunction function) {
    static const std::map<SystemFunction, std::pair<std::vector<Row>, Row>> shapes{
        {SystemFunction::print, {{Row::b64, Row::b64}, Row::b32}},
        {SystemFunction::assert_fail,
         {{Row::b64, Row::b64, Row::b32, Row::b64, Row::b64}, Row::none}},
        {SystemFunction::allocate, {{Row::b64}, Row::b64}},
        {SystemFunction::release, {{Row::b64}, Row::none}},
    };
    const auto& [arguments, result] = shapes.at(function);
    if (now_->call_arguments.size() != arguments.size()) {
        bad(fmt::format("{} arguments of {}, expected {}", now_->call_arguments.size(),
                        now_->callee.name, arguments.size()));
    }
    const auto transfer = [&](const Operand& operand, MemoryOp::What what, Row shape, RowRef row) {
        const auto symbol = find_symbol(operand.name);
        if (!symbol || code_.symbols[static_cast<std::size_t>(*symbol)].bytes !=
                           bytes_of(shape) / warp_lanes) {
            bad(fmt::format("argument {} does not fit {}", operand.name, now_->callee.name));
        }
        MemoryOp op;
        op.what = what;
        op.space = Space::param;
        op.type = shape == Row::b64 ? Type::b64 : Type::b32;
        op.data_row = shape;
        op.symbol = *symbol;
        op.alignment = bytes_of(op.type);
        const bool is_load = what == MemoryOp::What::load;
        emit_memory(op, is_load ? std::vector{row, no_row} : std::vector{no_row, row},
                    is_load ? 1 : 0);
    };
    const bool has_result = result != Row::none && !now_->call_returns.empty();
    std::vector<RowRef> operands;
    if (result != Row::none) {
        operands.push_back(has_result ? temporary(result) : no_row);
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        operands.push_back(temporary(arguments[i]));
        transfer(now_->call_arguments[i], MemoryOp::What::load, arguments[i], operands.back());
    }
    Effects effects;
    effects.destinations = result != Row::none ? 1 : 0;
    emit(Kind::call_system, static_cast<std::size_t>(function), operands, effects);
    if (has_result) {
        transfer(now_->call_returns[0], MemoryOp::What::store, result, operands[0]);
    }
}

void FunctionDecoder::refuse() {
    unknown();
}

void FunctionDecoder::nanosleep() {
    expect_operands(1, 1);
    emit(Kind::nanosleep, 0, {source(now_->operands[0], Row::b32)}, {});
}

void FunctionDecoder::trap() {
    emit(Kind::trap, 0, {}, {});
}

void FunctionDecoder::breakpoint() {
    emit(Kind::breakpoint, 0, {}, {});
}

void FunctionDecoder::exit() {
    emit(Kind::exit, 0, {}, {});
}

void FunctionDecoder::ret() {
    emit(function_.is_entry ? Kind::exit : Kind::ret, 0, {}, {});
}

void FunctionDecoder::finish() {
    // What runs off the end, returns.
    Place last =
        function_.instructions.empty() ? function_.place : function_.instructions.back().place;
    if (last.source_line == 0) last.source_line = line_;
    ret();
    virtual_.instructions.back().place = last;
    for (DecodedInstruction& instruction : virtual_.instructions) {
        if (instruction.kind == Kind::branch) {
            instruction.target = starts_[instruction.target];
        }
    }
    for (std::vector<std::uint32_t>& table : virtual_.tables) {
        for (std::uint32_t& target : table) {
            target = starts_[target];
        }
    }
    CodeFunction& function = code_.functions[layout_.index];
    function.frame_bytes = allocate_rows(virtual_);
    function.first = static_cast<std::uint32_t>(code_.instructions.size());
    const auto first_operand = static_cast<std::uint32_t>(code_.operands.size());
    const auto first_table = static_cast<std::uint32_t>(code_.branch_tables.size());
    for (DecodedInstruction& instruction : virtual_.instructions) {
        instruction.operands += first_operand;
        if (instruction.kind == Kind::branch) {
            instruction.target += function.first;
        } else if (instruction.kind == Kind::branch_table) {
            instruction.attribute += first_table;
        }
        code_.instructions.push_back(instruction);
    }
    function.end = static_cast<std::uint32_t>(code_.instructions.size());
    code_.operands.insert(code_.operands.end(), virtual_.operands.begin(), virtual_.operands.end());
    for (std::vector<std::uint32_t>& table : virtual_.tables) {
        for (std::uint32_t& target : table) {
            target += function.first;
        }
        code_.branch_tables.push_back(std::move(table));
    }
}

}  // namespace kernelforge::emulator::decoding
