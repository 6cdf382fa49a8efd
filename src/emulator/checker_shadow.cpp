// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker_shadow.hpp"

#include <algorithm>
#include <thread>

namespace kernelforge::emulator::checking {

Events::Events(std::uint32_t capacity)
    : capacity_(capacity),
      chunks_(std::make_unique<std::atomic<std::array<Event, chunk>*>[]>(capacity / chunk)) {}

std::uint32_t Events::add(std::uint32_t block, std::uint8_t warp, Time time, std::uint16_t place,
                          Strength strength) {
    if (used_.load(std::memory_order_relaxed) >= capacity_) return 0;
    const std::uint32_t id = used_.fetch_add(1, std::memory_order_relaxed);
    if (id >= capacity_) return 0;
    auto& entry = chunks_[id / chunk];
    if (entry.load(std::memory_order_acquire) == nullptr) {
        const std::scoped_lock lock(mutex_);
        if (entry.load(std::memory_order_relaxed) == nullptr) {
            owned_.push_back(std::make_unique<std::array<Event, chunk>>());
            entry.store(owned_.back().get(), std::memory_order_release);
        }
    }
    Event& event = at(id);
    event.block = block;
    event.place = place;
    event.strength = strength;
    event.actor.store(warp, std::memory_order_relaxed);
    event.time.store(time, std::memory_order_relaxed);
    return id;
}

unsigned Slot::lane_of(unsigned byte) const noexcept {
    switch (lanes()) {
        case Lanes::halves:
            return lane() + byte / 2;
        case Lanes::bytes:
            return lane() + byte;
        case Lanes::one:
        case Lanes::several:
            break;
    }
    return lane();
}

bool Slot::others(unsigned lane, unsigned mask) const noexcept {
    if (lanes() == Lanes::several) return true;
    if (lanes() == Lanes::one) return this->lane() != lane;
    for (unsigned byte = 0; byte < 4; ++byte)
        if ((mask >> byte & 1U) != 0 && lane_of(byte) != lane) return true;
    return false;
}

namespace {

/// Lane of the word's first byte where consecutive lanes touch its halves (`size` 2) or bytes (1),
/// and `lane` those of `mask`; nothing: that is not how they lie.
std::optional<unsigned> first_lane(unsigned lane, unsigned mask, unsigned size) {
    const unsigned unit = (1U << size) - 1;
    for (unsigned position = 0; position < 4 / size; ++position)
        if (mask == unit << (position * size) && lane >= position) return lane - position;
    return std::nullopt;
}

}  // namespace

std::optional<Slot> merged(Slot slot, unsigned old, unsigned lane, unsigned mask) {
    const Lanes lanes = slot.lanes();
    if (lanes == Lanes::several) return (mask & ~old) == 0 ? std::optional(slot) : std::nullopt;
    if (lanes == Lanes::one && slot.lane() == lane) return slot;
    if (lanes == Lanes::one && old == mask) return Slot(slot.event(), slot.lane(), Lanes::several);
    for (const unsigned size : {2U, 1U}) {
        const Lanes split = size == 2 ? Lanes::halves : Lanes::bytes;
        if (lanes != Lanes::one && lanes != split) continue;
        const auto first = first_lane(lane, mask, size);
        const auto had = lanes == Lanes::one ? first_lane(slot.lane(), old, size) : slot.lane();
        if (first && had && *first == *had) return Slot(slot.event(), *first, split);
    }
    return std::nullopt;
}

void Page::renew(std::uint32_t current) noexcept {
    launch = current;
    published.reset();
    publishes.store(false, std::memory_order_relaxed);
    write.fill(Slot{});
    read.fill(Slot{});
    other.fill(Slot{});
    for (std::uint16_t& word : bits) word &= 15U;
}

void PageLock::take(Page& page) noexcept {
    for (unsigned tries = 0; page.locked.exchange(true, std::memory_order_acquire); ++tries)
        if (tries > 64) std::this_thread::yield();
    page_ = &page;
    page.enter(launch_);
}

std::unique_ptr<Page> PagePool::take(std::uint64_t number) {
    Part& part = parts_[number % parts_.size()];
    const std::scoped_lock lock(part.mutex);
    if (!part.first) return nullptr;
    std::unique_ptr<Page> page = std::move(part.first);
    part.first = std::move(page->next);
    return page;
}

void PagePool::give(std::uint64_t number, std::unique_ptr<Page> page) noexcept {
    if (!keeps_) return;
    Part& part = parts_[number % parts_.size()];
    const std::scoped_lock lock(part.mutex);
    page->next = std::move(part.first);
    part.first = std::move(page);
}

PagePool::~PagePool() {
    keep(false);
}

void PagePool::keep(bool pages) noexcept {
    keeps_ = pages;
    if (pages) return;
    // One by one: a list of owners would be destroyed by recursion.
    for (Part& part : parts_) {
        const std::scoped_lock lock(part.mutex);
        while (part.first) part.first = std::move(part.first->next);
    }
}

Shadow::Shadow(PagePool& pool, std::uint64_t address, std::uint64_t bytes, bool initialised)
    : pool_(pool),
      first_(address >> Page::shift),
      count_(bytes == 0 ? 0 : ((address + bytes - 1) >> Page::shift) - first_ + 1),
      initialised_(initialised),
      pages_(std::make_unique<std::atomic<Page*>[]>(count_)) {}

Shadow::~Shadow() {
    for (std::uint64_t i = 0; i < count_; ++i)
        if (Page* page = pages_[i].load(); page > untouched_written())
            pool_.give(i, std::unique_ptr<Page>{page});
}

Page& Shadow::make(std::atomic<Page*>& entry, Page* found) {
    const auto number = static_cast<std::uint64_t>(&entry - pages_.get());
    std::unique_ptr<Page> made = pool_.take(number);
    if (!made) made = std::make_unique_for_overwrite<Page>();
    made->launch = 0;
    made->bits.fill(initialised_ || found == untouched_written() ? 15 : 0);
    if (entry.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel))
        return *made.release();
    pool_.give(number, std::move(made));
    return *found;
}

void Shadow::written(std::uint64_t address, std::uint64_t bytes) {
    if (initialised_) return;
    constexpr std::uint64_t page_bytes = std::uint64_t{1} << Page::shift;
    const std::uint64_t end = address + bytes;
    while (address < end) {
        const std::uint64_t stop = std::min(end, (address | (page_bytes - 1)) + 1);
        std::atomic<Page*>& entry = pages_[(address >> Page::shift) - first_];
        if (stop - address == page_bytes && entry.load() <= untouched_written()) {
            entry.store(untouched_written());
            address = stop;
            continue;
        }
        Page& touched = page(address);
        for (; address < stop; ++address)
            touched.bits[address >> 2 & (Page::words - 1)] |=
                static_cast<std::uint16_t>(1U << (address & 3));
    }
}

void Shadow::forget() noexcept {
    for (std::uint64_t i = 0; i < count_; ++i)
        if (Page* page = pages_[i].load(); page > untouched_written()) page->renew(page->launch);
}

}  // namespace kernelforge::emulator::checking
