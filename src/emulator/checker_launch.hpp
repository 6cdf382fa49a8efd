// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/checker.hpp"
#include "emulator/checker_block.hpp"
#include "emulator/checker_clock.hpp"
#include "emulator/checker_shadow.hpp"

// What the blocks of one launch share.

namespace kernelforge::emulator::checking {

/// One number for an instruction.
[[nodiscard]] constexpr std::uint64_t key_of(const Place& place) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(place.ptx_line)) << 32 |
           static_cast<std::uint32_t>(place.source_line);
}

/// A view with its shadow.
struct ShadowedView {
    ShadowedView(PagePool& pool, View described)
        : view(std::move(described)), shadow(pool, view.address, view.bytes, view.initialised) {}
    View view;
    Shadow shadow;
    [[nodiscard]] std::uint64_t end() const noexcept { return view.address + view.bytes; }
};

/// Watches a further range, unless a view holds it.
void add_view(PagePool& pool, std::vector<std::unique_ptr<ShadowedView>>& views, View view);

/// Views of a plan: sorted by address, none overlaps another.
[[nodiscard]] std::vector<std::unique_ptr<ShadowedView>> shadow(PagePool& pool,
                                                                std::vector<View> views);

class LaunchState {
  public:
    /// `pool` must outlive it.
    LaunchState(PagePool& pool, std::string kernel, const LaunchShape& shape, std::uint32_t number);
    ~LaunchState();
    LaunchState(const LaunchState&) = delete;
    LaunchState& operator=(const LaunchState&) = delete;

    std::string kernel;
    LaunchShape shape;
    std::uint32_t number;  ///< of the launch in the process's life, from 1
    unsigned warps = 1;    ///< of a block
    std::uint64_t cluster_blocks = 1;
    Clocks clocks;
    Events events;  ///< of global memory, and of the shared memory of clusters

    void open(std::uint64_t block);
    /// The blocks of a cluster live until its last one ends: others read their shared memory.
    void close(std::uint64_t block);
    /// Null: it has not begun or has ended.
    [[nodiscard]] RunningBlock* find(std::uint64_t block) const noexcept;
    [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_; }
    /// Index of a place; places beyond 2^16 share one.
    [[nodiscard]] std::uint16_t intern(const Place& place);
    [[nodiscard]] Place place(std::uint16_t index) const;
    /// A block's cluster, as a number.
    [[nodiscard]] std::uint64_t cluster_of(std::uint64_t block) const noexcept;

  private:
    static constexpr std::uint64_t chunk = 1024;
    using Chunk = std::array<std::atomic<RunningBlock*>, chunk>;
    Chunk& chunk_of(std::uint64_t block);

    PagePool& pool_;
    std::uint64_t blocks_;
    std::vector<std::atomic<Chunk*>> chunks_;
    mutable std::mutex mutex_;  ///< guards all below, and the making of chunks
    std::vector<std::unique_ptr<Chunk>> owned_;
    std::map<std::uint64_t, std::vector<std::uint64_t>> ended_;  ///< of clusters still running
    std::map<std::uint64_t, std::uint16_t> place_indices_;
    std::vector<Place> places_;
};

}  // namespace kernelforge::emulator::checking
