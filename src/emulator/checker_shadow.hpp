// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/checker_clock.hpp"

// Shadow memory: of every byte whether something wrote it, of every word of 4 bytes who wrote and
// read it last. 14 bytes a word, in pages that are made when they are touched.

namespace kernelforge::emulator::checking {

/// How strong an access is, in the sense of PTX's memory model; `block`: at the scope of a block.
enum class Strength : std::uint8_t { plain, strong_block, strong, atomic_block, atomic, copy };

/// Accesses that one instruction of one warp made between two synchronisations. Shared by threads
/// through the pages that name it.
struct Event {
    static constexpr Time under_way = UINT32_MAX;  ///< a copy that nothing has waited for

    std::uint32_t block = 0;
    std::uint16_t place = 0;  ///< index of the launch's places
    Strength strength = Strength::plain;
    std::atomic<std::uint8_t> actor{0};  ///< warp, and whether it acts for it
    std::atomic<Time> time{0};           ///< written after `actor`

    [[nodiscard]] unsigned warp() const noexcept { return actor.load() & ~agent; }
    /// As whom a clock orders it: a copy that an mbarrier completed is no warp's.
    [[nodiscard]] unsigned member() const noexcept {
        const unsigned who = actor.load();
        return (who & agent) != 0 ? copying_agent : who;
    }
    void hand_to_agent() noexcept { actor.fetch_or(agent); }

  private:
    static constexpr std::uint8_t agent = 128;
};

/// Events of a launch, or of one block's shared memory. Numbers start at 1. [any]
class Events {
  public:
    /// `capacity`: most events, less than 2^24, a multiple of `chunk`.
    explicit Events(std::uint32_t capacity);
    /// @returns 0: there is no room
    [[nodiscard]] std::uint32_t add(std::uint32_t block, std::uint8_t warp, Time time,
                                    std::uint16_t place, Strength strength);
    [[nodiscard]] Event& at(std::uint32_t id) noexcept {
        return (*chunks_[id / chunk].load(std::memory_order_acquire))[id % chunk];
    }
    /// Forgets all; nobody may hold a number.
    void clear() noexcept { used_.store(1); }
    /// The number that follows those of all events so far.
    [[nodiscard]] std::uint32_t next() const noexcept { return used_.load(); }

    static constexpr std::uint32_t chunk = 1024;

  private:
    std::uint32_t capacity_;
    std::atomic<std::uint32_t> used_{1};
    std::mutex mutex_;  ///< guards the making of chunks
    std::vector<std::unique_ptr<std::array<Event, chunk>>> owned_;
    std::unique_ptr<std::atomic<std::array<Event, chunk>*>[]> chunks_;
};

/// Which lanes of an event: one; consecutive ones, each of its half or byte of the word; or several
/// that touched the same bytes.
enum class Lanes : std::uint8_t { one, halves, bytes, several };

/// Event, lane and `Lanes` in 31 bits; 0 is none.
struct Slot {
    std::uint32_t value;  ///< left to who makes a page: `Page::renew` clears it
    Slot() = default;
    Slot(std::uint32_t event, unsigned lane, Lanes lanes)
        : value((event << 7) | (lane << 2) | static_cast<std::uint32_t>(lanes)) {}
    [[nodiscard]] std::uint32_t event() const noexcept { return value >> 7; }
    [[nodiscard]] unsigned lane() const noexcept { return (value >> 2) & 31; }
    [[nodiscard]] Lanes lanes() const noexcept { return static_cast<Lanes>(value & 3); }
    /// The lane that touched byte `byte` of the word; of several, one.
    [[nodiscard]] unsigned lane_of(unsigned byte) const noexcept;
    /// Whether both are of the same lane, or of the same lanes in the same places.
    [[nodiscard]] bool same_lanes(Slot slot) const noexcept {
        return ((value ^ slot.value) & 127) == 0 && lanes() != Lanes::several;
    }
    /// Whether a lane other than `lane` touched one of the bytes of `mask`.
    [[nodiscard]] bool others(unsigned lane, unsigned mask) const noexcept;
};

/// `slot`, which touched the bytes of `old`, and `lane` of the same event, which touches those of
/// `mask`, in one; nothing: a slot cannot say it.
[[nodiscard]] std::optional<Slot> merged(Slot slot, unsigned old, unsigned lane, unsigned mask);

/// What strong writes of a word, or the arrivals at an mbarrier, have published.
struct Published {
    Clock everywhere;
    std::map<std::uint64_t, Clock> in_block;  ///< by block, known to its threads only
};

/// Shadow of 1 KiB. Fields but `locked` are guarded by it; pages of shared memory that only its
/// block reaches need no guard. A new page has no contents: who makes it sets `bits`, and `enter`
/// clears the rest.
struct Page {
    static constexpr unsigned shift = 10, words = 256;
    /// Parts of `bits`, masks of the word's bytes.
    static constexpr unsigned initialised = 0, written = 4, was_read = 8, read_too = 12;

    std::atomic<bool> locked{false};
    std::atomic<bool> publishes{false};
    std::uint32_t launch = 0;  ///< that the slots are of; 0: of none
    std::unique_ptr<std::map<std::uint16_t, Published>> published;
    std::unique_ptr<Page> next;                  ///< in a `PagePool`
    std::array<Slot, words> write, read, other;  ///< `other`: a read by someone else
    std::array<std::uint16_t, words> bits;

    [[nodiscard]] unsigned mask(unsigned word, unsigned part) const noexcept {
        return (bits[word] >> part) & 15U;
    }
    void set_mask(unsigned word, unsigned part, unsigned mask) noexcept {
        bits[word] = static_cast<std::uint16_t>((bits[word] & ~(15U << part)) | (mask << part));
    }
    /// Drops what another launch left but which bytes are initialised.
    void enter(std::uint32_t current) noexcept {
        if (launch != current) renew(current);
    }
    void renew(std::uint32_t current) noexcept;
};

/// The promise of checker.hpp, with the page's entry in its `Shadow`.
static_assert(sizeof(Page) + sizeof(Page*) <= std::size_t{4} << Page::shift);

/// Pages that no shadow needs now, for those that come: making a page costs far more than clearing
/// one. Holds as many as were needed at once. [any]
class PagePool {
  public:
    PagePool() = default;
    ~PagePool();
    PagePool(const PagePool&) = delete;
    PagePool& operator=(const PagePool&) = delete;
    /// `number`: anything that tells pages apart which different threads want at the same time.
    /// @returns null: there is none
    [[nodiscard]] std::unique_ptr<Page> take(std::uint64_t number);
    /// Allocates nothing: it is where memory is given back when there is none left.
    void give(std::uint64_t number, std::unique_ptr<Page> page) noexcept;
    /// Whether pages are kept; false also frees those that are.
    void keep(bool pages) noexcept;

  private:
    struct Part {
        std::mutex mutex;  ///< guards `first` and what follows it
        std::unique_ptr<Page> first;
    };
    std::array<Part, 16> parts_;
    std::atomic<bool> keeps_{true};
};

/// Holds one page at a time. Not nested.
class PageLock {
  public:
    explicit PageLock(std::uint32_t launch) noexcept : launch_(launch) {}
    ~PageLock() { release(); }
    PageLock(const PageLock&) = delete;
    PageLock& operator=(const PageLock&) = delete;
    void hold(Page& page) noexcept {
        if (page_ == &page) return;
        release();
        take(page);
    }
    void release() noexcept {
        if (page_ != nullptr) page_->locked.store(false, std::memory_order_release);
        page_ = nullptr;
    }

  private:
    void take(Page& page) noexcept;
    std::uint32_t launch_;
    Page* page_ = nullptr;
};

/// Shadow of a range of addresses. [any]
class Shadow {
  public:
    /// `pool` must outlive it.
    Shadow(PagePool& pool, std::uint64_t address, std::uint64_t bytes, bool initialised);
    ~Shadow();
    Shadow(const Shadow&) = delete;
    Shadow& operator=(const Shadow&) = delete;
    /// The page that holds `address`, which must be in the range.
    [[nodiscard]] Page& page(std::uint64_t address) {
        std::atomic<Page*>& entry = pages_[(address >> Page::shift) - first_];
        Page* page = entry.load(std::memory_order_acquire);
        return page > untouched_written() ? *page : make(entry, page);
    }
    /// These bytes are initialised. Not while a launch runs.
    void written(std::uint64_t address, std::uint64_t bytes);
    /// Forgets who touched the words.
    void forget() noexcept;

  private:
    /// Stands for a page whose bytes are all initialised and that is not needed yet.
    static Page* untouched_written() noexcept { return reinterpret_cast<Page*>(1); }
    Page& make(std::atomic<Page*>& entry, Page* found);
    PagePool& pool_;
    std::uint64_t first_, count_;
    bool initialised_;
    std::unique_ptr<std::atomic<Page*>[]> pages_;
};

}  // namespace kernelforge::emulator::checking
