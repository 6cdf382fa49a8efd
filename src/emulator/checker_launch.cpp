// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker_launch.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kernelforge::emulator::checking {

namespace {

/// Of global memory; more are not watched for races. At most 192 MiB.
constexpr std::uint32_t most_events = (1U << 24) - Events::chunk;

std::uint64_t product(const std::array<std::uint32_t, 3>& extent) {
    return std::uint64_t{extent[0]} * extent[1] * extent[2];
}

}  // namespace

std::vector<std::unique_ptr<ShadowedView>> shadow(PagePool& pool, std::vector<View> views) {
    std::erase_if(views, [](const View& view) { return view.bytes == 0; });
    std::stable_sort(views.begin(), views.end(),
                     [](const View& a, const View& b) { return a.address < b.address; });
    std::vector<View> apart;
    for (View& view : views) {
        if (apart.empty() || view.address >= apart.back().address + apart.back().bytes) {
            apart.push_back(std::move(view));
            continue;
        }
        View& before = apart.back();
        before.bytes =
            std::max(before.address + before.bytes, view.address + view.bytes) - before.address;
        before.writable = before.writable || view.writable;
        before.initialised = before.initialised || view.initialised;
    }
    std::vector<std::unique_ptr<ShadowedView>> shadowed;
    for (View& view : apart)
        shadowed.push_back(std::make_unique<ShadowedView>(pool, std::move(view)));
    return shadowed;
}

void add_view(PagePool& pool, std::vector<std::unique_ptr<ShadowedView>>& views, View view) {
    const auto after = std::upper_bound(
        views.begin(), views.end(), view.address,
        [](std::uint64_t address, const auto& each) { return address < each->view.address; });
    if (after != views.begin() && (*std::prev(after))->end() > view.address) return;
    views.insert(after, std::make_unique<ShadowedView>(pool, std::move(view)));
}

LaunchState::LaunchState(PagePool& pool, std::string name, const LaunchShape& launched,
                         std::uint32_t launch)
    : kernel(std::move(name)),
      shape(launched),
      number(launch),
      warps(static_cast<unsigned>((product(launched.block) + 31) / 32)),
      cluster_blocks(product(launched.cluster)),
      clocks(product(launched.grid)),
      events(most_events),
      pool_(pool),
      blocks_(product(launched.grid)),
      chunks_((blocks_ + chunk - 1) / chunk) {}

LaunchState::~LaunchState() {
    for (std::atomic<Chunk*>& entries : chunks_) {
        if (entries.load() == nullptr) continue;
        for (std::atomic<RunningBlock*>& block : *entries.load())
            std::unique_ptr<RunningBlock>{block.load()}.reset();
    }
}

LaunchState::Chunk& LaunchState::chunk_of(std::uint64_t block) {
    std::atomic<Chunk*>& entry = chunks_[block / chunk];
    if (Chunk* found = entry.load(std::memory_order_acquire)) return *found;
    const std::scoped_lock lock(mutex_);
    if (Chunk* found = entry.load(std::memory_order_relaxed)) return *found;
    owned_.push_back(std::make_unique<Chunk>());
    entry.store(owned_.back().get(), std::memory_order_release);
    return *owned_.back();
}

void LaunchState::open(std::uint64_t block) {
    auto begun = std::make_unique<RunningBlock>(pool_, block, warps, shape.shared_bytes);
    std::unique_ptr<RunningBlock>{
        chunk_of(block)[block % chunk].exchange(begun.release(), std::memory_order_acq_rel)}
        .reset();
}

void LaunchState::close(std::uint64_t block) {
    std::vector<std::uint64_t> gone{block};
    if (cluster_blocks > 1) {
        const std::scoped_lock lock(mutex_);
        std::vector<std::uint64_t>& ended = ended_[cluster_of(block)];
        ended.push_back(block);
        if (ended.size() < cluster_blocks) return;
        gone = std::move(ended);
        ended_.erase(cluster_of(block));
    }
    for (const std::uint64_t each : gone)
        std::unique_ptr<RunningBlock>{
            chunk_of(each)[each % chunk].exchange(nullptr, std::memory_order_acq_rel)}
            .reset();
}

RunningBlock* LaunchState::find(std::uint64_t block) const noexcept {
    if (block >= blocks_) return nullptr;
    const Chunk* entries = chunks_[block / chunk].load(std::memory_order_acquire);
    return entries == nullptr ? nullptr : (*entries)[block % chunk].load(std::memory_order_acquire);
}

std::uint16_t LaunchState::intern(const Place& place) {
    const std::scoped_lock lock(mutex_);
    const auto next = static_cast<std::uint16_t>(std::min<std::size_t>(places_.size(), UINT16_MAX));
    const auto [entry, inserted] = place_indices_.try_emplace(key_of(place), next);
    if (inserted && places_.size() <= UINT16_MAX) places_.push_back(place);
    return entry->second;
}

Place LaunchState::place(std::uint16_t index) const {
    const std::scoped_lock lock(mutex_);
    return places_[index];
}

std::uint64_t LaunchState::cluster_of(std::uint64_t block) const noexcept {
    const auto &grid = shape.grid, &cluster = shape.cluster;
    const std::uint64_t x = block % grid[0] / cluster[0],
                        y = block / grid[0] % grid[1] / cluster[1],
                        z = block / grid[0] / grid[1] / cluster[2];
    return x +
           (std::uint64_t{grid[0]} / cluster[0]) * (y + (std::uint64_t{grid[1]} / cluster[1]) * z);
}

}  // namespace kernelforge::emulator::checking
