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

/// Bytes of lanes that follow one another, from `lane` on.
struct Range {
    unsigned lane = 0;
    std::uint64_t address = 0, bytes = 0;
    [[nodiscard]] std::uint64_t end() const noexcept { return address + bytes; }
};

/// `std::has_single_bit` would call a library where the processor is not known to count bits.
constexpr bool is_power_of_two(std::uint32_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

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
          lock_(launch.number),
          // What has no power of two as its size comes a lane at a time.
          lane_shift_(is_power_of_two(access.bytes)
                          ? static_cast<unsigned>(std::countr_zero(access.bytes))
                          : 31),
          lanes_of_word_(access.bytes == 1   ? Lanes::bytes
                         : access.bytes == 2 ? Lanes::halves
                                             : Lanes::one) {}

    std::optional<Report> run() {
        event_ = event_of_access();
        strong_ = is_atomic_or_strong(strength_);
        if (strong_ && writes_) prepare_publication();
        ++block_.accesses;
        if (&events_ == &block_.events) before_ = std::max(before_, warp_.known_before);
        if (access_.space == Space::shared) {
            RunningBlock* owner =
                access_.shared_owner == block_.index ? &block_ : launch_.find(access_.shared_owner);
            if (owner != nullptr) shared_ = &owner->shared;
        }
        for (std::uint32_t lanes = access_.actor.lanes; lanes != 0;) {
            const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
            const unsigned count = together(lane);
            if (!touch(lane, count)) return std::move(found_);
            lanes &= static_cast<std::uint32_t>(~std::uint64_t{0} << (lane + count));
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

    const Standing& standing(std::uint32_t id) { return last_->event == id ? *last_ : look_up(id); }

    const Standing& look_up(std::uint32_t id) {
        Standing& known = block_.standings[id % block_.standings.size()];
        if (known.event != id || known.access != block_.accesses) known = judge(id);
        last_ = &known;
        return known;
    }

    [[gnu::noinline]] Standing judge(std::uint32_t id) {
        const Event& event = events_.at(id);
        const Time time = event.time.load(std::memory_order_acquire);
        const bool same_block = event.block == block_.index;
        const unsigned member = event.member();
        const bool same_warp = same_block && member == access_.actor.warp;
        Standing result{block_.accesses, id, false, false, false};
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

    // Lanes.

    /// How many lanes from `lane` on, without a gap, have addresses that far apart.
    unsigned in_step(unsigned lane, std::uint64_t step) const {
        const std::uint64_t* const addresses = access_.addresses;
        const unsigned end =
            lane + static_cast<unsigned>(std::countr_one(access_.actor.lanes >> lane));
        unsigned next = lane + 1;
        while (next < end && addresses[next] == addresses[next - 1] + step) ++next;
        return next - lane;
    }

    /// How many lanes from `lane` on can be taken in one: they touch the same bytes, or bytes that
    /// follow one another and are whole words; or 1.
    unsigned together(unsigned lane) const {
        if (strong_ || (access_.actor.lanes >> lane & 2) == 0) return 1;
        const std::uint64_t address = access_.addresses[lane];
        const std::uint64_t step = access_.addresses[lane + 1] - address;
        if (step == 0 && !writes_) return in_step(lane, 0);
        if (step != access_.bytes || !is_power_of_two(access_.bytes) || (address & 3) != 0)
            return 1;
        const unsigned count = in_step(lane, step);
        if (access_.bytes >= 4) return count;
        const unsigned of_word = 4 / access_.bytes;
        return count < of_word ? 1 : count - count % of_word;
    }

    LaneAccess part(unsigned lane) const {
        return {access_, lane, access_.addresses[lane], access_.bytes};
    }

    /// Lanes `lane` to `lane + count - 1`, which are `together`. False: `found_` is set.
    bool touch(unsigned lane, unsigned count) {
        if (count > 1 && access_.addresses[lane] == access_.addresses[lane + 1])
            // Of lanes that read the same, a third can neither find nor leave anything.
            return touch(lane, 1) && touch(lane + 1, 1);
        return (count == 1 && single_word(lane)) || touch_range(lane, count);
    }

    /// What `touch_range` does, without its detours, where a lane reads or writes one word. False:
    /// nothing was done.
    bool single_word(unsigned lane) {
        const std::uint64_t address = access_.addresses[lane];
        if (access_.bytes != 4 || (address & 3) != 0 || strong_) return false;
        Shadow* shadow = shared_;
        if (access_.space == Space::shared) {
            if (shadow == nullptr || address + 4 > launch_.shape.shared_bytes) return false;
        } else {
            ShadowedView* view = view_of({lane, address, 4});
            if (view == nullptr || (writes_ && !view->view.writable)) return false;
            shadow = &view->shadow;
        }
        Page& page = page_of(address, *shadow);
        const Slot mine{event_, lane, Lanes::one};
        return writes_ ? quick_write(page, word_of(address), mine)
                       : quick_read(page, word_of(address), mine);
    }

    [[gnu::noinline]] bool touch_range(unsigned lane, unsigned count) {
        const Range range{lane, access_.addresses[lane], std::uint64_t{count} * access_.bytes};
        if (access_.space == Space::shared) {
            if (range.end() > launch_.shape.shared_bytes)
                return count > 1 ? singly(lane, count) : find(outside_shared(launch_, part(lane)));
            return shared_ == nullptr || words(range, *shared_, nullptr);
        }
        ShadowedView* view = view_of(range);
        if (view == nullptr)
            return count > 1 ? singly(lane, count) : find(outside(launch_, views_, part(lane)));
        if (writes_ && !view->view.writable)
            return find(read_only(launch_, view->view, part(lane)));
        return words(range, view->shadow, &view->view);
    }

    bool singly(unsigned lane, unsigned count) {
        for (unsigned i = 0; i < count; ++i)
            if (!touch_range(lane + i, 1)) return false;
        return true;
    }

    bool find(std::optional<Report> report) {
        found_ = std::move(report);
        return !found_;
    }

    ShadowedView* view_of(const Range& range) {
        const auto holds = [&](const ShadowedView& each) {
            return range.address >= each.view.address && range.end() <= each.end() &&
                   range.end() >= range.address;
        };
        if (block_.last_view < views_.size() && holds(*views_[block_.last_view]))
            return views_[block_.last_view].get();
        const auto after = std::upper_bound(
            views_.begin(), views_.end(), range.address,
            [](std::uint64_t address, const auto& each) { return address < each->view.address; });
        if (after == views_.begin()) return nullptr;
        const auto index = static_cast<std::size_t>(after - views_.begin() - 1);
        if (!holds(*views_[index])) return nullptr;
        block_.last_view = index;
        return views_[index].get();
    }

    bool words(const Range& range, Shadow& shadow, const View* view) {
        if (((range.address | range.bytes) & 3) != 0) return parts_of_words(range, shadow, view);
        std::uint64_t address = range.address;
        while (address < range.end()) {
            Page& page = page_of(address, shadow);
            const unsigned word = word_of(address);
            const auto count = static_cast<unsigned>(
                std::min<std::uint64_t>((range.end() - address) / 4, Page::words - word));
            if (!all_at_once(page, word, count, range, address) &&
                !one_by_one(page, word, count, range, address, view))
                return false;
            address += std::uint64_t{4} * count;
        }
        return true;
    }

    /// Of one lane.
    bool parts_of_words(const Range& range, Shadow& shadow, const View* view) {
        std::uint64_t address = range.address;
        while (address < range.end()) {
            Page& page = page_of(address, shadow);
            const std::uint64_t stop = std::min(range.end(), (address | 3) + 1);
            const unsigned mask = ((1U << (stop - address)) - 1) << (address & 3);
            if (!find(closely(page, address, mask, range.lane, view))) return false;
            if (strong_) synchronise(page, static_cast<std::uint16_t>(word_of(address)));
            address = stop;
        }
        return true;
    }

    bool one_by_one(Page& page, unsigned word, unsigned count, const Range& range,
                    std::uint64_t address, const View* view) {
        for (unsigned i = 0; i < count; ++i, ++word, address += 4) {
            const Slot mine = slot_of(range, address);
            if (!(writes_ ? quick_write(page, word, mine) : quick_read(page, word, mine)) &&
                !each_lane(page, address, mine.lane(), view))
                return false;
            if (strong_) synchronise(page, static_cast<std::uint16_t>(word));
        }
        return true;
    }

    /// The lanes of a whole word, of which `lane` is the first.
    bool each_lane(Page& page, std::uint64_t address, unsigned lane, const View* view) {
        const unsigned bytes = std::min(access_.bytes, 4U), mask = (1U << bytes) - 1;
        for (unsigned i = 0; i < 4 / bytes; ++i)
            if (!find(closely(page, address + i * bytes, mask << i * bytes, lane + i, view)))
                return false;
        return true;
    }

    /// Bytes `mask` of the word that `address` is in, by one lane.
    [[gnu::noinline]] std::optional<Report> closely(Page& page, std::uint64_t address,
                                                    unsigned mask, unsigned lane,
                                                    const View* view) {
        const unsigned word = word_of(address);
        const unsigned unwritten = mask & ~page.mask(word, Page::initialised);
        if (reads_ && unwritten != 0)
            return uninitialised(
                launch_, view, part(lane),
                (address & ~std::uint64_t{3}) + static_cast<unsigned>(std::countr_zero(unwritten)));
        if (auto report = conflict(page, word, mask, part(lane), view)) return report;
        enter(page, word, mask, lane);
        return std::nullopt;
    }

    static unsigned word_of(std::uint64_t address) {
        return static_cast<unsigned>(address >> 2 & (Page::words - 1));
    }

    /// What a whole word at `address` is to hold of the access.
    Slot slot_of(const Range& range, std::uint64_t address) const {
        const auto after = static_cast<unsigned>((address - range.address) >> lane_shift_);
        return {event_, range.lane + after, lanes_of_word_};
    }

    [[gnu::always_inline]] Page& page_of(std::uint64_t address, Shadow& shadow) {
        const std::uint64_t number = address >> Page::shift;
        if (page_ == nullptr || number != page_number_ || &shadow != page_shadow_) {
            page_ = &shadow.page(address);
            page_number_ = number;
            page_shadow_ = &shadow;
            if (&events_ == &block_.events) {
                page_->enter(launch_.number);
            } else {
                lock_.hold(*page_);
            }
        }
        return *page_;
    }

    // Whole words without conflicts, the common case. False: look closer.

    /// Whether what `slot` tells cannot conflict with a lane or lanes of this access.
    bool clear(Slot slot, Slot mine) {
        if (slot.event() < before_) return true;
        const Standing& earlier = standing(slot.event());
        return earlier.ordered || earlier.compatible ||
               (earlier.same_epoch && slot.same_lanes(mine));
    }

    /// Whether what is unordered with `slot` is unordered with `mine` too.
    bool replaced(Slot slot, Slot mine) {
        if (slot.event() < before_) return true;
        const Standing& earlier = standing(slot.event());
        return earlier.ordered || (earlier.same_epoch && slot.same_lanes(mine));
    }

    /// Joins the readers of a slot of this event whose mask is `old`.
    static bool quick_join(Slot& slot, unsigned old, Slot mine) {
        if (old != 15) return false;
        if (slot.value == mine.value || slot.lanes() == Lanes::several) return true;
        if (slot.lanes() != Lanes::one || mine.lanes() != Lanes::one) return false;
        slot = Slot(mine.event(), slot.lane(), Lanes::several);
        return true;
    }

    [[gnu::always_inline]] bool quick_read(Page& page, unsigned word, Slot mine) {
        const unsigned bits = page.bits[word];
        if ((bits & 15U) != 15 || event_ == 0 || !clear(page.write[word], mine)) return false;
        Slot &first = page.read[word], &other = page.other[word];
        if (first.event() == event_) return quick_join(first, bits >> Page::was_read & 15U, mine);
        if (replaced(first, mine)) {
            first = mine;
            page.bits[word] = static_cast<std::uint16_t>(bits | 15U << Page::was_read);
            return true;
        }
        // As `enter_read` would: the first reader stays, the last of the others is kept beside it.
        if (other.event() == event_) return quick_join(other, bits >> Page::read_too & 15U, mine);
        other = mine;
        page.bits[word] = static_cast<std::uint16_t>(bits | 15U << Page::read_too);
        return true;
    }

    bool quick_write(Page& page, unsigned word, Slot mine) {
        const Slot written = page.write[word];
        if (event_ == 0 || (reads_ && (page.bits[word] & 15U) != 15)) return false;
        if (written.event() == event_ || !clear(written, mine)) return false;
        if (!replaced(page.read[word], mine) || !replaced(page.other[word], mine)) return false;
        page.write[word] = mine;
        page.read[word] = page.other[word] = {};
        page.bits[word] = 15U << Page::initialised | 15U << Page::written;
        return true;
    }

    // Many whole words alike. False: take them one by one.

    using Slots = std::array<Slot, Page::words>;

    /// The event of all the slots, 0 where all are known to be before the access; nothing: there
    /// are several.
    std::optional<std::uint32_t> common_event(const Slots& slots, unsigned word,
                                              unsigned count) const {
        const Slot* const from = slots.data() + word;
        std::uint32_t latest = 0, differing = 0;
        for (unsigned i = 0; i < count; ++i) {
            latest = std::max(latest, from[i].value);
            differing |= from[i].value ^ from[0].value;
        }
        if (latest >> 7 < before_) return 0;
        if (differing >> 7 != 0) return std::nullopt;
        return from[0].event();
    }

    static bool all_initialised(const Page& page, unsigned word, unsigned count) {
        unsigned all = 15;
        for (unsigned i = 0; i < count; ++i) all &= page.bits[word + i];
        return all == 15;
    }

    static bool holds(const Slots& slots, unsigned word, unsigned count, std::uint32_t event) {
        bool any = false;
        for (unsigned i = 0; i < count; ++i) any = any || slots[word + i].event() == event;
        return any;
    }

    void fill(Slots& slots, unsigned word, unsigned count, const Range& range,
              std::uint64_t address) const {
        const std::uint32_t from = Slot(event_, range.lane, lanes_of_word_).value;
        const auto before = static_cast<std::uint32_t>(address - range.address);
        for (std::uint32_t i = 0; i < count; ++i)
            slots[word + i].value = from + ((before + 4 * i) >> lane_shift_ << 2);
    }

    bool all_at_once(Page& page, unsigned word, unsigned count, const Range& range,
                     std::uint64_t address) {
        constexpr unsigned few = 8;
        if (count < few || strong_ || event_ == 0) return false;
        const auto written = common_event(page.write, word, count);
        const auto first = common_event(page.read, word, count);
        if (!written || !first) return false;
        if (*written != 0 && !standing(*written).ordered && !standing(*written).compatible)
            return false;
        const bool replaces = *first == 0 || standing(*first).ordered;
        if (writes_) {
            const auto other = common_event(page.other, word, count);
            if (!replaces || !other || (*other != 0 && !standing(*other).ordered)) return false;
            fill(page.write, word, count, range, address);
            std::fill_n(page.read.begin() + word, count, Slot{});
            std::fill_n(page.other.begin() + word, count, Slot{});
            std::fill_n(page.bits.begin() + word, count,
                        std::uint16_t{15U << Page::initialised | 15U << Page::written});
            return true;
        }
        if (!all_initialised(page, word, count)) return false;
        if (!replaces && (standing(*first).same_epoch || holds(page.other, word, count, event_)))
            return false;
        fill(replaces ? page.read : page.other, word, count, range, address);
        const unsigned touched = 15U << (replaces ? Page::was_read : Page::read_too);
        for (unsigned i = 0; i < count; ++i)
            page.bits[word + i] = static_cast<std::uint16_t>(page.bits[word + i] | touched);
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
    Standing none_{};
    const Standing* last_ = &none_;  ///< that `standing` gave
    Shadow* shared_ = nullptr;       ///< of the owner of the shared memory, if it is there
    std::uint32_t before_ = 1;       ///< events with a smaller number are before the access
    unsigned lane_shift_;            ///< of a whole word's place in its range, to the lane's
    Lanes lanes_of_word_;
    std::optional<Report> found_;
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
