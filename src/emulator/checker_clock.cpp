// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker_clock.hpp"

#include <algorithm>
#include <array>

namespace kernelforge::emulator::checking {

namespace {

constexpr unsigned fan_out_bits = 4, fan_out = 1U << fan_out_bits;

}  // namespace

/// Either inner or leaf; the level tells which.
struct ClockNode {};

namespace {

struct Inner : ClockNode {
    std::array<Clock, fan_out> children;
};

struct Leaf : ClockNode {
    explicit Leaf(Times known) : times(std::move(known)) {}
    Times times;
};

const Inner& inner(const Clock& node) {
    return static_cast<const Inner&>(*node);
}
const Times& times_of(const Clock& node) {
    return static_cast<const Leaf&>(*node).times;
}

unsigned child_at(std::uint64_t block, unsigned level) {
    return static_cast<unsigned>(block >> ((level - 1) * fan_out_bits)) & (fan_out - 1);
}

Clock join_leaves(const Clock& a, const Clock& b) {
    const std::array<Time, members> x = times_of(a).all(), y = times_of(b).all();
    Times result;
    result.base = std::max(times_of(a).base, times_of(b).base);
    bool as_a = true, as_b = true;
    for (unsigned i = 0; i < members; ++i) {
        const Time time = std::max(x[i], y[i]);
        as_a = as_a && time == x[i];
        as_b = as_b && time == y[i];
        if (time != result.base) result.beyond.emplace_back(static_cast<std::uint8_t>(i), time);
    }
    if (as_a) return a;
    if (as_b) return b;
    return std::make_shared<Leaf>(std::move(result));
}

Clock join_at(const Clock& a, const Clock& b, unsigned level) {
    if (a == b || !b) return a;
    if (!a) return b;
    if (level == 0) return join_leaves(a, b);
    std::shared_ptr<Inner> result;  // made where the two differ from `a`
    bool as_b = true;
    for (unsigned i = 0; i < fan_out; ++i) {
        const Clock &x = inner(a).children[i], &y = inner(b).children[i];
        Clock joined = join_at(x, y, level - 1);
        as_b = as_b && joined == y;
        if (joined == x) continue;
        if (!result) result = std::make_shared<Inner>(inner(a));
        result->children[i] = std::move(joined);
    }
    if (!result) return a;
    if (as_b) return b;
    return result;
}

Clock with_at(const Clock& node, std::uint64_t block, Times&& times, unsigned level) {
    if (level == 0) return std::make_shared<Leaf>(std::move(times));
    auto result = node ? std::make_shared<Inner>(inner(node)) : std::make_shared<Inner>();
    Clock& child = result->children[child_at(block, level)];
    child = with_at(child, block, std::move(times), level - 1);
    return result;
}

}  // namespace

Time Times::of(unsigned member) const noexcept {
    for (const auto& [who, time] : beyond)
        if (who == member) return time;
    return base;
}

std::array<Time, members> Times::all() const noexcept {
    std::array<Time, members> times{};
    times.fill(base);
    for (const auto& [who, time] : beyond) times[who] = time;
    return times;
}

Clocks::Clocks(std::uint64_t blocks) {
    while (levels_ * fan_out_bits < 64 && (blocks - 1) >> (levels_ * fan_out_bits) != 0) ++levels_;
}

const Times* Clocks::find(const Clock& clock, std::uint64_t block) const {
    const Clock* node = &clock;
    for (unsigned level = levels_; level > 0 && *node; --level)
        node = &inner(*node).children[child_at(block, level)];
    return *node ? &times_of(*node) : nullptr;
}

Time Clocks::known(const Clock& clock, std::uint64_t block, unsigned member) const {
    const Times* times = find(clock, block);
    return times == nullptr ? 0 : times->of(member);
}

Clock Clocks::join(const Clock& a, const Clock& b) const {
    return join_at(a, b, levels_);
}

Clock Clocks::with(const Clock& clock, std::uint64_t block, Times times) const {
    return with_at(clock, block, std::move(times), levels_);
}

}  // namespace kernelforge::emulator::checking
