// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emulator/machine_runner.hpp"

// Votes, shuffles and other instructions at which lanes of a warp meet.

namespace kernelforge::emulator::running {

namespace {

using What = SyncOp::What;

/// Operand that holds the mask of the lanes which take part.
int mask_operand(What what, int operands) {
    return what == What::active_mask || what == What::fence ? -1 : operands - 1;
}

/// Whether lanes at two instructions may meet: same operation, qualifiers and shape.
bool same_operation(const SyncOp& a, const SyncOp& b) {
    return a.what == b.what && a.mode == b.mode && a.combine == b.combine && a.type == b.type;
}

bool is_wide(const SyncOp& op) {
    return bytes_of(op.type) == 8;
}

/// What the lanes of all parties bring.
struct Inputs {
    std::array<std::uint64_t, warp_lanes> value{};
    std::array<std::uint32_t, warp_lanes> b{}, c{};
    std::uint32_t predicate = 0;
};

std::uint32_t predicate_bits(const Party& party, int operand, bool negated) {
    const std::uint32_t bits = *party.rows.at<std::uint32_t>(party.operands[operand]);
    return (negated ? ~bits : bits) & party.lanes;
}

void take_values(const Party& party, int operand, bool wide, Inputs& inputs) {
    const RowRef row = party.operands[operand];
    each_lane(party.lanes, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        inputs.value[at] = wide ? party.rows.at<std::uint64_t>(row)[at]
                                : std::uint64_t{party.rows.at<std::uint32_t>(row)[at]};
    });
}

void write_word(const Party& party, int operand, int lane, std::uint64_t value) {
    const RowRef row = party.operands[operand];
    if (row != no_row) {
        party.rows.at<std::uint32_t>(row)[lane] = static_cast<std::uint32_t>(value);
    }
}

void write_predicate(const Party& party, int operand, std::uint32_t bits) {
    const RowRef row = party.operands[operand];
    if (row == no_row) return;
    auto& all = *party.rows.at<std::uint32_t>(row);
    all = (all & ~party.lanes) | (bits & party.lanes);
}

void vote(const SyncOp& op, std::span<const Party> parties, std::uint32_t lanes) {
    std::uint32_t yes = 0;
    for (const Party& party : parties) yes |= predicate_bits(party, 1, op.predicate_negated);
    bool result = false;
    if (op.what == What::vote_all) result = yes == lanes;
    if (op.what == What::vote_any) result = yes != 0;
    if (op.what == What::vote_uni) result = yes == lanes || yes == 0;
    for (const Party& party : parties) {
        if (op.what == What::vote_ballot) {
            each_lane(party.lanes, [&](int lane) { write_word(party, 0, lane, yes); });
        } else {
            write_predicate(party, 0, result ? all_lanes : 0);
        }
    }
}

void match(const SyncOp& op, std::span<const Party> parties, std::uint32_t lanes) {
    Inputs inputs;
    for (const Party& party : parties) {
        take_values(party, party.instruction->operand_count - 2, is_wide(op), inputs);
    }
    const auto first = static_cast<std::size_t>(std::countr_zero(lanes));
    for (const Party& party : parties) {
        std::uint32_t all_equal = 0;
        each_lane(party.lanes, [&](int lane) {
            const auto at = static_cast<std::size_t>(
                op.what == What::match_any ? static_cast<std::size_t>(lane) : first);
            std::uint32_t same = 0;
            each_lane(lanes, [&](int other) {
                same |=
                    std::uint32_t{inputs.value[static_cast<std::size_t>(other)] == inputs.value[at]}
                    << other;
            });
            if (op.what == What::match_all) {
                same = same == lanes ? lanes : 0;
                all_equal = same == lanes ? all_lanes : 0;
            }
            write_word(party, 0, lane, same);
        });
        if (party.instruction->operand_count == 4) write_predicate(party, 1, all_equal);
    }
}

/// PTX ISA 9.0, "shfl.sync": the lane that is read, and whether it is in the segment.
struct Source {
    int lane = 0;
    bool in_range = false;
};

Source shuffle_source(SyncOp::Mode mode, int lane, std::uint32_t b, std::uint32_t c) {
    const int value = static_cast<int>(b & 31U), clamp = static_cast<int>(c & 31U);
    const int segment = static_cast<int>(c >> 8 & 31U);
    const int most = (lane & segment) | (clamp & ~segment);
    const int least = lane & segment;
    Source source;
    switch (mode) {
        case SyncOp::Mode::up:
            source.lane = lane - value;
            source.in_range = source.lane >= most;
            break;
        case SyncOp::Mode::down:
            source.lane = lane + value;
            source.in_range = source.lane <= most;
            break;
        case SyncOp::Mode::bfly:
            source.lane = lane ^ value;
            source.in_range = source.lane <= most;
            break;
        default:
            source.lane = least | (value & ~segment);
            source.in_range = source.lane <= most;
    }
    if (!source.in_range) source.lane = lane;
    return source;
}

void shuffle(const SyncOp& op, std::span<const Party> parties) {
    Inputs inputs;
    for (const Party& party : parties) take_values(party, 2, false, inputs);
    for (const Party& party : parties) {
        const auto* b = party.rows.at<std::uint32_t>(party.operands[3]);
        const auto* c = party.rows.at<std::uint32_t>(party.operands[4]);
        std::uint32_t in_range = 0;
        std::array<std::uint32_t, warp_lanes> out{};
        each_lane(party.lanes, [&](int lane) {
            const Source source = shuffle_source(op.mode, lane, b[lane], c[lane]);
            in_range |= std::uint32_t{source.in_range} << lane;
            // A lane that does not take part gives what its register holds: undefined in PTX, 0
            // here where it is in no party.
            out[static_cast<std::size_t>(lane)] =
                static_cast<std::uint32_t>(inputs.value[static_cast<std::size_t>(source.lane)]);
        });
        each_lane(party.lanes, [&](int lane) {
            write_word(party, 0, lane, out[static_cast<std::size_t>(lane)]);
        });
        write_predicate(party, 1, in_range);
    }
}

std::uint64_t reduced(const SyncOp& op, std::uint64_t a, std::uint64_t b) {
    using C = MemoryOp::Combine;
    const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
    const bool less =
        is_signed(op.type) ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(y) : x < y;
    switch (op.combine) {
        case C::add:
            return x + y;
        case C::min:
            return less ? x : y;
        case C::max:
            return less ? y : x;
        case C::bit_and:
            return x & y;
        case C::bit_or:
            return x | y;
        default:
            return x ^ y;
    }
}

void reduce(const SyncOp& op, std::span<const Party> parties, std::uint32_t lanes) {
    Inputs inputs;
    for (const Party& party : parties) take_values(party, 1, false, inputs);
    const int first = std::countr_zero(lanes);
    std::uint64_t total = inputs.value[static_cast<std::size_t>(first)];
    each_lane(lanes & (lanes - 1), [&](int lane) {
        total = reduced(op, total, inputs.value[static_cast<std::size_t>(lane)]);
    });
    for (const Party& party : parties) {
        each_lane(party.lanes, [&](int lane) { write_word(party, 0, lane, total); });
    }
}

void elect(std::span<const Party> parties, std::uint32_t lanes) {
    const int leader = std::countr_zero(lanes);
    for (const Party& party : parties) {
        each_lane(party.lanes, [&](int lane) {
            write_word(party, 0, lane, static_cast<std::uint64_t>(leader));
        });
        write_predicate(party, 1, 1U << leader);
    }
}

}  // namespace

Next Runner::sync(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask) {
    const SyncOp& op = code_->sync[in.attribute];
    switch (op.what) {
        case What::barrier:
        case What::barrier_arrive:
        case What::barrier_reduce:
            return block_barrier(warp, group, in, op, mask);
        case What::cluster_arrive:
        case What::cluster_wait:
            return cluster_barrier(warp, group, op, mask);
        case What::fence:
            fence(warp, op, mask);
            return Next::advance;
        case What::active_mask: {
            const Rows rows = rows_of(warp, group);
            const Party party{&group, &in, rows, code_->operands.data() + in.operands, mask};
            each_lane(mask, [&](int lane) { write_word(party, 0, lane, mask); });
            return Next::advance;
        }
        default:
            return warp_level(warp, group, in, op, mask,
                              code_->operands[in.operands + static_cast<std::uint32_t>(mask_operand(
                                                                op.what, in.operand_count))]);
    }
}

/// Lanes name with whom they meet; lanes of a group may name different sets.
Next Runner::warp_level(Warp& warp, Group& group, const DecodedInstruction& in, const SyncOp& op,
                        std::uint32_t mask, RowRef named_row) {
    const auto* named_of = rows_of(warp, group).at<std::uint32_t>(named_row);
    std::array<std::pair<std::uint32_t, std::uint32_t>, warp_lanes> waiting;  // named, lanes
    std::size_t parts = 0;
    std::uint32_t rest = mask, apart = 0;
    while (rest != 0) {
        const int lane = std::countr_zero(rest);
        const std::uint32_t named = named_of[lane];
        std::uint32_t same = 0;
        if (rest == all_lanes) {
            for (int other = 0; other < warp_lanes; ++other) {
                same |= std::uint32_t{named_of[other] == named} << other;
            }
        } else {
            each_lane(rest,
                      [&](int other) { same |= std::uint32_t{named_of[other] == named} << other; });
        }
        if ((named >> lane & 1U) == 0 || (same & ~named) != 0) {
            const int outside = (named >> lane & 1U) == 0 ? lane : std::countr_zero(same & ~named);
            throw Fault{report(Report::Kind::barrier_divergence, warp, outside, in.place,
                               "is not among the lanes that its own mask names")};
        }
        rest &= ~same;
        if (same == (named & warp.live)) {
            const Party party{&group, &in, rows_of(warp, group),
                              code_->operands.data() + in.operands, same};
            exchange(warp, op, std::span(&party, 1), same);
        } else if (!meet(warp, group, in, op, same, named)) {
            waiting[parts++] = {named, same};
            apart |= same;
        }
    }
    if (parts == 0) return Next::advance;
    if (apart == group.mask && parts == 1) {
        group.wait = Wait::lanes;
        group.named = waiting[0].first;
        return Next::reschedule;
    }
    const Group origin = group;
    group.mask &= ~apart;
    ++group.pc;
    for (std::size_t i = 0; i < parts; ++i) {
        Group part = origin;
        part.mask = waiting[i].second;
        part.wait = Wait::lanes;
        part.named = waiting[i].first;
        warp.groups.push_back(part);
    }
    if (group.mask == 0) {
        warp.groups.erase(warp.groups.begin() + (&group - warp.groups.data()));
    }
    return Next::reschedule;
}

/// Lanes that wait at other instructions of the same operation and name the same lanes.
/// @returns whether all have come, and the exchange is done
bool Runner::meet(Warp& warp, Group& group, const DecodedInstruction& in, const SyncOp& op,
                  std::uint32_t lanes, std::uint32_t named) {
    std::array<Party, warp_lanes> parties;
    std::size_t count = 0;
    std::uint32_t together = lanes;
    parties[count++] = {&group, &in, rows_of(warp, group), code_->operands.data() + in.operands,
                        lanes};
    for (Group& other : warp.groups) {
        if (&other == &group || other.wait != Wait::lanes || other.named != named) continue;
        const DecodedInstruction& there = code_->instructions[other.pc];
        if (there.kind != Kind::sync || !same_operation(code_->sync[there.attribute], op)) continue;
        parties[count++] = {&other, &there, rows_of(warp, other),
                            code_->operands.data() + there.operands, other.mask};
        together |= other.mask;
    }
    if (together != (named & warp.live)) return false;
    exchange(warp, op, std::span(parties.data(), count), together);
    for (std::size_t i = 1; i < count; ++i) {
        parties[i].group->wait = Wait::none;
        ++parties[i].group->pc;
    }
    return true;
}

void Runner::exchange(Warp& warp, const SyncOp& op, std::span<const Party> parties,
                      std::uint32_t lanes) {
    if (observer_ != nullptr) observer_->warp_sync(actor(warp, lanes));
    switch (op.what) {
        case What::vote_all:
        case What::vote_any:
        case What::vote_uni:
        case What::vote_ballot:
            return vote(op, parties, lanes);
        case What::match_any:
        case What::match_all:
            return match(op, parties, lanes);
        case What::shuffle:
            return shuffle(op, parties);
        case What::reduce:
            return reduce(op, parties, lanes);
        case What::elect:
            return elect(parties, lanes);
        default:
            return;
    }
}

}  // namespace kernelforge::emulator::running
