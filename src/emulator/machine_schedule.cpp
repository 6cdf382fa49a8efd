// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "emulator/machine_runner.hpp"

// A host thread's blocks: opened in order, and time-sliced where they wait for one another.

namespace kernelforge::emulator::running {

namespace {

using Clock = std::chrono::steady_clock;

/// Instructions between looks at the clock: some milliseconds.
constexpr std::uint64_t poll_instructions = 50'000;
/// Passes over a unit's warps in which nothing was stored, reached or finished, after which other
/// units have their turn although its warps execute something.
constexpr std::uint32_t most_idle_passes = 8;
/// Passes after which other open units have their turn anyway.
constexpr std::uint32_t most_passes = 64;
/// How long every open warp polls memory that nobody changes before a proof is looked for that it
/// will do so for ever: looking costs time, which the threads that work may need.
constexpr std::chrono::milliseconds suspicious_after{100};
constexpr std::size_t most_whereabouts = 10;

std::array<std::uint32_t, 3> coordinate_in(const std::array<std::uint32_t, 3>& extent,
                                           std::uint64_t linear) {
    return {static_cast<std::uint32_t>(linear % extent[0]),
            static_cast<std::uint32_t>(linear / extent[0] % extent[1]),
            static_cast<std::uint32_t>(linear / extent[0] / extent[1])};
}

std::uint64_t mixed(std::uint64_t mix, std::uint64_t word) {
    return (mix ^ word ^ mix >> 29) * 0xbf58'476d'1ce4'e5b9ULL;
}

std::uint64_t mixed(std::uint64_t mix, const std::byte* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, data + at, std::min<std::size_t>(8, bytes - at));
        mix = mixed(mix, word);
    }
    return mix;
}

/// All that decides what the warp does next, but memory that others can change and the time.
std::uint64_t state_of(const Warp& warp, std::uint64_t mix) {
    for (const Group& group : warp.groups) {
        mix = mixed(mix, std::uint64_t{group.pc} << 32 | group.mask);
        mix = mixed(mix, static_cast<std::uint64_t>(group.wait) << 33 |
                             std::uint64_t{group.deferred} << 32 | group.named);
        mix = mixed(mix, reinterpret_cast<std::uintptr_t>(group.frame));
        // Who runs next among several.
        if (warp.groups.size() > 1) mix = mixed(mix, group.spin);
    }
    for (const Frame* frame : warp.frames) {
        mix = mixed(mix, frame->rows.data(), frame->rows.bytes());
        mix = mixed(mix, frame->parameters.data(), frame->parameters.bytes());
    }
    return mixed(mix, warp.local.data(), warp.local.size());
}

}  // namespace

void Runner::run(LaunchState& launch, const std::function<bool()>* cancelled) {
    cancelled_ = cancelled;
    if (held_code_ != launch.launch->module->code) {
        held_code_ = launch.launch->module->code;
        frames_.clear();
        free_frames_.assign(held_code_->functions.size(), {});
        fixed_rows_.clear();
        free_fixed_rows_.clear();
    }
    launch_ = &launch;
    code_ = held_code_.get();
    observer_ = launch.observer;
    span_ = nullptr;
    current_ = 0;
    progress_ = warp_instructions_ = thread_instructions_ = work_ = 0;
    watch_.reset();
    next_poll_ = poll_instructions;
    const auto stop_at_limit = [&](const std::string& why) {
        Report report;
        report.kind = Report::Kind::limit;
        report.kernel = launch.entry->name;
        report.message = "kernel " + report.kernel + why;
        stop_with(std::move(report));
    };
    try {
        run_units();
    } catch (const Fault& fault) {
        stop_with(fault.report);
    } catch (const std::bad_alloc&) {
        stop_at_limit(" needs more memory than the emulator may use (option memory_limit_mib)");
    } catch (const std::exception& error) {
        stop_at_limit(std::string(": ") + error.what());
    }
    leave_whereabouts();
    while (!open_.empty()) close(open_.size() - 1);
    const std::lock_guard lock(launch.mutex);
    --launch.runners;
    launch.warp_instructions += warp_instructions_;
    launch.thread_instructions += thread_instructions_;
}

void Runner::run_units() {
    std::uint32_t passes = 0;
    std::size_t idle_units = 0;  ///< open units visited in turn without anything done
    while (launch_->stop.load(std::memory_order_relaxed) == LaunchState::running) {
        if (open_.empty() && !open_next()) return;
        current_ %= open_.size();
        Unit& unit = *open_[current_];
        const std::uint64_t before = progress_;
        if (pass(unit)) {
            for (const auto& block : unit.blocks) {
                if (observer_ != nullptr) observer_->block_end(block->index);
            }
            close(current_);
            passes = 0;
            idle_units = 0;
        } else if (progress_ != before) {
            unit.idle_passes = 0;
            idle_units = 0;
            if (++passes >= most_passes) {
                // Should its warps wait for what an unopened block does, in a way that does not
                // look like waiting, they get it.
                passes = 0;
                current_ = open_next() ? open_.size() - 1 : current_ + 1;
            }
        } else if (unit.only_waits || ++unit.idle_passes >= most_idle_passes) {
            passes = 0;
            ++current_;
            ++idle_units;
        }
        if (progress_ != before) {
            // What was stored is there for who has seen this number.
            launch_->progress.fetch_add(1);
            watch_.reset();
        }
        if (!open_.empty() && idle_units >= open_.size()) {
            idle_units = 0;
            if (open_next()) {
                current_ = open_.size() - 1;
            } else {
                wait_for_others();
            }
        }
        poll_time();
    }
}

/// All open units wait and there is nothing to open: another host thread must do something, or the
/// launch is dead. That is proven, not guessed by time: warps that poll are watched until the state
/// of all of them recurs, with no progress by anybody and no look at a clock in between. From there
/// they repeat themselves, and when that holds for every host thread since the same progress, no
/// one ever stores what another waits for.
void Runner::wait_for_others() {
    std::this_thread::yield();
    const bool only_waits =
        std::all_of(open_.begin(), open_.end(), [](const auto& unit) { return unit->only_waits; });
    const std::uint64_t progress = launch_->progress.load();
    if (!only_waits || !watch_ || watch_->progress != progress) {
        watch_.reset();
        if (only_waits) watch_ = Watch{progress, Clock::now()};
        return;
    }
    if (Clock::now() - watch_->since < suspicious_after) return;
    if (!watch_->settled && !recurs(*watch_)) return;
    const std::lock_guard lock(launch_->mutex);
    if (launch_->progress.load() != progress) return;
    if (launch_->settled_at != progress) launch_->settled = 0;
    launch_->settled_at = progress;
    if (!watch_->settled) ++launch_->settled;
    watch_->settled = true;
    if (launch_->settled == launch_->runners) report_blocked(*open_[current_ % open_.size()]);
}

/// Compares with a state that is replaced at growing distances (Brent), so a cycle of any length is
/// found.
bool Runner::recurs(Watch& watch) {
    std::uint64_t state = 0;
    for (const auto& unit : open_) {
        for (const auto& block : unit->blocks) {
            for (const Warp& warp : block->warps) state = state_of(warp, state);
        }
    }
    if (watch.remembered == state && !reads_time_) return true;
    if (++watch.looks >= watch.horizon) {
        watch.remembered = state;
        watch.horizon *= 2;
        watch.looks = 0;
        reads_time_ = false;
    }
    return false;
}

bool Runner::open_next() {
    if (open_.size() >= launch_->most_open) return false;
    const std::uint64_t index = launch_->next_unit.fetch_add(1);
    if (index >= launch_->units) {
        launch_->next_unit.store(launch_->units);
        return false;
    }
    std::unique_ptr<Unit> unit;
    if (spare_units_.empty()) {
        unit = std::make_unique<Unit>();
    } else {
        unit = std::move(spare_units_.back());
        spare_units_.pop_back();
    }
    const Launch& launch = *launch_->launch;
    unit->index = index;
    unit->cluster_arrival = false;
    unit->idle_passes = 0;
    unit->only_waits = false;
    unit->blocks.resize(launch_->cluster_blocks);
    const std::array<std::uint32_t, 3> clusters{launch.grid[0] / launch.cluster[0],
                                                launch.grid[1] / launch.cluster[1],
                                                launch.grid[2] / launch.cluster[2]};
    const std::array<std::uint32_t, 3> corner = coordinate_in(clusters, index);
    for (std::uint32_t rank = 0; rank < launch_->cluster_blocks; ++rank) {
        if (!unit->blocks[rank]) unit->blocks[rank] = std::make_unique<BlockState>();
        BlockState& block = *unit->blocks[rank];
        const std::array<std::uint32_t, 3> inside = coordinate_in(launch.cluster, rank);
        for (std::size_t i = 0; i < 3; ++i) {
            block.coordinate[i] = corner[i] * launch.cluster[i] + inside[i];
        }
        block.unit = unit.get();
        block.rank = rank;
        block.index =
            block.coordinate[0] +
            std::uint64_t{launch.grid[0]} *
                (block.coordinate[1] + std::uint64_t{launch.grid[1]} * block.coordinate[2]);
        start_block(block);
    }
    open_.push_back(std::move(unit));
    return true;
}

void Runner::start_block(BlockState& block) {
    if (!block.shared || block.shared->bytes() < launch_->shared_bytes) {
        block.shared = std::make_unique<RowBytes>(launch_->shared_bytes);
    }
    block.barriers.fill({});
    block.active_barriers = 0;
    block.warps.resize(launch_->warps);
    std::uint32_t threads = launch_->threads;
    for (std::uint32_t i = 0; i < launch_->warps; ++i) {
        Warp& warp = block.warps[i];
        warp.block = &block;
        warp.index = i;
        warp.all = threads >= warp_lanes ? all_lanes : (1U << threads) - 1;
        warp.live = warp.all;
        warp.started = false;
        threads -= std::min<std::uint32_t>(threads, warp_lanes);
    }
    if (observer_ != nullptr) observer_->block_begin(block.index);
}

void Runner::close(std::size_t position) {
    for (const auto& block : open_[position]->blocks) {
        for (Warp& warp : block->warps) finish_warp(warp);
    }
    spare_units_.push_back(std::move(open_[position]));
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(position));
}

/// One turn for each of the unit's warps. @returns whether all have finished
bool Runner::pass(Unit& unit) {
    const std::uint64_t before = progress_;
    bool finished = true, blocked = true, waits = true;
    for (const auto& block : unit.blocks) {
        for (Warp& warp : block->warps) {
            if (warp.started && warp.groups.empty()) continue;
            const Turn turn = run_warp(warp);
            if (turn == Turn::finished) continue;
            finished = false;
            blocked = blocked && turn == Turn::blocked;
            waits = waits && turn != Turn::quantum;
            if (launch_->stop.load(std::memory_order_relaxed) != LaunchState::running) return false;
            poll_time();
        }
    }
    unit.only_waits = waits;
    // Barriers are met by warps of the unit only.
    if (!finished && blocked && progress_ == before) report_blocked(unit);
    return finished;
}

void Runner::poll_time() {
    if (work_ < next_poll_ && !watch_) return;
    next_poll_ = work_ + poll_instructions;
    const Clock::time_point now = Clock::now();
    int expected = LaunchState::running;
    if (now >= launch_->deadline) {
        launch_->stop.compare_exchange_strong(expected, LaunchState::out_of_time);
    } else if (cancelled_ != nullptr && now >= next_question_) {
        constexpr std::chrono::milliseconds between{20};
        next_question_ = now + between;
        if ((*cancelled_)())
            launch_->stop.compare_exchange_strong(expected, LaunchState::cancelled);
    }
}

void Runner::stop_with(Report report) {
    const std::lock_guard lock(launch_->mutex);
    int expected = LaunchState::running;
    if (launch_->stop.compare_exchange_strong(expected, LaunchState::fault)) {
        launch_->report = std::move(report);
    }
}

void Runner::leave_whereabouts() {
    if (launch_->stop.load() != LaunchState::out_of_time) return;
    const std::lock_guard lock(launch_->mutex);
    for (const auto& unit : open_) {
        for (const auto& block : unit->blocks) {
            for (const Warp& warp : block->warps) {
                if (launch_->whereabouts.size() >= most_whereabouts) return;
                if (!warp.started || warp.groups.empty()) continue;
                if (launch_->whereabouts.empty()) {
                    const Group& group = warp.groups.front();
                    launch_->unfinished =
                        report(Report::Kind::endless, warp, std::countr_zero(group.mask),
                               code_->instructions[group.pc].place, "runs")
                            .party;
                }
                launch_->whereabouts.push_back(where(warp));
            }
        }
    }
}

void Runner::report_blocked(Unit& unit) {
    const Warp* first = nullptr;
    bool divergence = false, polls = false;
    std::string text;
    std::size_t listed = 0;
    for (const auto& block : unit.blocks) {
        // Warps of a block at different barriers, or lanes of a warp at different instructions.
        divergence = divergence || std::popcount(block->active_barriers) > 1;
        for (const Warp& warp : block->warps) {
            for (const Group& group : warp.groups) {
                divergence =
                    divergence || group.wait == Wait::lanes || group.wait == Wait::warp_group;
                polls = polls || group.wait == Wait::none;
            }
            if (warp.groups.empty()) continue;
            if (first == nullptr) first = &warp;
            if (listed++ < most_whereabouts) text += (listed > 1 ? "; " : "") + where(warp);
        }
    }
    if (listed > most_whereabouts) {
        text += "; and " + std::to_string(listed - most_whereabouts) + " warps more";
    }
    const Group& group = first->groups.front();
    // Lanes that wait for one that polls are not at fault.
    Report made =
        report(divergence && !polls ? Report::Kind::barrier_divergence : Report::Kind::deadlock,
               *first, std::countr_zero(group.mask), code_->instructions[group.pc].place,
               "waits for what never comes");
    made.message = "kernel " + made.kernel + ": deadlock, " +
                   (polls ? "warps poll what nothing changes: " : "all warps wait: ") + text;
    throw Fault{std::move(made)};
}

}  // namespace kernelforge::emulator::running
