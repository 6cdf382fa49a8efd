// SPDX-License-Identifier: Apache-2.0
#include "emulator/async_barrier.hpp"

namespace kernelforge::emulator {

namespace {

// Bits of the word: expected arrivals [0, 20), pending arrivals [20, 40), transactions [40, 61) as
// two's complement, parity of the running phase 61, and 10 in the top bits, by which memory that
// was never initialised (zero, or poison of equal bytes with other top bits) is told apart.
struct Fields {
    std::uint32_t expected = 0, pending = 0;
    std::int32_t transactions = 0;
    std::uint32_t parity = 0;
};

constexpr std::uint64_t mask_20 = most_barrier_count;
constexpr std::uint64_t mask_21 = (1U << 21) - 1;
constexpr std::uint64_t mark = 2;

constexpr const char* not_initialised = "is not initialised";

bool is_barrier(std::uint64_t word) {
    return word >> 62 == mark;
}

Fields unpack(std::uint64_t word) {
    Fields fields;
    fields.expected = static_cast<std::uint32_t>(word & mask_20);
    fields.pending = static_cast<std::uint32_t>(word >> 20 & mask_20);
    const auto raw = static_cast<std::int32_t>(word >> 40 & mask_21);
    fields.transactions = raw < (1 << 20) ? raw : raw - (1 << 21);
    fields.parity = static_cast<std::uint32_t>(word >> 61 & 1U);
    return fields;
}

std::uint64_t pack(const Fields& fields) {
    return static_cast<std::uint64_t>(fields.expected) |
           static_cast<std::uint64_t>(fields.pending) << 20 |
           (static_cast<std::uint64_t>(static_cast<std::int64_t>(fields.transactions)) & mask_21)
               << 40 |
           static_cast<std::uint64_t>(fields.parity) << 61 | mark << 62;
}

BarrierUpdate failed(std::uint64_t word, const char* error) {
    return {.word = word, .state = 0, .completed = false, .error = error};
}

// A phase ends when no arrival is pending and all transactions are complete.
BarrierUpdate finished(std::uint64_t before, Fields fields) {
    BarrierUpdate update;
    update.state = before;
    if (fields.pending == 0 && fields.transactions == 0) {
        fields.parity ^= 1U;
        fields.pending = fields.expected;
        update.completed = true;
    }
    update.word = pack(fields);
    return update;
}

const char* count_error(std::uint32_t count, const Fields& fields) {
    if (count == 0 || count > most_barrier_count) return "gets a count outside 1 to 2^20-1";
    if (count > fields.pending) return "gets more arrivals than its phase has pending";
    return nullptr;
}

}  // namespace

BarrierUpdate barrier_init(std::uint32_t count) noexcept {
    if (count == 0 || count > most_barrier_count) {
        return failed(0, "is initialised with a count outside 1 to 2^20-1");
    }
    return {.word = pack({.expected = count, .pending = count, .transactions = 0, .parity = 0})};
}

BarrierUpdate barrier_inval(std::uint64_t word) noexcept {
    if (!is_barrier(word)) return failed(word, not_initialised);
    return {};
}

BarrierUpdate barrier_arrive(std::uint64_t word, std::uint32_t count) noexcept {
    if (!is_barrier(word)) return failed(word, not_initialised);
    Fields fields = unpack(word);
    if (const char* error = count_error(count, fields)) return failed(word, error);
    fields.pending -= count;
    return finished(word, fields);
}

BarrierUpdate barrier_arrive_drop(std::uint64_t word, std::uint32_t count) noexcept {
    if (!is_barrier(word)) return failed(word, not_initialised);
    Fields fields = unpack(word);
    if (const char* error = count_error(count, fields)) return failed(word, error);
    if (count > fields.expected) return failed(word, "drops more arrivals than it expects");
    fields.pending -= count;
    fields.expected -= count;
    return finished(word, fields);
}

BarrierUpdate barrier_expect_tx(std::uint64_t word, std::uint32_t bytes) noexcept {
    if (!is_barrier(word)) return failed(word, not_initialised);
    Fields fields = unpack(word);
    const std::int64_t sum = std::int64_t{fields.transactions} + bytes;
    if (sum > static_cast<std::int64_t>(most_barrier_count)) {
        return failed(word, "expects more than 2^20-1 transactions");
    }
    fields.transactions = static_cast<std::int32_t>(sum);
    return {.word = pack(fields), .state = word};
}

BarrierUpdate barrier_complete_tx(std::uint64_t word, std::uint32_t bytes) noexcept {
    if (!is_barrier(word)) return failed(word, not_initialised);
    Fields fields = unpack(word);
    const std::int64_t left = std::int64_t{fields.transactions} - bytes;
    if (left < -static_cast<std::int64_t>(most_barrier_count)) {
        return failed(word, "completes more than 2^20-1 transactions that were not expected");
    }
    fields.transactions = static_cast<std::int32_t>(left);
    return finished(word, fields);
}

BarrierUpdate barrier_arrive_expect_tx(std::uint64_t word, std::uint32_t bytes) noexcept {
    const BarrierUpdate expected = barrier_expect_tx(word, bytes);
    if (expected.error != nullptr) return expected;
    BarrierUpdate update = barrier_arrive(expected.word, 1);
    if (update.error != nullptr) return failed(word, update.error);
    update.state = word;
    return update;
}

BarrierUpdate barrier_add_pending(std::uint64_t word) noexcept {
    if (!is_barrier(word)) return failed(word, not_initialised);
    Fields fields = unpack(word);
    if (fields.pending == most_barrier_count) {
        return failed(word, "has more than 2^20-1 pending arrivals");
    }
    ++fields.pending;
    return {.word = pack(fields), .state = word};
}

BarrierTest barrier_test(std::uint64_t word, std::uint64_t state) noexcept {
    if (!is_barrier(word)) return {.completed = false, .error = not_initialised};
    if (!is_barrier(state)) {
        return {.completed = false, .error = "is tested with a state that no arrival returned"};
    }
    return {.completed = unpack(word).parity != unpack(state).parity};
}

BarrierTest barrier_test_parity(std::uint64_t word, std::uint32_t parity) noexcept {
    if (!is_barrier(word)) return {.completed = false, .error = not_initialised};
    return {.completed = unpack(word).parity != (parity & 1U)};
}

std::uint32_t barrier_pending_count(std::uint64_t state) noexcept {
    return unpack(state).pending;
}

BarrierView view_barrier(std::uint64_t word) noexcept {
    const Fields fields = unpack(word);
    return {is_barrier(word), fields.parity, fields.expected, fields.pending, fields.transactions};
}

}  // namespace kernelforge::emulator
