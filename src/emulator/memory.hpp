// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

// Device memory: virtual addresses, host memory behind them.

namespace kernelforge::emulator {

/// Host memory behind one physical allocation; committed by the kernel when it is touched.
class Block {
  public:
    /// @throws Error io (no memory)
    explicit Block(std::size_t bytes);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

/// A mapped range.
struct Span {
    std::uint64_t begin = 0, end = 0;
    std::byte* host = nullptr;  ///< of `begin`
    bool writable = true;
    std::shared_ptr<Block> block;
    std::size_t block_offset = 0;
};

/// The global address space. Changes come from one thread, and never during a launch; `find` may
/// then be called by many. Addresses start at 0x7f00'0000'0000 upward, aligned to 2 MiB for
/// reservations.
class AddressSpace {
  public:
    static constexpr std::uint64_t granularity = std::uint64_t{2} << 20;
    /// Windows of the generic space (`cvta`). A shared address is an offset below 2^24, plus
    /// (rank + 1) << 24 for another block of the cluster.
    static constexpr std::uint64_t shared_window = 0x7e00'0000'0000,
                                   shared_window_bytes = 1ULL << 32;
    static constexpr std::uint64_t local_window = 0x7d00'0000'0000, local_window_bytes = 1ULL << 32;

    /// A range of addresses of its own with an unmapped gap behind. @returns 0: no space left
    [[nodiscard]] std::uint64_t reserve(std::size_t bytes, std::size_t alignment = granularity);
    void release(std::uint64_t address);
    void map(std::uint64_t address, std::size_t bytes, std::shared_ptr<Block> block,
             std::size_t offset, bool writable);
    /// False: no such mapping.
    bool set_writable(std::uint64_t address, std::size_t bytes, bool writable);
    bool unmap(std::uint64_t address, std::size_t bytes);
    /// The mapping that holds `address`, else null. [any]
    [[nodiscard]] const Span* find(std::uint64_t address) const noexcept;
    /// Host memory of a whole range inside one mapping; null otherwise.
    [[nodiscard]] std::byte* host(std::uint64_t address, std::size_t bytes) const noexcept;
    /// Mapped bytes, each block once.
    [[nodiscard]] std::size_t bytes() const noexcept;

  private:
    std::map<std::uint64_t, Span> spans_;  // by begin
    std::map<std::uint64_t, std::size_t> reserved_;
    std::uint64_t next_ = 0x7f00'0000'0000;
};

}  // namespace kernelforge::emulator
