// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "emulator/machine_runner.hpp"

// Loads and stores.

namespace kernelforge::emulator::running {

namespace {

/// Whether lane i's address is lane 0's plus i elements.
bool contiguous(const LaneWords& host, std::uint64_t bytes) {
    std::uint64_t different = 0, expected = host[0];
    for (const std::uint64_t at : host) {
        different |= at ^ expected;
        expected += bytes;
    }
    return different == 0;
}

template <class Memory, class Register>
void load_row(Register* to, const LaneWords& host, std::uint64_t offset, std::uint32_t mask) {
    const auto load = [&](std::size_t lane) {
        const auto* from = reinterpret_cast<const Memory*>(host[lane] + offset);
        const Memory value = __atomic_load_n(from, __ATOMIC_RELAXED);
        if constexpr (std::is_signed_v<Memory>) {
            to[lane] = static_cast<Register>(static_cast<std::make_signed_t<Register>>(value));
        } else {
            to[lane] = static_cast<Register>(value);
        }
    };
    if (mask == all_lanes) {
        for (std::size_t lane = 0; lane < warp_lanes; ++lane) load(lane);
    } else {
        each_lane(mask, [&](int lane) { load(static_cast<std::size_t>(lane)); });
    }
}

template <class Memory, class Register>
void store_row(const Register* from, const LaneWords& host, std::uint64_t offset,
               std::uint32_t mask) {
    const auto store = [&](std::size_t lane) {
        auto* to = reinterpret_cast<Memory*>(host[lane] + offset);
        __atomic_store_n(to, static_cast<Memory>(from[lane]), __ATOMIC_RELAXED);
    };
    if (mask == all_lanes) {
        for (std::size_t lane = 0; lane < warp_lanes; ++lane) store(lane);
    } else {
        each_lane(mask, [&](int lane) { store(static_cast<std::size_t>(lane)); });
    }
}

template <class Register>
void load_rows(const MemoryOp& op, const Rows& rows, const RowRef* operands, int bytes,
               const LaneWords& host, std::uint32_t mask) {
    const bool together = op.elements == 1 && bytes == static_cast<int>(sizeof(Register)) &&
                          mask == all_lanes && contiguous(host, sizeof(Register));
    for (int i = 0; i < op.elements; ++i) {
        if (operands[i] == no_row) continue;
        auto* to = rows.at<Register>(operands[i]);
        const auto offset = static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(bytes);
        if (together) {
            std::memcpy(to, reinterpret_cast<const void*>(host[0]), warp_lanes * sizeof(Register));
            continue;
        }
        switch (op.is_signed ? -bytes : bytes) {
            case 1:
                load_row<std::uint8_t>(to, host, offset, mask);
                break;
            case -1:
                load_row<std::int8_t>(to, host, offset, mask);
                break;
            case 2:
                load_row<std::uint16_t>(to, host, offset, mask);
                break;
            case -2:
                load_row<std::int16_t>(to, host, offset, mask);
                break;
            case 4:
                load_row<std::uint32_t>(to, host, offset, mask);
                break;
            case -4:
                load_row<std::int32_t>(to, host, offset, mask);
                break;
            default:
                load_row<std::uint64_t>(to, host, offset, mask);
        }
    }
}

template <class Register>
void store_rows(const MemoryOp& op, const Rows& rows, const RowRef* operands, int bytes,
                const LaneWords& host, std::uint32_t mask) {
    const bool together = op.elements == 1 && bytes == static_cast<int>(sizeof(Register)) &&
                          mask == all_lanes && contiguous(host, sizeof(Register));
    for (int i = 0; i < op.elements; ++i) {
        const auto* from = rows.at<Register>(operands[i]);
        const auto offset = static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(bytes);
        if (together) {
            std::memcpy(reinterpret_cast<void*>(host[0]), from, warp_lanes * sizeof(Register));
            continue;
        }
        switch (bytes) {
            case 1:
                store_row<std::uint8_t>(from, host, offset, mask);
                break;
            case 2:
                store_row<std::uint16_t>(from, host, offset, mask);
                break;
            case 4:
                store_row<std::uint32_t>(from, host, offset, mask);
                break;
            default:
                store_row<std::uint64_t>(from, host, offset, mask);
        }
    }
}

/// What the loaded rows hold, as one number, to tell a load that is repeated in vain.
std::uint64_t mixed(const MemoryOp& op, const Rows& rows, const RowRef* operands,
                    const LaneWords& host, std::uint32_t mask) {
    std::uint64_t mix = mask;
    each_lane(mask, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        mix = (mix ^ host[at]) * 0x9e37'79b9'7f4a'7c15ULL;
        for (int i = 0; i < op.elements; ++i) {
            if (operands[i] == no_row) continue;
            const std::uint64_t value = op.data_row == Row::b64
                                            ? rows.at<std::uint64_t>(operands[i])[at]
                                            : rows.at<std::uint32_t>(operands[i])[at];
            mix = (mix ^ value ^ mix >> 29) * 0xbf58'476d'1ce4'e5b9ULL;
        }
    });
    return mix;
}

bool acquires(Order order) {
    return order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst;
}

bool releases(Order order) {
    return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

Request request_of(const MemoryOp& op, int element_bytes) {
    Request request;
    request.space = op.space;
    request.writes = op.what != MemoryOp::What::load;
    request.bytes = static_cast<std::uint32_t>(element_bytes * op.elements);
    request.alignment = static_cast<std::uint32_t>(op.alignment);
    request.order = op.order;
    request.scope = op.scope;
    request.observed = op.speculative != MemoryOp::Speculative::load;
    switch (op.what) {
        case MemoryOp::What::load:
            request.what = Access::What::read;
            break;
        case MemoryOp::What::store:
            request.what = Access::What::write;
            break;
        default:
            request.what = Access::What::atomic;
            // A vector of reductions is as many reductions.
            request.alignment = request.bytes;
    }
    return request;
}

}  // namespace

Next Runner::memory(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask) {
    const MemoryOp& op = code_->memory[in.attribute];
    const bool loads = op.what == MemoryOp::What::load;
    if (op.space == Space::param) return parameter(warp, group, in, mask, op);
    const bool probes = op.speculative == MemoryOp::Speculative::probe;
    if (probes && observer_ == nullptr) return Next::advance;
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    // loads {d…, address}; atom {d, address, a…}; stores and red {address, …}.
    const int address_at = loads                               ? op.elements
                           : op.what == MemoryOp::What::atomic ? op.elements
                                                               : 0;
    const int bytes = bytes_of(op.type);
    LaneWords where, host;
    addresses(group, rows, operands[address_at], op.address_row, op.symbol, op.offset, where);
    const bool in_shared = resolve(warp, request_of(op, bytes), where, mask, in.place, host);
    if (probes) return Next::advance;
    if (releases(op.order)) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (op.what == MemoryOp::What::atomic || op.what == MemoryOp::What::reduction) {
        atomic(rows, in, op, mask, host, in_shared);
        if (op.what == MemoryOp::What::reduction) ++progress_;
    } else if (loads) {
        if (op.data_row == Row::b64) {
            load_rows<std::uint64_t>(op, rows, operands, bytes, host, mask);
        } else {
            load_rows<std::uint32_t>(op, rows, operands, bytes, host, mask);
        }
    } else {
        if (op.data_row == Row::b64) {
            store_rows<std::uint64_t>(op, rows, operands + 1, bytes, host, mask);
        } else {
            store_rows<std::uint32_t>(op, rows, operands + 1, bytes, host, mask);
        }
        if (op.space != Space::local) ++progress_;
    }
    if (acquires(op.order)) std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool polls = op.what == MemoryOp::What::atomic || (loads && op.order != Order::weak);
    if (!polls) return Next::advance;
    return poll(warp, group, mixed(op, rows, operands, host, mask));
}

namespace {

/// A value that all lanes load, from `from`.
void broadcast(const MemoryOp& op, const Rows& rows, const RowRef* operands, int bytes,
               const char* from, std::uint32_t mask) {
    for (int i = 0; i < op.elements; ++i, from += bytes) {
        if (operands[i] == no_row) continue;
        std::uint64_t value = 0;
        std::memcpy(&value, from, static_cast<std::size_t>(bytes));
        if (op.is_signed) {
            const int shift = 64 - 8 * bytes;
            value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
        }
        const auto fill = [&](auto* row) {
            using Register = std::remove_pointer_t<decltype(row)>;
            if (mask == all_lanes) {
                std::fill_n(row, warp_lanes, static_cast<Register>(value));
            } else {
                each_lane(mask, [&](int lane) { row[lane] = static_cast<Register>(value); });
            }
        };
        if (op.data_row == Row::b64) {
            fill(rows.at<std::uint64_t>(operands[i]));
        } else {
            fill(rows.at<std::uint32_t>(operands[i]));
        }
    }
}

}  // namespace

/// `.param` memory: the launch's parameters, or what the running function has for each thread.
Next Runner::parameter(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask,
                       const MemoryOp& op) {
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    const bool loads = op.what == MemoryOp::What::load;
    const int bytes = bytes_of(op.type);
    const RowRef address = operands[loads ? op.elements : 0];
    if (loads && address == no_row && op.symbol >= 0) {
        const Symbol& named = code_->symbols[static_cast<std::size_t>(op.symbol)];
        const std::uint64_t at = named.offset + static_cast<std::uint64_t>(op.offset);
        const std::string& parameters = launch_->launch->parameters;
        const auto size =
            static_cast<std::uint64_t>(bytes) * static_cast<std::uint64_t>(op.elements);
        if (named.of_launch && at <= parameters.size() && size <= parameters.size() - at) {
            broadcast(op, rows, operands, bytes, parameters.data() + at, mask);
            return Next::advance;
        }
    }
    LaneWords where, host;
    addresses(group, rows, address, op.address_row, op.symbol, op.offset, where);
    const bool of_launch = op.symbol >= 0
                               ? code_->symbols[static_cast<std::size_t>(op.symbol)].of_launch
                               : group.frame->parent == nullptr;
    if (of_launch) {
        resolve_each(warp, request_of(op, bytes), where, mask, in.place, host);
    } else {
        const std::uint64_t stride = code_->functions[group.frame->function].parameter_bytes;
        const auto base = reinterpret_cast<std::uint64_t>(group.frame->parameters.data());
        const auto size =
            static_cast<std::uint64_t>(bytes) * static_cast<std::uint64_t>(op.elements);
        each_lane(mask, [&](int lane) {
            const auto at = static_cast<std::size_t>(lane);
            if (where[at] > stride || size > stride - where[at]) {
                bad_access(warp, request_of(op, bytes), Report::Kind::out_of_bounds, where[at],
                           lane, in.place, "beyond the call's parameters");
            }
            host[at] = base + at * stride + where[at];
        });
    }
    if (op.data_row == Row::b64) {
        loads ? load_rows<std::uint64_t>(op, rows, operands, bytes, host, mask)
              : store_rows<std::uint64_t>(op, rows, operands + 1, bytes, host, mask);
    } else {
        loads ? load_rows<std::uint32_t>(op, rows, operands, bytes, host, mask)
              : store_rows<std::uint32_t>(op, rows, operands + 1, bytes, host, mask);
    }
    return Next::advance;
}

void Runner::atomic(const Rows& rows, const DecodedInstruction& in, const MemoryOp& op,
                    std::uint32_t mask, const LaneWords& host, bool in_shared) {
    const CombineFn combine = launch_->combine[in.attribute][in_shared ? 1 : 0];
    if (combine == nullptr) {
        throw std::invalid_argument(line(in.place) + ": no such atomic operation on its type");
    }
    const RowRef* operands = code_->operands.data() + in.operands;
    const bool returns = op.what == MemoryOp::What::atomic;
    const int bytes = bytes_of(op.type);
    const RowRef* sources = operands + (returns ? op.elements + 1 : 1);
    const bool wide = op.data_row == Row::b64;
    const auto value_of = [&](RowRef row, std::size_t lane) {
        return wide ? rows.at<std::uint64_t>(row)[lane]
                    : std::uint64_t{rows.at<std::uint32_t>(row)[lane]};
    };
    const bool exchanges = op.combine == MemoryOp::Combine::compare_exchange;
    each_lane(mask, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        for (int i = 0; i < op.elements; ++i) {
            auto* memory = reinterpret_cast<std::byte*>(host[at]) + i * bytes;
            const std::uint64_t old =
                combine_in_memory(memory, bytes, combine, value_of(sources[i], at),
                                  exchanges ? value_of(sources[op.elements + i], at) : 0);
            if (!returns || operands[i] == no_row) continue;
            if (wide) {
                rows.at<std::uint64_t>(operands[i])[at] = old;
            } else {
                rows.at<std::uint32_t>(operands[i])[at] = static_cast<std::uint32_t>(old);
            }
        }
    });
}

}  // namespace kernelforge::emulator::running
