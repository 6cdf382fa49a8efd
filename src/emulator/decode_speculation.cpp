// SPDX-License-Identifier: Apache-2.0
#include "emulator/decode_speculation.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace kernelforge::emulator::decoding {

namespace {

/// Instructions that compute registers from registers, as compilers put them between a load and
/// where its value is chosen.
bool is_arithmetic(std::string_view opcode) {
    using namespace std::string_view_literals;
    constexpr std::array known = {"abs"sv, "add"sv, "and"sv,  "bfe"sv,  "bfi"sv, "brev"sv,
                                  "clz"sv, "cvt"sv, "div"sv,  "ex2"sv,  "fma"sv, "lg2"sv,
                                  "mad"sv, "max"sv, "min"sv,  "mov"sv,  "mul"sv, "neg"sv,
                                  "not"sv, "or"sv,  "popc"sv, "prmt"sv, "rcp"sv, "rsqrt"sv,
                                  "shf"sv, "shl"sv, "shr"sv,  "sqrt"sv, "sub"sv, "xor"sv};
    return std::find(known.begin(), known.end(), opcode) != known.end();
}

/// Whether it changes nothing that others see and waits for nobody.
bool is_quiet(const Instruction& instruction) {
    return is_arithmetic(instruction.opcode) || instruction.opcode == "setp" ||
           instruction.opcode == "selp" || instruction.opcode == "cvta" ||
           instruction.opcode == "ld";
}

bool ends_block(const Instruction& instruction) {
    const std::string& opcode = instruction.opcode;
    return opcode == "bra" || opcode == "brx" || opcode == "ret" || opcode == "exit" ||
           opcode == "call" || opcode == "trap";
}

/// Where the value of a register is used.
struct Demand {
    enum class When { never, predicate, always } when = When::never;
    std::string predicate;
    bool negated = false;

    void join(const Demand& other) {
        if (other.when == When::never || when == When::always) return;
        if (when == When::never) {
            *this = other;
        } else if (other.when == When::always || predicate != other.predicate ||
                   negated != other.negated) {
            *this = {When::always, {}, false};
        }
    }
};

class Search {
  public:
    explicit Search(const Function& function) : function_(function) {
        blocks_.resize(function.instructions.size());
        std::vector<bool> starts(function.instructions.size() + 1);
        for (const auto& [name, at] : function.labels) {
            if (at < starts.size()) starts[at] = true;
        }
        std::size_t block = 0;
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            if (starts[i]) ++block;
            blocks_[i] = block;
            if (ends_block(function.instructions[i])) ++block;
            note(i);
        }
    }

    std::optional<Speculation> of(std::size_t load) const {
        const Instruction& instruction = function_.instructions[load];
        if (instruction.opcode != "ld" || !instruction.guard.empty() ||
            instruction.operands.size() < 2) {
            return std::nullopt;
        }
        for (const char* word :
             {"volatile", "mmio", "relaxed", "acquire", "param", "local", "const"}) {
            if (instruction.has(word)) return std::nullopt;
        }
        Demand demand;
        const Operand& to = instruction.operands[0];
        for (const Operand& each :
             to.kind == Operand::Kind::vector ? to.elements : std::vector<Operand>{to}) {
            if (each.kind == Operand::Kind::sink) continue;
            demand.join(each.kind == Operand::Kind::reg ? demand_of(each.name, load, 0)
                                                        : Demand{Demand::When::always, {}, false});
        }
        if (demand.when != Demand::When::predicate) return std::nullopt;
        const auto defined = definitions_.find(demand.predicate);
        if (defined == definitions_.end() || defined->second.size() != 1) return std::nullopt;
        const std::size_t at = defined->second.front();
        Speculation found{demand.predicate, demand.negated, load};
        if (blocks_[at] != blocks_[load] || at < load) return found;
        for (std::size_t i = load; i <= at; ++i) {
            if (!is_quiet(function_.instructions[i])) return std::nullopt;
        }
        found.known_after = at;
        return found;
    }

  private:
    static constexpr int most_steps = 16;

    void note(std::size_t at) {
        const Instruction& instruction = function_.instructions[at];
        if (!instruction.guard.empty()) uses_[instruction.guard].push_back(at);
        const std::size_t destinations = destinations_of(instruction);
        for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
            note(instruction.operands[i], at, i < destinations);
        }
        for (const Operand& each : instruction.call_arguments) note(each, at, false);
        for (const Operand& each : instruction.call_returns) note(each, at, true);
        note(instruction.callee, at, false);
    }

    void note(const Operand& operand, std::size_t at, bool is_destination) {
        for (const Operand& each : operand.elements) {
            note(each, at, is_destination && operand.kind == Operand::Kind::vector);
        }
        if (operand.kind == Operand::Kind::address) is_destination = false;
        if (operand.name.empty()) return;
        (is_destination ? definitions_ : uses_)[operand.name].push_back(at);
    }

    /// Of what a value can pass through, and of loads; everything else counts as using all.
    static std::size_t destinations_of(const Instruction& instruction) {
        if (instruction.opcode == "setp") return instruction.operands.size() == 5 ? 2 : 1;
        const bool known = is_arithmetic(instruction.opcode) || instruction.opcode == "selp" ||
                           instruction.opcode == "cvta" || instruction.opcode == "ld";
        return known ? 1 : 0;
    }

    static bool is(const Operand& operand, const std::string& name) {
        return operand.kind == Operand::Kind::reg && operand.name == name;
    }

    /// By what comes after `from` in its block.
    Demand demand_of(const std::string& name, std::size_t from, int steps) const {
        const Demand always{Demand::When::always, {}, false};
        const auto defined = definitions_.find(name);
        if (steps == most_steps || defined == definitions_.end() || defined->second.size() != 1) {
            return always;
        }
        const auto used = uses_.find(name);
        if (used == uses_.end()) return {};
        Demand demand;
        for (const std::size_t at : used->second) {
            if (at <= from || blocks_[at] != blocks_[from]) return always;
            demand.join(demand_at(name, at, steps));
            if (demand.when == Demand::When::always) return demand;
        }
        return demand;
    }

    Demand demand_at(const std::string& name, std::size_t at, int steps) const {
        const Demand always{Demand::When::always, {}, false};
        const Instruction& use = function_.instructions[at];
        if (use.guard == name) return always;
        if (!use.guard.empty()) return {Demand::When::predicate, use.guard, use.guard_negated};
        if (use.operands.empty()) return always;
        const Operand& to = use.operands[0];
        if (use.opcode == "selp" && use.operands.size() == 4 &&
            use.operands[3].kind == Operand::Kind::predicate) {
            const bool first = is(use.operands[1], name), second = is(use.operands[2], name);
            if (first && second) return demand_of(to.name, at, steps + 1);
            return {Demand::When::predicate, use.operands[3].name,
                    use.operands[3].negated != second};
        }
        if (!is_arithmetic(use.opcode) || to.kind != Operand::Kind::reg) return always;
        return demand_of(to.name, at, steps + 1);
    }

    const Function& function_;
    std::vector<std::size_t> blocks_;  ///< by instruction
    std::unordered_map<std::string, std::vector<std::size_t>> definitions_, uses_;
};

}  // namespace

std::unordered_map<std::size_t, Speculation> find_speculations(const Function& function) {
    const Search search(function);
    std::unordered_map<std::size_t, Speculation> found;
    for (std::size_t i = 0; i < function.instructions.size(); ++i) {
        if (auto one = search.of(i)) found.emplace(i, std::move(*one));
    }
    return found;
}

}  // namespace kernelforge::emulator::decoding
