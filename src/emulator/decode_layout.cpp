// SPDX-License-Identifier: Apache-2.0
#include "emulator/decode_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace kernelforge::emulator::decoding {

void malformed(const Place& place, const std::string& message) {
    throw PtxError(PtxError::Kind::malformed, place, message);
}

void not_emulated(const Place& place, const std::string& message) {
    throw PtxError(PtxError::Kind::not_emulated, place, message);
}

namespace {

constexpr std::size_t row_alignment = 128;

void append_lanes(std::string& bytes, Row row, std::uint64_t bits) {
    if (row == Row::predicate) {
        bits = bits != 0 ? all_lanes : 0;
        bytes.append(reinterpret_cast<const char*>(&bits), 4);
        return;
    }
    for (int lane = 0; lane < warp_lanes; ++lane) {
        bytes.append(reinterpret_cast<const char*>(&bits), row == Row::b32 ? 4 : 8);
    }
}

}  // namespace

RowRef FixedRows::constant(Row row, std::uint64_t bits) {
    if (row == Row::b32) {
        bits &= 0xffff'ffffU;
    } else if (row == Row::predicate) {
        bits = bits != 0 ? 1 : 0;
    }
    const auto [at, is_new] = constants_.try_emplace({row, bits}, no_row);
    if (is_new) {
        code_.constants.resize(aligned(code_.constants.size(), row_alignment));
        at->second = ~static_cast<RowRef>(code_.constants.size());
        append_lanes(code_.constants, row, bits);
    }
    return at->second;
}

RowRef FixedRows::special(SpecialRegister which) {
    const auto [at, is_new] = specials_.try_emplace(which, no_row);
    if (is_new) {
        code_.constants.resize(aligned(code_.constants.size(), row_alignment));
        at->second = ~static_cast<RowRef>(code_.constants.size());
        append_lanes(code_.constants, Row::b32, 0);
        code_.specials.emplace_back(which, at->second);
    }
    return at->second;
}

namespace {

class Layouter {
  public:
    Layouter(const Module& module, Code& code) : module_(module), code_(code) {}

    ModuleLayout run() {
        layout_.module = &module_;
        declare_functions();
        declare_variables();
        for (const Function& function : module_.functions) {
            if (function.is_entry && !function.is_extern) {
                reach(function);
            }
        }
        for (const Function* function : layout_.order) {
            lay_out_function(layout_.defined.at(function));
        }
        for (const Function* function : layout_.order) {
            if (function->is_entry) {
                add_entry(*function);
            }
        }
        place_shared();
        finish_entries();
        return std::move(layout_);
    }

  private:
    struct Shared {
        std::int32_t symbol = 0;
        std::uint64_t bytes = 0, alignment = 1;
        std::vector<std::size_t> entries;  // in code_.entries, ascending
        bool dynamic = false;
        Place place;
    };

    void declare_functions() {
        for (const Function& function : module_.functions) {
            const auto [at, is_new] = layout_.functions.try_emplace(function.name, &function);
            if (is_new || function.is_extern) {
                continue;
            }
            if (!at->second->is_extern) {
                malformed(function.place,
                          fmt::format("function {} is defined twice", function.name));
            }
            at->second = &function;
        }
    }

    std::int32_t add_symbol(const Variable& variable, Space space, std::uint64_t offset,
                            bool of_launch = false) {
        code_.symbols.push_back({variable.name, space, offset, variable.bytes, of_launch});
        return static_cast<std::int32_t>(code_.symbols.size() - 1);
    }

    void declare_variables() {
        for (const Variable& variable : module_.variables) {
            if (variable.space == Space::shared) {
                declare_shared(variable, layout_.symbols);
                continue;
            }
            if (variable.is_extern) {
                layout_.missing.emplace(variable.name, &variable);
                continue;
            }
            const bool is_new = layout_.symbols
                                    .emplace(variable.name, add_symbol(variable, variable.space,
                                                                       code_.globals.size()))
                                    .second;
            if (!is_new) {
                malformed(variable.place,
                          fmt::format("variable {} is defined twice", variable.name));
            }
            code_.globals.push_back(variable);
        }
    }

    std::int32_t declare_shared(const Variable& variable,
                                std::map<std::string, std::int32_t>& names) {
        const auto [at, is_new] = names.try_emplace(variable.name, 0);
        if (!is_new) {
            return at->second;
        }
        at->second = add_symbol(variable, Space::shared, 0);
        shared_of_symbol_[at->second] = shared_.size();
        shared_.push_back({at->second,
                           variable.bytes,
                           std::max<std::uint64_t>(1, variable.alignment),
                           {},
                           variable.bytes == 0,
                           variable.place});
        return at->second;
    }

    void note_names(const Operand& operand, FunctionLayout& function, std::set<std::string>& seen) {
        const bool named =
            operand.kind == Operand::Kind::symbol || operand.kind == Operand::Kind::address;
        if (named && layout_.symbols.count(operand.name) != 0 && seen.insert(operand.name).second) {
            function.shared.push_back(operand.name);
        }
        for (const Operand& element : operand.elements) {
            note_names(element, function, seen);
        }
    }

    /// Notes a function and all that it calls. Without recursion on the host's stack, since a
    /// module may have any number of functions.
    void reach(const Function& root) {
        std::vector<const Function*> open{&root};
        while (!open.empty()) {
            const Function* function = open.back();
            open.pop_back();
            const auto [at, is_new] = layout_.defined.try_emplace(function);
            if (!is_new) {
                continue;
            }
            layout_.order.push_back(function);
            FunctionLayout& layout = at->second;
            layout.source = function;
            note_uses(layout);
            open.insert(open.end(), layout.callees.begin(), layout.callees.end());
        }
    }

    void note_uses(FunctionLayout& layout) {
        std::set<std::string> seen;
        for (const Instruction& instruction : layout.source->instructions) {
            for (const Operand& operand : instruction.operands) {
                note_names(operand, layout, seen);
            }
            if (instruction.opcode != "call") {
                continue;
            }
            const auto callee = layout_.functions.find(instruction.callee.name);
            if (callee != layout_.functions.end() && !callee->second->is_extern) {
                layout.callees.push_back(callee->second);
            }
        }
    }

    void lay_out_function(FunctionLayout& layout) {
        const Function& source = *layout.source;
        layout.index = static_cast<std::uint32_t>(code_.functions.size());
        CodeFunction& function = code_.functions.emplace_back();
        function.name = source.name;
        std::uint64_t parameters = 0, local = 0;
        if (source.is_entry) {
            lay_out_launch(layout);
        } else {
            lay_out_parameters(source.parameters, layout, function.parameters, parameters);
            lay_out_parameters(source.returns, layout, function.returns, parameters);
        }
        for (const Variable& variable : source.locals) {
            if (variable.space == Space::shared) {
                declare_shared(variable, layout.symbols);
            } else if (variable.space == Space::local || variable.space == Space::param) {
                std::uint64_t& next = variable.space == Space::local ? local : parameters;
                next = aligned(next, variable.alignment);
                layout.symbols[variable.name] = add_symbol(variable, variable.space, next);
                next += variable.bytes;
                check_limit(variable, next, most_local_bytes, "local memory of a thread");
            } else {
                not_emulated(variable.place,
                             fmt::format("variable {} of a function's body is in no space that is "
                                         "emulated there",
                                         variable.name));
            }
        }
        function.local_bytes = static_cast<std::uint32_t>(aligned(local, 16));
        function.parameter_bytes = static_cast<std::uint32_t>(aligned(parameters, 16));
    }

    static void check_limit(const Variable& variable, std::uint64_t bytes, std::uint64_t most,
                            const char* what) {
        if (bytes > most || variable.bytes > most) {
            malformed(variable.place, fmt::format("{} ends {} bytes into {}, which has at most {}",
                                                  variable.name, bytes, what, most));
        }
    }

    void lay_out_parameters(const std::vector<Variable>& variables, FunctionLayout& layout,
                            std::vector<Symbol>& symbols, std::uint64_t& next) {
        for (const Variable& variable : variables) {
            next = aligned(next, variable.alignment);
            const std::int32_t symbol = add_symbol(variable, Space::param, next);
            layout.symbols[variable.name] = symbol;
            symbols.push_back(code_.symbols[static_cast<std::size_t>(symbol)]);
            next += variable.bytes;
            check_limit(variable, next, most_local_bytes, "parameters");
        }
    }

    void lay_out_launch(FunctionLayout& layout) {
        std::uint64_t next = 0;
        for (const Variable& variable : layout.source->parameters) {
            next = aligned(next, variable.alignment);
            layout.symbols[variable.name] = add_symbol(variable, Space::param, next, true);
            next += variable.bytes;
            check_limit(variable, next, most_parameter_bytes, "a kernel's parameters");
        }
    }

    void add_entry(const Function& source) {
        const FunctionLayout& layout = layout_.defined.at(&source);
        Entry& entry = code_.entries.emplace_back();
        entry.name = source.name;
        entry.function = layout.index;
        for (const Variable& parameter : source.parameters) {
            const std::uint64_t offset = symbol(layout.symbols.at(parameter.name)).offset;
            entry.parameters.emplace_back(offset, parameter.bytes);
            entry.parameter_bytes = offset + parameter.bytes;
        }
        entry.max_threads = source.max_threads;
        entry.required_threads = source.required_threads;
        entry.required_cluster = source.required_cluster;
        mark_shared(source, code_.entries.size() - 1);
    }

    [[nodiscard]] const Symbol& symbol(std::int32_t index) const {
        return code_.symbols[static_cast<std::size_t>(index)];
    }

    void mark_shared(const Function& entry, std::size_t index) {
        std::set<const Function*> seen;
        std::vector<const Function*> open{&entry};
        std::set<std::int32_t> used;
        while (!open.empty()) {
            const Function* function = open.back();
            open.pop_back();
            if (!seen.insert(function).second) {
                continue;
            }
            FunctionLayout& layout = layout_.defined.at(function);
            for (const auto& [name, at] : layout.symbols) {
                if (symbol(at).space == Space::shared) {
                    used.insert(at);
                }
            }
            for (const std::string& name : layout.shared) {
                const std::int32_t at = layout_.symbols.at(name);
                if (symbol(at).space == Space::shared && layout.symbols.count(name) == 0) {
                    used.insert(at);
                }
            }
            open.insert(open.end(), layout.callees.begin(), layout.callees.end());
        }
        for (const std::int32_t at : used) {
            shared_[shared_of_symbol_.at(at)].entries.push_back(index);
        }
    }

    static bool meet(const Shared& a, const Shared& b) {
        std::vector<std::size_t> both;
        std::set_intersection(a.entries.begin(), a.entries.end(), b.entries.begin(),
                              b.entries.end(), std::back_inserter(both));
        return !both.empty();
    }

    /// A variable has one offset in all entries that use it; those with most users come first, so
    /// that the others can lie next to them.
    void place_shared() {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < shared_.size(); ++i) {
            if (!shared_[i].dynamic && !shared_[i].entries.empty()) {
                order.push_back(i);
            }
        }
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return shared_[a].entries.size() > shared_[b].entries.size();
        });
        std::vector<std::size_t> placed;
        for (const std::size_t i : order) {
            const Shared& variable = shared_[i];
            const std::uint64_t offset = first_gap(variable, placed);
            code_.symbols[static_cast<std::size_t>(variable.symbol)].offset = offset;
            if (variable.bytes > most_shared_bytes || offset + variable.bytes > most_shared_bytes) {
                malformed(variable.place,
                          fmt::format("shared memory of {} ends {} bytes into the block's, which "
                                      "has at most {}",
                                      symbol(variable.symbol).name, offset + variable.bytes,
                                      most_shared_bytes));
            }
            layout_.shared_constants[variable.symbol] = static_cast<std::int64_t>(offset);
            for (const std::size_t entry : variable.entries) {
                std::uint64_t& bytes = code_.entries[entry].static_shared_bytes;
                bytes = std::max(bytes, offset + variable.bytes);
            }
            placed.push_back(i);
        }
    }

    std::uint64_t first_gap(const Shared& variable, const std::vector<std::size_t>& placed) const {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
        for (const std::size_t other : placed) {
            if (meet(variable, shared_[other])) {
                const std::uint64_t begin = symbol(shared_[other].symbol).offset;
                taken.emplace_back(begin, begin + shared_[other].bytes);
            }
        }
        std::sort(taken.begin(), taken.end());
        std::uint64_t offset = 0;
        for (const auto& [begin, end] : taken) {
            if (offset + variable.bytes > begin) {
                offset = std::max(offset, aligned(end, variable.alignment));
            }
        }
        return offset;
    }

    /// Dynamic shared memory begins behind the static variables; where all entries that use a
    /// variable agree, its offset is a constant.
    void finish_entries() {
        std::vector<bool> uses_dynamic(code_.entries.size(), false);
        for (const Shared& variable : shared_) {
            for (const std::size_t entry : variable.entries) {
                if (variable.dynamic) {
                    uses_dynamic[entry] = true;
                    std::uint64_t& alignment = code_.entries[entry].dynamic_shared_alignment;
                    alignment = std::max(alignment, variable.alignment);
                }
            }
        }
        for (std::size_t i = 0; i < code_.entries.size(); ++i) {
            Entry& entry = code_.entries[i];
            if (uses_dynamic[i]) {
                entry.static_shared_bytes =
                    aligned(entry.static_shared_bytes, entry.dynamic_shared_alignment);
            }
        }
        for (const Shared& variable : shared_) {
            if (!variable.dynamic || variable.entries.empty()) {
                continue;
            }
            const std::uint64_t offset = code_.entries[variable.entries[0]].static_shared_bytes;
            const bool agree = std::all_of(
                variable.entries.begin(), variable.entries.end(), [&](std::size_t entry) {
                    return code_.entries[entry].static_shared_bytes == offset;
                });
            if (agree) {
                code_.symbols[static_cast<std::size_t>(variable.symbol)].offset = offset;
                layout_.shared_constants[variable.symbol] = static_cast<std::int64_t>(offset);
            }
        }
    }

    const Module& module_;
    Code& code_;
    ModuleLayout layout_;
    std::vector<Shared> shared_;
    std::map<std::int32_t, std::size_t> shared_of_symbol_;
};

}  // namespace

ModuleLayout lay_out(const Module& module, Code& code) {
    return Layouter(module, code).run();
}

}  // namespace kernelforge::emulator::decoding
