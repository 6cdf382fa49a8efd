// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/checker_access.hpp"
#include "emulator/checker_launch.hpp"

namespace kernelforge::emulator {

using checking::Clock;
using checking::LaunchState;
using checking::Page;
using checking::PageLock;
using checking::PagePool;
using checking::Published;
using checking::RunningBlock;
using checking::Warp;

struct Checker::State {
    PagePool pool;
    checking::Views views;
    std::unique_ptr<LaunchState> launch;
    std::uint32_t launches = 0;

    /// The acting warp, what its strong reads obtained looked up; null: it is not known.
    std::pair<RunningBlock*, Warp*> acting(const Actor& actor) const {
        RunningBlock* block = launch ? launch->find(actor.block) : nullptr;
        if (block == nullptr || actor.warp >= block->warps.size()) return {nullptr, nullptr};
        Warp& warp = block->warps[actor.warp];
        block->settle(launch->clocks, launch->number, warp);
        return {block, &warp};
    }

    /// What an mbarrier's arrivals have published: calls `use` with it under the page's lock.
    template <class Use>
    void at_mbarrier(std::uint64_t owner, std::uint64_t offset, const Use& use) const {
        RunningBlock* block = launch->find(owner);
        if (block == nullptr || offset + 8 > launch->shape.shared_bytes) return;
        Page& page = block->shared.page(offset);
        PageLock lock(launch->number);
        lock.hold(page);
        if (!page.published)
            page.published = std::make_unique<std::map<std::uint16_t, Published>>();
        use((*page.published)[static_cast<std::uint16_t>(offset >> 2 & (Page::words - 1))]);
    }

    void publish(std::uint64_t owner, std::uint64_t offset, const Clock& clock) const {
        at_mbarrier(owner, offset, [&](Published& published) {
            published.everywhere = launch->clocks.join(published.everywhere, clock);
        });
    }
};

Checker::Checker(const AddressSpace&) : state_(std::make_unique<State>()) {}
Checker::~Checker() = default;

void Checker::begin(std::vector<View> views) {
    state_->launch.reset();
    state_->views.clear();  // its pages are those that the new ones get
    state_->pool.keep(true);
    state_->views = checking::shadow(state_->pool, std::move(views));
}

void Checker::written(std::uint64_t address, std::uint64_t bytes) {
    const std::uint64_t end = address + bytes;
    for (const auto& each : state_->views) {
        const std::uint64_t from = std::max(address, each->view.address);
        const std::uint64_t to = std::min(end, each->end());
        if (from < to) each->shadow.written(from, to - from);
    }
}

void Checker::memory_ran_out() noexcept {
    state_->pool.keep(false);
}

void Checker::end() {
    state_->launch.reset();
    state_->views.clear();
}

void Checker::launch_begin(const Entry& entry, const LaunchShape& shape) {
    state_->launch =
        std::make_unique<LaunchState>(state_->pool, entry.name, shape, ++state_->launches);
    if (shape.grid_workspace_bytes == 0) return;
    checking::add_view(state_->pool, state_->views,
                       {shape.grid_workspace, shape.grid_workspace_bytes,
                        "the workspace of the grid", true, true});
}

void Checker::launch_end() {
    state_->launch.reset();
}

void Checker::block_begin(std::uint64_t block) {
    state_->launch->open(block);
}

void Checker::block_end(std::uint64_t block) {
    state_->launch->close(block);
}

std::optional<Report> Checker::access(const Access& access) {
    if (access.space != Space::global && access.space != Space::shared) return std::nullopt;
    const auto [block, warp] = state_->acting(access.actor);
    if (block == nullptr) return std::nullopt;
    return checking::check(*state_->launch, state_->views, *block, access);
}

void Checker::warp_sync(const Actor& actor) {
    const auto [block, warp] = state_->acting(actor);
    if (block != nullptr) block->advance(*warp);
}

void Checker::barrier_arrive(const Actor& actor, int id) {
    const auto [block, warp] = state_->acting(actor);
    if (block != nullptr) block->arrive(state_->launch->clocks, *warp, id);
}

void Checker::block_barrier(std::uint64_t index, int id, std::uint64_t warps,
                            std::uint64_t waiting) {
    RunningBlock* block = state_->launch->find(index);
    if (block == nullptr) return;
    LaunchState& launch = *state_->launch;
    for (std::uint64_t left = warps | waiting; left != 0; left &= left - 1)
        block->settle(launch.clocks, launch.number,
                      block->warps[static_cast<std::size_t>(std::countr_zero(left))]);
    block->barrier(launch.clocks, id, warps, waiting);
}

void Checker::cluster_barrier(std::span<const std::uint64_t> blocks) {
    LaunchState& launch = *state_->launch;
    Clock known, released;
    for (const std::uint64_t index : blocks) {
        RunningBlock* block = launch.find(index);
        if (block == nullptr) continue;
        for (Warp& warp : block->warps) block->settle(launch.clocks, launch.number, warp);
        known = launch.clocks.join(known, block->bring(launch.clocks));
        released = launch.clocks.join(released, block->warps.front().released);
    }
    for (const std::uint64_t index : blocks)
        if (RunningBlock* block = launch.find(index))
            block->receive(launch.clocks, known, released);
}

void Checker::fence(const Actor& actor, Order order, Scope scope) {
    const auto [block, warp] = state_->acting(actor);
    if (block != nullptr) block->fence(state_->launch->clocks, *warp, order, scope);
}

void Checker::mbarrier_arrive(const Actor& actor, std::uint64_t owner, std::uint64_t offset) {
    const auto [block, warp] = state_->acting(actor);
    if (block == nullptr) return;
    state_->publish(owner, offset, block->release(state_->launch->clocks, *warp));
}

void Checker::mbarrier_acquire(const Actor& actor, std::uint64_t owner, std::uint64_t offset) {
    const auto [block, warp] = state_->acting(actor);
    if (block == nullptr) return;
    Clock clock;
    state_->at_mbarrier(owner, offset, [&](Published& published) { clock = published.everywhere; });
    block->acquire(state_->launch->clocks, *warp, clock);
}

void Checker::async_done(const Actor& actor) {
    const auto [block, warp] = state_->acting(actor);
    if (block != nullptr) block->copies_done(*warp, actor.lanes, 0, false);
}

void Checker::async_commit(const Actor& actor) {
    const auto [block, warp] = state_->acting(actor);
    if (block == nullptr) return;
    for (std::uint32_t lanes = actor.lanes; lanes != 0; lanes &= lanes - 1)
        ++warp->groups[static_cast<std::size_t>(std::countr_zero(lanes))];
}

void Checker::async_done_but(const Actor& actor, std::uint32_t left) {
    const auto [block, warp] = state_->acting(actor);
    if (block != nullptr) block->copies_done(*warp, actor.lanes, left, true);
}

void Checker::async_done_at(const Actor& actor, std::uint64_t owner, std::uint64_t offset) {
    const auto [block, warp] = state_->acting(actor);
    if (block == nullptr) return;
    state_->publish(owner, offset, block->copies_to_agent(state_->launch->clocks, *warp));
}

}  // namespace kernelforge::emulator
