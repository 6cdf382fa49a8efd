// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// mbarrier objects: 8 bytes of shared memory with an encoding of our own. The functions are pure,
// from the old word to the new one; `update_barrier` applies one to memory.

namespace kernelforge::emulator {

/// Most arrivals that a barrier can expect, and the bound of its count of transactions (PTX ISA
/// 9.0, "Contents of the mbarrier object").
inline constexpr std::uint32_t most_barrier_count = (1U << 20) - 1;

struct BarrierUpdate {
    std::uint64_t word = 0;   ///< new contents; the old ones after an error
    std::uint64_t state = 0;  ///< for arrivals: the opaque state, of before the arrival
    bool completed = false;   ///< a phase ended: waiters of it may go on
    /// Null, or what is wrong, as the rest of a sentence about the barrier: "is not initialised".
    const char* error = nullptr;
};

[[nodiscard]] BarrierUpdate barrier_init(std::uint32_t count) noexcept;
/// Afterwards the word is not a barrier.
[[nodiscard]] BarrierUpdate barrier_inval(std::uint64_t word) noexcept;
[[nodiscard]] BarrierUpdate barrier_arrive(std::uint64_t word, std::uint32_t count) noexcept;
/// Arrives and expects `count` fewer arrivals from the next phase on.
[[nodiscard]] BarrierUpdate barrier_arrive_drop(std::uint64_t word, std::uint32_t count) noexcept;
[[nodiscard]] BarrierUpdate barrier_expect_tx(std::uint64_t word, std::uint32_t bytes) noexcept;
[[nodiscard]] BarrierUpdate barrier_complete_tx(std::uint64_t word, std::uint32_t bytes) noexcept;
[[nodiscard]] BarrierUpdate barrier_arrive_expect_tx(std::uint64_t word,
                                                     std::uint32_t bytes) noexcept;
/// What cp.async.mbarrier.arrive without .noinc does when it is issued: one more pending arrival of
/// this phase, which its completion then makes.
[[nodiscard]] BarrierUpdate barrier_add_pending(std::uint64_t word) noexcept;

struct BarrierTest {
    bool completed = false;
    const char* error = nullptr;
};
/// Whether the phase of a state that an arrival returned has ended.
[[nodiscard]] BarrierTest barrier_test(std::uint64_t word, std::uint64_t state) noexcept;
/// Whether the phase with that parity has ended, the running one or the one before it; only the
/// lowest bit of `parity` counts.
[[nodiscard]] BarrierTest barrier_test_parity(std::uint64_t word, std::uint32_t parity) noexcept;
/// mbarrier.pending_count of a state.
[[nodiscard]] std::uint32_t barrier_pending_count(std::uint64_t state) noexcept;

/// For messages.
struct BarrierView {
    bool initialised = false;
    std::uint32_t phase_parity = 0, expected = 0, pending = 0;
    std::int32_t transactions = 0;
};
[[nodiscard]] BarrierView view_barrier(std::uint64_t word) noexcept;

/// Applies `change` (from a word to a BarrierUpdate) to the barrier at `memory`, aligned to 8, as
/// one atomic step. [any]
template <class Change>
BarrierUpdate update_barrier(std::byte* memory, const Change& change) {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(memory));
    std::uint64_t old = word.load();
    while (true) {
        const BarrierUpdate update = change(old);
        if (update.error != nullptr || word.compare_exchange_weak(old, update.word)) return update;
    }
}

}  // namespace kernelforge::emulator
