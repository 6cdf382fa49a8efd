// SPDX-License-Identifier: Apache-2.0
#include "emulator/decode_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace kernelforge::emulator::decoding {

namespace {

constexpr std::uint32_t row_alignment = 128;
constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

struct BasicBlock {
    std::uint32_t first = 0, end = 0;
    std::vector<std::uint32_t> successors;
};

/// Bits of all registers that more than one block names, a row a block.
class BitTable {
  public:
    BitTable(std::size_t rows, std::size_t bits) : words_((bits + 63) / 64), data_(rows * words_) {}
    std::uint64_t* row(std::size_t index) { return data_.data() + index * words_; }
    [[nodiscard]] std::size_t words() const { return words_; }

  private:
    std::size_t words_;
    std::vector<std::uint64_t> data_;
};

/// Where a register lives, both ends included. An instruction has two points: twice its index,
/// where it reads, and the next, where it writes.
struct Segment {
    std::uint32_t begin = 0, end = 0;
};

/// A row and when it is taken: disjoint segments in order.
class RowLives {
  public:
    [[nodiscard]] bool fits(const std::vector<Segment>& segments) const {
        return std::none_of(segments.begin(), segments.end(), [&](const Segment& segment) {
            const auto at = first_behind(segment);
            return at != taken_.end() && at->begin <= segment.end;
        });
    }
    void add(const std::vector<Segment>& segments) {
        for (const Segment& segment : segments) {
            taken_.insert(first_behind(segment), segment);
        }
    }

  private:
    /// The first that ends at the segment's begin or later.
    [[nodiscard]] std::vector<Segment>::const_iterator first_behind(const Segment& segment) const {
        if (taken_.empty() || taken_.back().end < segment.begin) {
            return taken_.end();
        }
        return std::lower_bound(taken_.begin(), taken_.end(), segment,
                                [](const Segment& a, const Segment& b) { return a.end < b.begin; });
    }

    std::vector<Segment> taken_;
};

class Allocator {
  public:
    explicit Allocator(VirtualCode& code) : code_(code) {}

    std::uint32_t run() {
        find_blocks();
        find_lives();
        assign();
        rewrite();
        remove_copies();
        return frame_bytes_;
    }

  private:
    [[nodiscard]] bool falls_through(const DecodedInstruction& instruction) const {
        switch (instruction.kind) {
            case Kind::branch:
            case Kind::ret:
            case Kind::exit:
            case Kind::trap:
            case Kind::branch_table:
                return instruction.guard != no_row;
            default:
                return true;
        }
    }

    void find_blocks() {
        const std::size_t count = code_.instructions.size();
        std::vector<char> leads(count + 1, 0);
        leads[0] = 1;
        const auto ends_block = [](Kind kind) {
            return kind == Kind::branch || kind == Kind::branch_table || kind == Kind::ret ||
                   kind == Kind::exit || kind == Kind::trap;
        };
        for (std::size_t i = 0; i < count; ++i) {
            const DecodedInstruction& instruction = code_.instructions[i];
            if (instruction.kind == Kind::branch) {
                leads[instruction.target] = 1;
            } else if (instruction.kind == Kind::branch_table) {
                for (const std::uint32_t target : code_.tables[instruction.attribute]) {
                    leads[target] = 1;
                }
            }
            if (ends_block(instruction.kind)) {
                leads[i + 1] = 1;
            }
        }
        block_of_.resize(count + 1);
        for (std::uint32_t i = 0; i < count; ++i) {
            if (leads[i] != 0) {
                blocks_.push_back({i, i, {}});
            }
            blocks_.back().end = i + 1;
            block_of_[i] = static_cast<std::uint32_t>(blocks_.size() - 1);
        }
        for (BasicBlock& block : blocks_) {
            const DecodedInstruction& last = code_.instructions[block.end - 1];
            if (last.kind == Kind::branch) {
                block.successors.push_back(block_of_[last.target]);
            } else if (last.kind == Kind::branch_table) {
                for (const std::uint32_t target : code_.tables[last.attribute]) {
                    block.successors.push_back(block_of_[target]);
                }
            }
            if (falls_through(last) && block.end < count) {
                block.successors.push_back(block_of_[block.end]);
            }
        }
    }

    /// Calls `use` and then `define` for the virtual registers of an instruction. A guarded write
    /// leaves the other lanes' values, so it is a use as well.
    template <class Use, class Define>
    void visit(std::uint32_t index, Use use, Define define) const {
        const DecodedInstruction& instruction = code_.instructions[index];
        const Effects& effects = code_.effects[index];
        const RowRef* const operands = code_.operands.data() + instruction.operands;
        if (instruction.guard >= 0) {
            use(instruction.guard);
        }
        const bool keeps = effects.reads_destinations || instruction.guard != no_row;
        for (std::uint16_t i = 0; i < instruction.operand_count; ++i) {
            if (operands[i] >= 0 && (i >= effects.destinations || keeps)) {
                use(operands[i]);
            }
        }
        for (std::uint16_t i = 0; i < effects.destinations; ++i) {
            if (operands[i] >= 0) {
                define(operands[i]);
            }
        }
    }

    /// Registers of one block only need no bit in the tables.
    void number_global_registers() {
        std::vector<std::uint32_t> seen_in(code_.registers.size(), none);
        bits_.assign(code_.registers.size(), none);
        const auto see = [&](RowRef reg, std::uint32_t block) {
            const auto index = static_cast<std::size_t>(reg);
            if (seen_in[index] == none) {
                seen_in[index] = block;
            } else if (seen_in[index] != block && bits_[index] == none) {
                bits_[index] = static_cast<std::uint32_t>(global_.size());
                global_.push_back(index);
            }
        };
        std::vector<char> written(code_.registers.size(), 0);
        for (std::uint32_t i = 0; i < code_.instructions.size(); ++i) {
            const std::uint32_t block = block_of_[i];
            visit(
                i,
                [&](RowRef reg) {
                    see(reg, block);
                    // Read in the block before it is written there: from the round before.
                    if (written[static_cast<std::size_t>(reg)] == 0) {
                        see(reg, none - 1);
                    }
                },
                [&](RowRef reg) {
                    see(reg, block);
                    written[static_cast<std::size_t>(reg)] = 1;
                });
        }
    }

    void find_lives() {
        number_global_registers();
        const std::size_t count = blocks_.size();
        BitTable used(count, global_.size()), defined(count, global_.size()),
            in(count, global_.size()), out(count, global_.size());
        for (std::size_t b = 0; b < count; ++b) {
            note_block(blocks_[b], used.row(b), defined.row(b));
        }
        for (bool changed = true; changed;) {
            changed = false;
            for (std::size_t b = count; b-- > 0;) {
                std::uint64_t* const live_out = out.row(b);
                for (const std::uint32_t next : blocks_[b].successors) {
                    for (std::size_t w = 0; w < out.words(); ++w) {
                        live_out[w] |= in.row(next)[w];
                    }
                }
                for (std::size_t w = 0; w < in.words(); ++w) {
                    const std::uint64_t live = used.row(b)[w] | (live_out[w] & ~defined.row(b)[w]);
                    changed = changed || live != in.row(b)[w];
                    in.row(b)[w] = live;
                }
            }
        }
        lives_.resize(code_.registers.size());
        ends_.assign(code_.registers.size(), none);
        for (std::size_t b = 0; b < count; ++b) {
            find_segments(blocks_[b], out.row(b), out.words());
        }
        for (std::vector<Segment>& segments : lives_) {
            std::sort(segments.begin(), segments.end(),
                      [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
            join(segments);
        }
    }

    static void join(std::vector<Segment>& segments) {
        std::size_t kept = 0;
        for (std::size_t i = 1; i < segments.size(); ++i) {
            if (segments[i].begin <= segments[kept].end + 1) {
                segments[kept].end = std::max(segments[kept].end, segments[i].end);
            } else {
                segments[++kept] = segments[i];
            }
        }
        segments.resize(segments.empty() ? 0 : kept + 1);
    }

    /// Walks a block backwards. `ends_` holds where registers that live are needed last.
    void find_segments(const BasicBlock& block, const std::uint64_t* live_out, std::size_t words) {
        std::vector<std::size_t> open;
        const auto need = [&](std::size_t reg, std::uint32_t at) {
            if (ends_[reg] == none) {
                ends_[reg] = at;
                open.push_back(reg);
            }
        };
        for (std::size_t w = 0; w < words; ++w) {
            for (std::uint64_t rest = live_out[w]; rest != 0; rest &= rest - 1) {
                need(global_[w * 64 + static_cast<std::size_t>(std::countr_zero(rest))],
                     2 * block.end - 1);
            }
        }
        for (std::uint32_t i = block.end; i-- > block.first;) {
            const bool reuses =
                code_.effects[i].destination_may_reuse && code_.instructions[i].guard == no_row;
            // Written before all is read: other destinations, or an order of the machine's own.
            const std::uint32_t written = 2 * i + (reuses ? 1 : 0);
            visit(
                i, [](RowRef) {},
                [&](RowRef ref) {
                    const auto reg = static_cast<std::size_t>(ref);
                    const std::uint32_t end = ends_[reg] == none ? 2 * i + 1 : ends_[reg];
                    lives_[reg].push_back({written, end});
                    ends_[reg] = none;
                });
            visit(
                i, [&](RowRef ref) { need(static_cast<std::size_t>(ref), 2 * i); }, [](RowRef) {});
        }
        for (const std::size_t reg : open) {
            if (ends_[reg] != none) {
                lives_[reg].push_back({2 * block.first, ends_[reg]});
                ends_[reg] = none;
            }
        }
    }

    void note_block(const BasicBlock& block, std::uint64_t* used, std::uint64_t* defined) const {
        const auto bit = [&](RowRef reg) { return bits_[static_cast<std::size_t>(reg)]; };
        for (std::uint32_t i = block.first; i < block.end; ++i) {
            visit(
                i,
                [&](RowRef reg) {
                    const std::uint32_t at = bit(reg);
                    if (at != none && (defined[at / 64] >> (at % 64) & 1) == 0) {
                        used[at / 64] |= std::uint64_t{1} << (at % 64);
                    }
                },
                [&](RowRef reg) {
                    const std::uint32_t at = bit(reg);
                    if (at != none) {
                        defined[at / 64] |= std::uint64_t{1} << (at % 64);
                    }
                });
        }
    }

    // Rows of each shape are apart: a lane's column lies elsewhere in a row of another shape, so
    // that lanes which stand at different instructions would overwrite each other's values.

    static std::size_t pool_of(Row row) { return static_cast<std::size_t>(row); }

    /// Registers that copies join; one row for both makes the copy needless.
    [[nodiscard]] std::vector<std::vector<std::size_t>> find_partners() const {
        std::vector<std::vector<std::size_t>> partners(code_.registers.size());
        for (std::size_t i = 0; i < code_.instructions.size(); ++i) {
            const RowRef* const operands = code_.operands.data() + code_.instructions[i].operands;
            if (code_.effects[i].is_copy && operands[0] >= 0 && operands[1] >= 0) {
                const auto to = static_cast<std::size_t>(operands[0]);
                const auto from = static_cast<std::size_t>(operands[1]);
                partners[to].push_back(from);
                partners[from].push_back(to);
            }
        }
        return partners;
    }

    void assign() {
        const std::vector<std::vector<std::size_t>> partners = find_partners();
        std::vector<std::size_t> order;
        for (std::size_t reg = 0; reg < lives_.size(); ++reg) {
            if (!lives_[reg].empty()) {
                order.push_back(reg);
            }
        }
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return std::pair(lives_[a][0].begin, a) < std::pair(lives_[b][0].begin, b);
        });
        places_.assign(code_.registers.size(), none);
        for (const std::size_t reg : order) {
            places_[reg] = find_row(reg, partners[reg]);
            pools_[pool_of(code_.registers[reg])][places_[reg]].add(lives_[reg]);
        }
        std::size_t next = 0;
        for (const Row row : {Row::b64, Row::b32, Row::predicate}) {
            pool_from_[pool_of(row)] = static_cast<std::uint32_t>(next);
            next += pools_[pool_of(row)].size() * bytes_of(row);
        }
        frame_bytes_ =
            static_cast<std::uint32_t>((next + row_alignment - 1) / row_alignment * row_alignment);
    }

    std::uint32_t find_row(std::size_t reg, const std::vector<std::size_t>& partners) {
        std::vector<RowLives>& pool = pools_[pool_of(code_.registers[reg])];
        for (const std::size_t partner : partners) {
            if (places_[partner] != none && pool[places_[partner]].fits(lives_[reg])) {
                return places_[partner];
            }
        }
        for (std::size_t row = 0; row < pool.size(); ++row) {
            if (pool[row].fits(lives_[reg])) {
                return static_cast<std::uint32_t>(row);
            }
        }
        pool.emplace_back();
        return static_cast<std::uint32_t>(pool.size() - 1);
    }

    [[nodiscard]] RowRef offset(RowRef ref) const {
        if (ref < 0) {
            return ref;
        }
        const auto reg = static_cast<std::size_t>(ref);
        const Row row = code_.registers[reg];
        return static_cast<RowRef>(pool_from_[pool_of(row)] + places_[reg] * bytes_of(row));
    }

    void rewrite() {
        for (RowRef& operand : code_.operands) {
            operand = offset(operand);
        }
        for (DecodedInstruction& instruction : code_.instructions) {
            instruction.guard = offset(instruction.guard);
        }
    }

    void remove_copies() {
        const std::size_t count = code_.instructions.size();
        std::vector<std::uint32_t> moved(count + 1);
        std::uint32_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            moved[i] = kept;
            const DecodedInstruction& instruction = code_.instructions[i];
            const RowRef* const operands = code_.operands.data() + instruction.operands;
            if (code_.effects[i].is_copy && operands[0] == operands[1]) {
                continue;
            }
            code_.effects[kept] = code_.effects[i];
            code_.instructions[kept++] = instruction;
        }
        moved[count] = kept;
        code_.instructions.resize(kept);
        code_.effects.resize(kept);
        for (DecodedInstruction& instruction : code_.instructions) {
            if (instruction.kind == Kind::branch) {
                instruction.target = moved[instruction.target];
            }
        }
        for (std::vector<std::uint32_t>& table : code_.tables) {
            for (std::uint32_t& target : table) {
                target = moved[target];
            }
        }
    }

    VirtualCode& code_;
    std::vector<BasicBlock> blocks_;
    std::vector<std::uint32_t> block_of_;
    std::vector<std::uint32_t> bits_;  // of a register in the tables
    std::vector<std::size_t> global_;  // register of a bit
    std::vector<std::vector<Segment>> lives_;
    std::vector<std::uint32_t> ends_;
    std::vector<std::uint32_t> places_;
    std::array<std::vector<RowLives>, 3> pools_;  // by shape
    std::array<std::uint32_t, 3> pool_from_{};    // bytes
    std::uint32_t frame_bytes_ = 0;
};

}  // namespace

std::uint32_t allocate_rows(VirtualCode& code) {
    return Allocator(code).run();
}

}  // namespace kernelforge::emulator::decoding
