// SPDX-License-Identifier: Apache-2.0
#include "emulator_decode_check.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

namespace kernelforge::emulator::test {

namespace {

using Names = std::set<std::string>;
/// By row: the registers whose value it holds. Rows that are absent were never written.
using State = std::map<RowRef, Names>;

bool is_register(const Operand& operand) {
    return operand.kind == Operand::Kind::reg || operand.kind == Operand::Kind::predicate;
}

/// Registers of an operand in textual order.
void collect(const Operand& operand, const Function& function, std::vector<std::string>& names) {
    const bool address =
        operand.kind == Operand::Kind::address && function.registers.count(operand.name) != 0;
    if (is_register(operand) || address) {
        names.push_back(operand.name);
    }
    for (const Operand& element : operand.elements) {
        collect(element, function, names);
    }
}

/// How many of the operands are written.
std::size_t destinations(const Instruction& instruction) {
    const std::string& op = instruction.opcode;
    if (op == "setp") {
        const bool combines =
            instruction.has("and") || instruction.has("or") || instruction.has("xor");
        return instruction.operands.size() - (combines ? 3 : 2);
    }
    if (op == "shfl") {
        return instruction.operands.size() - 4;
    }
    if (op == "match" || op == "elect") {
        return instruction.operands.size() - (op == "elect" ? 1 : 2);
    }
    if (op == "st" || op == "red" || op == "stmatrix" || op == "bra" || op == "brx" ||
        op == "nanosleep" || op == "cp" || op == "fence" || op == "membar" || op == "ret" ||
        op == "exit" || op == "trap" || op == "call") {
        return 0;
    }
    if (op == "bar" || op == "barrier") {
        return instruction.has("red") ? 1 : 0;
    }
    if (op == "wmma") {
        return instruction.has("store") ? 0 : 1;
    }
    if (op == "wgmma") {
        return instruction.has("mma_async") ? 1 : 0;
    }
    if (op == "mbarrier") {
        const bool none = instruction.has("init") || instruction.has("inval") ||
                          instruction.operands[0].kind == Operand::Kind::address;
        return none ? 0 : 1;
    }
    return 1;
}

struct Step {
    const Instruction* instruction =
        nullptr;  // null: made by the decoder, reads and writes unnamed
    std::vector<std::string> written, read;
    // {d, s} of moves that vanished before this instruction, and behind it.
    std::vector<std::string> copies, copies_behind;
};

class Checker {
  public:
    Checker(const Function& function, const Code& code, const CodeFunction& made)
        : function_(function), code_(code), made_(made) {}

    std::vector<std::string> run() {
        match();
        if (problems_.empty()) {
            check_shapes();
            follow();
        }
        return problems_;
    }

  private:
    void problem(const Instruction* at, const std::string& text) {
        if (problems_.size() < 10) {
            problems_.push_back(
                function_.name + ": " +
                (at != nullptr ? at->full_name() + " at " + std::to_string(at->place.source_line)
                               : "") +
                ": " + text);
        }
    }

    /// Finds decoded instructions of every PTX instruction by their unique lines.
    void match() {
        std::map<int, std::vector<std::uint32_t>> by_line;
        for (std::uint32_t i = made_.first; i < made_.end; ++i) {
            by_line[code_.instructions[i].place.ptx_line].push_back(i);
        }
        Names constants;
        std::vector<const Instruction*> vanished;
        for (const Instruction& instruction : function_.instructions) {
            if (by_line.count(instruction.place.ptx_line) == 0 && instruction.opcode == "mov" &&
                !is_register(instruction.operands.at(1))) {
                constants.insert(instruction.operands[0].name);
            } else if (by_line.count(instruction.place.ptx_line) == 0 &&
                       instruction.opcode == "createpolicy") {
                constants.insert(instruction.operands[0].name);
            }
        }
        steps_.resize(made_.end - made_.first);
        std::vector<std::string> copies;
        std::set<std::size_t> labels;
        for (const auto& [label, index] : function_.labels) {
            labels.insert(index);
        }
        Step* previous = nullptr;  // in the same basic block
        for (const Instruction& instruction : function_.instructions) {
            if (labels.count(
                    static_cast<std::size_t>(&instruction - function_.instructions.data())) != 0) {
                previous = nullptr;
            }
            const auto at = by_line.find(instruction.place.ptx_line);
            std::vector<std::string> written, read;
            const std::size_t count = destinations(instruction);
            for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
                collect(instruction.operands[i], function_, i < count ? written : read);
            }
            if (at == by_line.end()) {
                if (instruction.opcode == "mov" || instruction.opcode == "cvta") {
                    if (written.size() == 1 && read.size() == 1) {
                        std::vector<std::string>& list =
                            previous != nullptr ? previous->copies_behind : copies;
                        list.push_back(written[0]);
                        list.push_back(read[0]);
                    }
                }
                continue;
            }
            steps_[at->second[0] - made_.first].copies = std::exchange(copies, {});
            const Kind kind = code_.instructions[at->second.back()].kind;
            previous = kind == Kind::branch || kind == Kind::branch_table
                           ? nullptr
                           : &steps_[at->second.back() - made_.first];
            if (at->second.size() != 1) {
                continue;  // a call of the system, or a variable's address in between
            }
            const auto is_constant = [&](const std::string& name) {
                return constants.count(name) != 0;
            };
            read.erase(std::remove_if(read.begin(), read.end(), is_constant), read.end());
            Step& step = steps_[at->second[0] - made_.first];
            step.instruction = &instruction;
            step.written = written;
            step.read = read;
            std::size_t rows = 0;
            const DecodedInstruction& decoded = code_.instructions[at->second[0]];
            for (std::uint16_t i = 0; i < decoded.operand_count; ++i) {
                rows += code_.operands[decoded.operands + i] >= 0 ? 1U : 0U;
            }
            const std::size_t carry = rows - written.size() - read.size();
            if (carry > 2 ||
                (carry != 0 && instruction.opcode.back() != 'c' && !instruction.has("cc"))) {
                problem(&instruction, std::to_string(rows) + " rows for " +
                                          std::to_string(written.size() + read.size()) +
                                          " registers");
            }
        }
    }

    [[nodiscard]] static Row shape_of(Type type) {
        return type == Type::pred ? Row::predicate : bytes_of(type) == 8 ? Row::b64 : Row::b32;
    }

    /// Every row that a name stands for has the name's shape, lies in the frame, is aligned, and
    /// touches no row of another start.
    void check_shapes() {
        std::map<RowRef, Row> rows;
        each_pair([&](const Step& step, const std::string& name, RowRef row) {
            const Row shape = shape_of(function_.registers.at(name));
            const auto [at, is_new] = rows.try_emplace(row, shape);
            const auto bytes = static_cast<std::int64_t>(bytes_of(shape));
            if (at->second != shape) {
                problem(step.instruction, name + " shares a row of another shape");
            }
            if (row % (shape == Row::predicate ? 4 : 128) != 0 ||
                row + bytes > static_cast<std::int64_t>(made_.frame_bytes)) {
                problem(step.instruction, name + " lies badly at " + std::to_string(row));
            }
        });
        RowRef last_end = 0;
        for (const auto& [row, shape] : rows) {
            if (row < last_end) {
                problem(nullptr, "rows overlap at " + std::to_string(row));
            }
            last_end = row + static_cast<RowRef>(bytes_of(shape));
        }
    }

    template <class Visit>
    void each_pair(Visit visit) {
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const Step& step = steps_[i];
            if (step.instruction == nullptr) {
                continue;
            }
            const std::vector<RowRef> rows = frame_rows(i);
            for (std::size_t j = 0; j < step.written.size(); ++j) {
                visit(step, step.written[j], rows[j]);
            }
            const std::size_t first = step.written.size() + (writes_carry(step) ? 1 : 0);
            for (std::size_t j = 0; j < step.read.size(); ++j) {
                visit(step, step.read[j], rows[first + j]);
            }
        }
    }

    static bool writes_carry(const Step& step) { return step.instruction->has("cc"); }

    [[nodiscard]] std::vector<RowRef> frame_rows(std::size_t step) const {
        const DecodedInstruction& decoded = code_.instructions[made_.first + step];
        std::vector<RowRef> rows;
        for (std::uint16_t i = 0; i < decoded.operand_count; ++i) {
            const RowRef ref = code_.operands[decoded.operands + i];
            if (ref >= 0) {
                rows.push_back(ref);
            }
        }
        return rows;
    }

    static void forget(State& state, const std::string& name) {
        for (auto& [row, names] : state) {
            names.erase(name);
        }
    }

    void read(const State& state, const Step& step, const std::string& name, RowRef row) {
        const auto at = state.find(row);
        if (at != state.end() && at->second.count(name) == 0) {
            std::string held;
            for (const std::string& other : at->second) {
                held += " " + other;
            }
            problem(step.instruction, name + " is read from row " + std::to_string(row) +
                                          " that holds" + (held.empty() ? " another value" : held));
        }
    }

    static void copy(State& state, const std::vector<std::string>& copies) {
        for (std::size_t i = 0; i + 1 < copies.size(); i += 2) {
            forget(state, copies[i]);
            for (auto& [row, names] : state) {
                if (names.count(copies[i + 1]) != 0) {
                    names.insert(copies[i]);
                }
            }
        }
    }

    void apply(State& state, std::size_t index) {
        const Step& step = steps_[index];
        copy(state, step.copies);
        execute(state, index);
        copy(state, step.copies_behind);
    }

    void execute(State& state, std::size_t index) {
        const Step& step = steps_[index];
        const DecodedInstruction& decoded = code_.instructions[made_.first + index];
        if (step.instruction == nullptr) {
            // Rows of the decoder's own: nobody else's afterwards.
            const bool loads = decoded.kind == Kind::memory &&
                               code_.memory[decoded.attribute].what == MemoryOp::What::load;
            if (loads || decoded.kind == Kind::address_query) {
                const RowRef row = code_.operands[decoded.operands];
                if (row >= 0) {
                    state[row] = {};
                }
            }
            return;
        }
        if (decoded.guard >= 0) {
            read(state, step, step.instruction->guard, decoded.guard);
        }
        const std::vector<RowRef> rows = frame_rows(index);
        const std::size_t first = step.written.size() + (writes_carry(step) ? 1 : 0);
        for (std::size_t j = 0; j < step.read.size(); ++j) {
            read(state, step, step.read[j], rows[first + j]);
        }
        if (decoded.kind == Kind::matrix &&
            code_.matrix[decoded.attribute].what == MatrixOp::What::wgmma) {
            for (std::size_t j = 0; j < step.written.size(); ++j) {
                read(state, step, step.written[j], rows[j]);
            }
        }
        for (std::size_t j = 0; j < step.written.size(); ++j) {
            const std::string& name = step.written[j];
            const auto held = state.find(rows[j]);
            // Lanes without the guard keep what was there.
            const bool fits =
                decoded.guard == no_row || held == state.end() || held->second.count(name) != 0;
            forget(state, name);
            state[rows[j]] = fits ? Names{name} : Names{};
        }
    }

    [[nodiscard]] std::vector<std::uint32_t> successors(std::uint32_t index) const {
        const DecodedInstruction& decoded = code_.instructions[index];
        std::vector<std::uint32_t> result;
        if (decoded.kind == Kind::branch) {
            result.push_back(decoded.target);
        } else if (decoded.kind == Kind::branch_table) {
            result = code_.branch_tables[decoded.attribute];
        }
        const bool ends = decoded.kind == Kind::branch || decoded.kind == Kind::branch_table ||
                          decoded.kind == Kind::ret || decoded.kind == Kind::exit ||
                          decoded.kind == Kind::trap;
        if (!ends || decoded.guard != no_row) {
            result.push_back(index + 1);
        }
        return result;
    }

    /// Joins into `to`; whether it changed.
    static bool join(State& to, const State& from) {
        bool changed = false;
        for (const auto& [row, names] : from) {
            const auto [at, is_new] = to.try_emplace(row, names);
            if (is_new) {
                changed = true;
                continue;
            }
            Names both;
            std::set_intersection(at->second.begin(), at->second.end(), names.begin(), names.end(),
                                  std::inserter(both, both.begin()));
            changed = changed || both.size() != at->second.size();
            at->second = std::move(both);
        }
        return changed;
    }

    /// To the fixed point, then once more with complaints. States are kept where paths meet.
    void follow() {
        std::set<std::uint32_t> leaders{made_.first};
        for (std::uint32_t i = made_.first; i < made_.end; ++i) {
            const std::vector<std::uint32_t> next = successors(i);
            if (next.size() != 1 || next[0] != i + 1) {
                leaders.insert(next.begin(), next.end());
                leaders.insert(i + 1);
            }
        }
        std::map<std::uint32_t, State> states;
        states[made_.first] = {};
        std::deque<std::uint32_t> open{made_.first};
        while (!open.empty()) {
            const std::uint32_t leader = open.front();
            open.pop_front();
            State state = states[leader];
            std::uint32_t i = leader;
            for (;; ++i) {
                const std::vector<std::string> before = problems_;
                apply(state, i - made_.first);
                problems_ = before;
                if (i + 1 >= made_.end || leaders.count(i + 1) != 0) {
                    break;
                }
            }
            for (const std::uint32_t next : successors(i)) {
                if (next >= made_.end) {
                    problem(nullptr, "runs off the end");
                    continue;
                }
                const auto [at, is_new] = states.try_emplace(next, state);
                if (is_new || join(at->second, state)) {
                    open.push_back(next);
                }
            }
        }
        for (auto& [leader, state] : states) {
            for (std::uint32_t i = leader; i < made_.end && (i == leader || leaders.count(i) == 0);
                 ++i) {
                apply(state, i - made_.first);
            }
        }
    }

    const Function& function_;
    const Code& code_;
    const CodeFunction& made_;
    std::vector<Step> steps_;
    std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_rows(Module module) {
    int line = 0;
    for (Function& function : module.functions) {
        for (Instruction& instruction : function.instructions) {
            instruction.place.source_line = instruction.place.ptx_line;
            instruction.place.ptx_line = ++line;
        }
        // The return that the decoder puts at the end has the last instruction's place.
        ++line;
        if (!function.is_extern) {
            Instruction last;
            last.opcode = "ret";
            last.place.ptx_line = line;
            function.instructions.push_back(last);
        }
    }
    const auto code = decode(module, best_isa());
    std::vector<std::string> problems;
    for (const CodeFunction& made : code->functions) {
        const Function* const function = module.find_function(made.name);
        if (function == nullptr) {
            problems.push_back(made.name + " is not in the module");
            continue;
        }
        const auto found = Checker(*function, *code, made).run();
        problems.insert(problems.end(), found.begin(), found.end());
    }
    return problems;
}

}  // namespace kernelforge::emulator::test
