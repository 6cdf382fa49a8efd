// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker_block.hpp"

#include <algorithm>
#include <bit>

namespace kernelforge::emulator::checking {

namespace {

/// Events of one block's shared memory; with more its history is forgotten.
constexpr std::uint32_t most_block_events = 1U << 18;

template <class Do>
void each_bit(std::uint64_t mask, const Do& act) {
    for (; mask != 0; mask &= mask - 1) act(static_cast<unsigned>(std::countr_zero(mask)));
}

Times compact(const std::array<Time, members>& known, unsigned warps) {
    Times times;
    times.base = *std::min_element(known.begin(), known.begin() + warps);
    for (unsigned i = 0; i < members; ++i) {
        if (i >= warps && i != copying_agent) continue;
        if (known[i] != times.base)
            times.beyond.emplace_back(static_cast<std::uint8_t>(i), known[i]);
    }
    return times;
}

}  // namespace

RunningBlock::RunningBlock(PagePool& pool, std::uint64_t block, unsigned warp_count,
                           std::uint64_t shared_bytes)
    : index(block),
      warps(warp_count),
      shared(pool, 0, shared_bytes, false),
      events(most_block_events) {}

Clock RunningBlock::release(const Clocks& clocks, Warp& warp) {
    if (!warp.used && warp.unchanged) return warp.unchanged;
    const auto self = static_cast<std::size_t>(&warp - warps.data());
    warp.own[self] = warp.done();
    Clock known =
        clocks.with(warp.foreign, index, compact(warp.own, static_cast<unsigned>(warps.size())));
    advance(warp);
    warp.unchanged = known;
    return known;
}

void RunningBlock::acquire(const Clocks& clocks, Warp& warp, const Clock& clock) const {
    if (!clock || clock == warp.acquired) return;
    warp.acquired = clock;
    warp.unchanged.reset();
    warp.foreign = clocks.join(warp.foreign, clock);
    acquire_own(clocks, warp, clock);
}

void RunningBlock::acquire_own(const Clocks& clocks, Warp& warp, const Clock& clock) const {
    const Times* times = clocks.find(clock, index);
    if (times == nullptr) return;
    const std::array<Time, members> known = times->all();
    for (unsigned i = 0; i < members; ++i) warp.own[i] = std::max(warp.own[i], known[i]);
    warp.unchanged.reset();
}

void RunningBlock::acquire_seen(const Clocks& clocks, Warp& warp, Scope scope) const {
    acquire(clocks, warp, warp.seen_in_block);
    warp.seen_in_block.reset();
    if (scope == Scope::cta) {
        acquire_own(clocks, warp, warp.seen);
        return;
    }
    acquire(clocks, warp, warp.seen);
    warp.seen.reset();
}

void RunningBlock::settle(const Clocks& clocks, std::uint32_t launch, Warp& warp) const {
    if (warp.obtained.empty()) return;
    Clock last;  // many words often share one
    for (const Obtained& obtained : warp.obtained) {
        if (!obtained.page->publishes.load(std::memory_order_acquire)) continue;
        Clock everywhere, in_block;
        {
            PageLock lock(launch);
            lock.hold(*obtained.page);
            if (!obtained.page->published) continue;
            const auto entry = obtained.page->published->find(obtained.word);
            if (entry == obtained.page->published->end()) continue;
            const Published& published = entry->second;
            everywhere = published.everywhere;
            const auto own = published.in_block.find(index);
            if (own != published.in_block.end()) in_block = own->second;
        }
        if (everywhere == last && !in_block) continue;
        last = everywhere;
        if (!obtained.acquires) {
            warp.seen = clocks.join(warp.seen, everywhere);
            warp.seen_in_block = clocks.join(warp.seen_in_block, in_block);
            continue;
        }
        acquire(clocks, warp, in_block);
        if (obtained.in_block) {
            acquire_own(clocks, warp, everywhere);
        } else {
            acquire(clocks, warp, everywhere);
        }
    }
    warp.obtained.clear();
}

void RunningBlock::arrive(const Clocks& clocks, Warp& warp, int id) {
    acquire_seen(clocks, warp);
    // Lanes of a warp may come one after the other; what the last of them knows is the most.
    arrivals_[id][static_cast<unsigned>(&warp - warps.data())] = {
        release(clocks, warp), warp.released, warp.released_in_block};
}

void RunningBlock::barrier(const Clocks& clocks, int id, std::uint64_t took_part,
                           std::uint64_t waiting) {
    Arrival arrived;
    if (const auto at = arrivals_.find(id); at != arrivals_.end()) {
        for (const auto& [warp, arrival] : at->second) {
            if ((waiting >> warp & 1U) != 0) continue;
            took_part &= ~(std::uint64_t{1} << warp);
            arrived.known = clocks.join(arrived.known, arrival.known);
            arrived.released = clocks.join(arrived.released, arrival.released);
            arrived.released_in_block =
                clocks.join(arrived.released_in_block, arrival.released_in_block);
        }
        arrivals_.erase(at);
    }
    meet(clocks, took_part, waiting, arrived);
    each_bit(waiting, [&](unsigned i) { acquire(clocks, warps[i], arrived.known); });
}

void RunningBlock::meet(const Clocks& clocks, std::uint64_t took_part, std::uint64_t waiting,
                        const Arrival& arrived) {
    const Time next = ++ticks_;
    std::array<Time, members> known{};
    Clock foreign, released = arrived.released, released_in_block = arrived.released_in_block;
    bool alike = released == released_in_block;
    each_bit(took_part | waiting, [&](unsigned i) {
        Warp& warp = warps[i];
        acquire_seen(clocks, warp);
        for (unsigned member = 0; member < members; ++member)
            known[member] = std::max(known[member], warp.own[member]);
        foreign = clocks.join(foreign, warp.foreign);
        released = clocks.join(released, warp.released);
        released_in_block = clocks.join(released_in_block, warp.released_in_block);
        alike = alike && warp.released == warp.released_in_block;
        warp.time = next;
        warp.used = false;
        warp.unchanged.reset();
    });
    if (alike) released_in_block = released;
    // Nothing is nearer to now than what took part: its events so far are all before `next`.
    each_bit(took_part | waiting, [&](unsigned i) { known[i] = next - 1; });
    const bool all =
        ((took_part | waiting) & all_warps()) == all_warps() && known[copying_agent] >= agent_time_;
    const std::uint32_t before = all ? first_under_way() : 0;
    each_bit(waiting, [&](unsigned i) {
        Warp& warp = warps[i];
        for (unsigned member = 0; member < members; ++member)
            warp.own[member] = std::max(warp.own[member], known[member]);
        warp.foreign = foreign;
        warp.known_before = std::max(warp.known_before, before);
        warp.released = released;
        warp.released_in_block = released_in_block;
    });
}

std::uint32_t RunningBlock::first_under_way() const noexcept {
    std::uint32_t first = events.next();
    for (const Warp& warp : warps)
        for (const Copy& copy : warp.copies)
            if (copy.events == &events) first = std::min(first, copy.event);
    return first;
}

void RunningBlock::fence(const Clocks& clocks, Warp& warp, Order order, Scope scope) {
    if (order != Order::release) acquire_seen(clocks, warp, scope);
    if (order == Order::acquire) return;
    warp.released_in_block = release(clocks, warp);
    if (scope != Scope::cta) warp.released = warp.released_in_block;
}

void RunningBlock::copies_done(Warp& warp, std::uint32_t lanes, std::uint32_t left,
                               bool closed_only) {
    std::erase_if(warp.copies, [&](const Copy& copy) {
        if ((copy.lanes & lanes) == 0) return false;
        const auto lane = static_cast<unsigned>(std::countr_zero(copy.lanes & lanes));
        if (closed_only && copy.group + left >= warp.groups[lane]) return false;
        copy.events->at(copy.event).time.store(warp.time, std::memory_order_release);
        warp.used = true;
        return true;
    });
}

Clock RunningBlock::copies_to_agent(const Clocks& clocks, Warp& warp) {
    const Time now = ++ticks_;
    agent_time_ = now;
    for (const Copy& copy : warp.copies) {
        Event& event = copy.events->at(copy.event);
        event.hand_to_agent();
        event.time.store(now, std::memory_order_release);
    }
    warp.copies.clear();
    return clocks.with({}, index, Times{0, {{static_cast<std::uint8_t>(copying_agent), now}}});
}

void RunningBlock::forget() noexcept {
    shared.forget();
    events.clear();
    for (Warp& warp : warps) {
        warp.known_events = {};
        warp.known_before = 0;
        std::erase_if(warp.copies, [&](const Copy& copy) { return copy.events == &events; });
    }
}

Clock RunningBlock::bring(const Clocks& clocks) {
    meet(clocks, all_warps(), all_warps(), {});
    Warp& first = warps.front();
    return release(clocks, first);
}

void RunningBlock::receive(const Clocks& clocks, const Clock& known, const Clock& released) {
    for (Warp& warp : warps) {
        acquire(clocks, warp, known);
        warp.released = clocks.join(warp.released, released);
        warp.released_in_block = clocks.join(warp.released_in_block, released);
    }
}

}  // namespace kernelforge::emulator::checking
