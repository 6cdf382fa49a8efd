// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker_access.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace kernelforge::emulator::checking {

namespace {

using What = Access::What;

Strength strength_of(const Access& access) {
    const bool in_block = access.scope == Scope::cta;
    switch (access.what) {
        case What::atomic:
            return in_block && access.order != Order::is_volatile ? Strength::atomic_block
                                                                  : Strength::atomic;
        case What::async_read:
        case What::async_write:
            return Strength::copy;
        case What::read:
        case What::write:
            break;
    }
    if (access.order == Order::weak) return Strength::plain;
    return in_block && access.order != Order::is_volatile ? Strength::strong_block
                                                          : Strength::strong;
}

bool is_atomic_or_strong(Strength strength) {
    return strength != Strength::plain && strength != Strength::copy;
}

bool reaches_other_blocks(Strength strength) {
    return strength == Strength::strong || strength == Strength::atomic;
}

bool acquires(Order order) {
    return order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst;
}

bool releases(Order order) {
    return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

/// How an earlier event stands to the access.
struct Standing {
    std::uint32_t event = 0;
    bool ordered = false;
    bool same_epoch = false;  ///< same warp, no synchronisation between: the lane decides
    bool compatible = false;  ///< both strong: never a race
};

/// One call of `Observer::access`.
class Visit {
  public:
    Visit(LaunchState& launch, const Views& views, RunningBlock& block, const Access& access)
        : launch_(launch),
          views_(views),
          block_(block),
          warp_(block.warps[access.actor.warp]),
          access_(access),
          strength_(strength_of(access)),
          reads_(access.what != What::write && access.what != What::async_write),
          writes_(access.what != What::read && access.what != What::async_read),
          events_(access.space == Space::global || launch.cluster_blocks > 1 ? launch.events
                                                                             : block.events),
          lock_(launch.number) {}

    std::optional<Report> run() {
        event_ = event_of_access();
        strong_ = is_atomic_or_strong(strength_);
        if (strong_ && writes_) prepare_publication();
        for (std::uint32_t lanes = access_.actor.lanes; lanes != 0; lanes &= lanes - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
            const LaneAccess part{access_, lane, access_.addresses[lane], access_.bytes};
            if (auto report = access_.space == Space::shared ? shared(part) : global(part))
                return report;
        }
        lock_.release();
        return std::nullopt;
    }

  private:
    // Events.

    std::uint16_t place_index() {
        const std::uint64_t key = key_of(access_.place);
        auto& [known, index] = block_.places[(key ^ key >> 32) % block_.places.size()];
        if (known != key + 1) {
            index = launch_.intern(access_.place);
            known = key + 1;
        }
        return index;
    }

    std::uint32_t event_of_access() {
        const bool copy = strength_ == Strength::copy;
        const std::uint64_t key = key_of(access_.place) * 8 + static_cast<unsigned>(access_.what);
        KnownEvent& known = warp_.known_events[(key ^ key >> 35) % warp_.known_events.size()];
        warp_.used = true;
        if (!copy && known.instruction == key && known.events == &events_ &&
            known.time == warp_.time && known.strength == strength_)
            return known.event;
        const Time time = copy ? Event::under_way : warp_.time;
        const auto add = [&] {
            return events_.add(static_cast<std::uint32_t>(block_.index),
                               static_cast<std::uint8_t>(access_.actor.warp), time, place_index(),
                               strength_);
        };
        std::uint32_t event = add();
        if (event == 0 && &events_ == &block_.events) {
            block_.forget();
            event = add();
        }
        if (event == 0) return 0;
        if (copy)
            warp_.copies.push_back({&events_, event, access_.actor.lanes, groups_closed()});
        else
            known = {key, &events_, warp_.time, strength_, event};
        return event;
    }

    /// By the lanes, the fewest: a copy that seems older is waited for sooner.
    std::uint32_t groups_closed() const {
        std::uint32_t fewest = UINT32_MAX;
        for (std::uint32_t lanes = access_.actor.lanes; lanes != 0; lanes &= lanes - 1)
            fewest = std::min(fewest, warp_.groups[static_cast<unsigned>(std::countr_zero(lanes))]);
        return fewest;
    }

    const Standing& standing(std::uint32_t id) {
        Standing& known = standings_[id % standings_.size()];
        if (known.event != id) known = judge(id);
        return known;
    }

    Standing judge(std::uint32_t id) {
        const Event& event = events_.at(id);
        const Time time = event.time.load(std::memory_order_acquire);
        const bool same_block = event.block == block_.index;
        const unsigned member = event.member();
        const bool same_warp = same_block && member == access_.actor.warp;
        Standing result{id, false, false, false};
        result.compatible = is_atomic_or_strong(event.strength) && strong_ &&
                            (same_block || (reaches_other_blocks(event.strength) &&
                                            reaches_other_blocks(strength_)));
        if (time == Event::under_way) {
            result.compatible = same_warp && strength_ == Strength::copy;
        } else if (same_warp) {
            result.ordered = time < warp_.time;
            result.same_epoch = !result.ordered;
        } else if (same_block) {
            result.ordered = time <= warp_.own[member];
        } else {
            result.ordered = time <= launch_.clocks.known(warp_.foreign, event.block, member);
        }
        return result;
    }

    bool conflicts(Slot slot, unsigned common, unsigned lane, bool both_write) {
        const Standing& earlier = standing(slot.event());
        if (earlier.ordered || earlier.compatible) return false;
        if (!earlier.same_epoch) return true;
        // Values are not told: lanes of one store that write one address may write the same.
        if (both_write && slot.event() == event_) return false;
        return slot.others(lane, common);
    }

    // One lane.

    std::optional<Report> global(const LaneAccess& part) {
        ShadowedView* found = view_of(part);
        if (found == nullptr) return outside(launch_, views_, part);
        if (writes_ && !found->view.writable) return read_only(launch_, found->view, part);
        return words(part, found->shadow, &found->view);
    }

    std::optional<Report> shared(const LaneAccess& part) {
        if (part.address + part.bytes > launch_.shape.shared_bytes)
            return outside_shared(launch_, part);
        RunningBlock* owner =
            access_.shared_owner == block_.index ? &block_ : launch_.find(access_.shared_owner);
        if (owner == nullptr) return std::nullopt;
        return words(part, owner->shared, nullptr);
    }

    ShadowedView* view_of(const LaneAccess& part) {
        const auto holds = [&](const ShadowedView& each) {
            return part.address >= each.view.address && part.address + part.bytes <= each.end() &&
                   part.address + part.bytes >= part.address;
        };
        if (block_.last_view < views_.size() && holds(*views_[block_.last_view]))
            return views_[block_.last_view].get();
        const auto after = std::upper_bound(
            views_.begin(), views_.end(), part.address,
            [](std::uint64_t address, const auto& each) { return address < each->view.address; });
        if (after == views_.begin()) return nullptr;
        const auto index = static_cast<std::size_t>(after - views_.begin() - 1);
        if (!holds(*views_[index])) return nullptr;
        block_.last_view = index;
        return views_[index].get();
    }

    /// Whether the lane reads what two lanes of this call read already: then no third can find or
    /// leave anything.
    bool repeated(std::uint64_t address) {
        if (writes_ || strong_) return false;
        auto& [known, lanes] = read_already_[(address >> 2 ^ address >> 6) % read_already_.size()];
        if (known != address || lanes == 0) {
            known = address;
            lanes = 0;
        }
        return ++lanes > 2;
    }

    std::optional<Report> words(const LaneAccess& part, Shadow& shadow, const View* view) {
        if (repeated(part.address)) return std::nullopt;
        std::uint64_t address = part.address;
        const std::uint64_t end = address + part.bytes;
        while (address < end) {
            Page& page = page_of(address, shadow);
            const std::uint64_t stop = std::min(end, (address | 3) + 1);
            const auto offset = static_cast<unsigned>(address & 3);
            const unsigned mask = ((1U << (stop - address)) - 1) << offset;
            const auto word = static_cast<unsigned>(address >> 2 & (Page::words - 1));
            if (mask == 15 && (writes_ ? quick_write(page, word, part.lane)
                                       : quick_read(page, word, part.lane))) {
                if (strong_) synchronise(page, static_cast<std::uint16_t>(word));
                address = stop;
                continue;
            }
            const unsigned unwritten = mask & ~page.mask(word, Page::initialised);
            if (reads_ && unwritten != 0)
                return uninitialised(launch_, view, part,
                                     (address & ~std::uint64_t{3}) +
                                         static_cast<unsigned>(std::countr_zero(unwritten)));
            if (auto report = conflict(page, word, mask, part, view)) return report;
            enter(page, word, mask, part.lane);
            if (strong_) synchronise(page, static_cast<std::uint16_t>(word));
            address = stop;
        }
        return std::nullopt;
    }

    Page& page_of(std::uint64_t address, Shadow& shadow) {
        const std::uint64_t number = address >> Page::shift;
        if (page_ == nullptr || number != page_number_ || &shadow != page_shadow_) {
            page_ = &shadow.page(address);
            page_number_ = number;
            page_shadow_ = &shadow;
            lock_.hold(*page_);
        }
        return *page_;
    }

    // Whole words without conflicts, the common case. False: look closer.

    bool clear(Slot slot, unsigned lane) {
        const Standing& earlier = standing(slot.event());
        return earlier.ordered || earlier.compatible ||
               (earlier.same_epoch && slot.lanes() == Lanes::one && slot.lane() == lane);
    }

    /// Joins the readers of a slot of this event whose mask is `old`.
    bool quick_join(Slot& slot, unsigned old, unsigned lane) const {
        if (slot.event() != event_ || old != 15) return false;
        if (slot.lanes() == Lanes::several) return true;
        if (slot.lanes() != Lanes::one) return false;
        if (slot.lane() != lane) slot = Slot(event_, slot.lane(), Lanes::several);
        return true;
    }

    bool quick_read(Page& page, unsigned word, unsigned lane) {
        const unsigned bits = page.bits[word];
        if ((bits & 15U) != 15 || event_ == 0) return false;
        const Slot written = page.write[word];
        if (written.value != 0 && !clear(written, lane)) return false;
        Slot& first = page.read[word];
        if (quick_join(first, bits >> Page::was_read & 15U, lane) ||
            quick_join(page.other[word], bits >> Page::read_too & 15U, lane))
            return true;
        if (first.value != 0 && !standing(first.event()).ordered) return false;
        first = Slot(event_, lane, Lanes::one);
        page.bits[word] = static_cast<std::uint16_t>(bits | 15U << Page::was_read);
        return true;
    }

    bool quick_write(Page& page, unsigned word, unsigned lane) {
        const unsigned bits = page.bits[word];
        if (event_ == 0 || (reads_ && (bits & 15U) != 15)) return false;
        const Slot written = page.write[word], first = page.read[word], other = page.other[word];
        if (written.value != 0 && (written.event() == event_ || !clear(written, lane)))
            return false;
        if (first.value != 0 && !standing(first.event()).ordered) return false;
        if (other.value != 0 && !standing(other.event()).ordered) return false;
        page.write[word] = Slot(event_, lane, Lanes::one);
        page.read[word] = page.other[word] = {};
        page.bits[word] = 15U << Page::initialised | 15U << Page::written;
        return true;
    }

    // Races.

    std::optional<Report> conflict(Page& page, unsigned word, unsigned mask, const LaneAccess& part,
                                   const View* view) {
        const auto test = [&](Slot slot, unsigned which, bool wrote) {
            const unsigned common = page.mask(word, which) & mask;
            return slot.value != 0 && common != 0 &&
                   conflicts(slot, common, part.lane, wrote && writes_);
        };
        if (test(page.write[word], Page::written, true))
            return race_with(page.write[word], page.mask(word, Page::written) & mask, true, part,
                             view);
        if (!writes_) return std::nullopt;
        if (test(page.read[word], Page::was_read, false))
            return race_with(page.read[word], page.mask(word, Page::was_read) & mask, false, part,
                             view);
        if (test(page.other[word], Page::read_too, false))
            return race_with(page.other[word], page.mask(word, Page::read_too) & mask, false, part,
                             view);
        return std::nullopt;
    }

    std::optional<Report> race_with(Slot slot, unsigned common, bool wrote, const LaneAccess& part,
                                    const View* view) {
        const Event& event = events_.at(slot.event());
        Opponent other;
        other.block = event.block;
        other.warp = event.warp();
        other.lane = slot.lane_of(static_cast<unsigned>(std::countr_zero(common)));
        // Of several lanes, the one that acts now is not the other party.
        if (slot.lanes() == Lanes::several && standing(slot.event()).same_epoch &&
            other.lane == part.lane)
            other.lane = part.lane ^ 1U;
        other.place = launch_.place(event.place);
        other.strength = event.strength;
        other.wrote = wrote;
        other.under_way = event.time.load() == Event::under_way;
        lock_.release();
        return race(launch_, view, part, other);
    }

    void enter(Page& page, unsigned word, unsigned mask, unsigned lane) {
        if (!writes_) {
            if (event_ != 0) enter_read(page, word, mask, lane);
            return;
        }
        page.bits[word] |= static_cast<std::uint16_t>(mask << Page::initialised);
        if (event_ == 0) return;
        put(page.write, Page::written, page, word, mask, lane);
        forget_read(page.read, Page::was_read, page, word, mask);
        forget_read(page.other, Page::read_too, page, word, mask);
    }

    using Slots = std::array<Slot, Page::words>;

    /// Joins the slot's lanes if it is of this event; false: it cannot.
    bool join(Slots& slots, unsigned part, Page& page, unsigned word, unsigned mask,
              unsigned lane) {
        if (slots[word].event() != event_) return false;
        const unsigned old = page.mask(word, part);
        const auto both = merged(slots[word], old, lane, mask);
        if (!both) return false;
        slots[word] = *both;
        page.set_mask(word, part, old | mask);
        return true;
    }

    void put(Slots& slots, unsigned part, Page& page, unsigned word, unsigned mask, unsigned lane) {
        if (join(slots, part, page, word, mask, lane)) return;
        slots[word] = Slot(event_, lane, Lanes::one);
        page.set_mask(word, part, mask);
    }

    /// A read that is before a write needs no memory: what is unordered with it is unordered with
    /// the write too.
    void forget_read(Slots& slots, unsigned part, Page& page, unsigned word, unsigned mask) {
        if (slots[word].value == 0 || (page.mask(word, part) & ~mask) != 0) return;
        if (!standing(slots[word].event()).ordered) return;
        slots[word] = {};
        page.set_mask(word, part, 0);
    }

    /// Keeps two unordered reads of a word: of others that race with a write, one is then of
    /// another thread than the writer.
    void enter_read(Page& page, unsigned word, unsigned mask, unsigned lane) {
        const Slot first = page.read[word];
        if (first.value == 0 || replaceable(first, page.mask(word, Page::was_read), mask, lane)) {
            put(page.read, Page::was_read, page, word, mask, lane);
            return;
        }
        if (join(page.read, Page::was_read, page, word, mask, lane)) return;
        put(page.other, Page::read_too, page, word, mask, lane);
    }

    bool replaceable(Slot slot, unsigned old, unsigned mask, unsigned lane) {
        if (slot.event() == event_ || (old & ~mask) != 0) return false;
        const Standing& earlier = standing(slot.event());
        return earlier.ordered ||
               (earlier.same_epoch && slot.lanes() == Lanes::one && slot.lane() == lane);
    }

    // Release and acquire.

    void prepare_publication() {
        everywhere_ = warp_.released;
        in_block_ = warp_.released_in_block;
        if (!releases(access_.order)) return;
        // The access itself, whose event has the time so far, is part of what it releases.
        in_block_ = block_.release(launch_.clocks, warp_);
        if (reaches_other_blocks(strength_)) everywhere_ = in_block_;
    }

    void synchronise(Page& page, std::uint16_t word) {
        if (writes_ && (everywhere_ || in_block_)) publish(page, word);
        if (!reads_) return;
        if (!warp_.obtained.empty() && warp_.obtained.back().page == &page &&
            warp_.obtained.back().word == word)
            return;
        warp_.obtained.push_back(
            {&page, word, acquires(access_.order), !reaches_other_blocks(strength_)});
    }

    /// `clock` and what the access publishes everywhere.
    const Clock& joined(const Clock& clock) {
        if (!joined_ || join_from_ != clock) {
            join_from_ = clock;
            joined_ = launch_.clocks.join(clock, everywhere_);
        }
        return joined_;
    }

    /// Drops what blocks that have ended published to themselves, when it has become much.
    void forget_ended(Published& published) const {
        constexpr std::size_t much = 64;
        const std::size_t count = published.in_block.size();
        if (count < much || !std::has_single_bit(count)) return;
        std::erase_if(published.in_block,
                      [&](const auto& each) { return launch_.find(each.first) == nullptr; });
    }

    void publish(Page& page, std::uint16_t word) {
        if (!page.published)
            page.published = std::make_unique<std::map<std::uint16_t, Published>>();
        Published& published = (*page.published)[word];
        if (reaches_other_blocks(strength_)) published.everywhere = joined(published.everywhere);
        // What is known of other blocks, a narrow fence cannot take from what all are given.
        if (in_block_ &&
            (in_block_ != everywhere_ || !reaches_other_blocks(strength_) || warp_.foreign)) {
            Clock& own = published.in_block[block_.index];
            own = launch_.clocks.join(own, in_block_);
            forget_ended(published);
        }
        page.publishes.store(true, std::memory_order_release);
    }

    LaunchState& launch_;
    const Views& views_;
    RunningBlock& block_;
    Warp& warp_;
    const Access& access_;
    Strength strength_;
    bool reads_, writes_, strong_ = false;
    Events& events_;
    PageLock lock_;
    std::uint32_t event_ = 0;
    std::array<Standing, 16> standings_{};
    std::array<std::pair<std::uint64_t, unsigned>, 16> read_already_{};
    Clock join_from_, joined_;  ///< words often share what they publish
    Page* page_ = nullptr;
    std::uint64_t page_number_ = 0;
    const Shadow* page_shadow_ = nullptr;
    Clock everywhere_, in_block_;
};

}  // namespace

std::optional<Report> check(LaunchState& launch, const Views& views, RunningBlock& block,
                            const Access& access) {
    return Visit(launch, views, block, access).run();
}

}  // namespace kernelforge::emulator::checking
