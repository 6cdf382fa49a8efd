// SPDX-License-Identifier: Apache-2.0
#include "emulator/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "kernelforge/error.hpp"

namespace kernelforge::emulator {

namespace {

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

using Spans = std::map<std::uint64_t, Span>;

/// Behind the whole mappings that follow one another from `first` to exactly the address `end`;
/// nothing where they do not.
std::optional<Spans::iterator> end_of_mappings(Spans& spans, Spans::iterator first,
                                               std::uint64_t end) {
    if (first == spans.end()) return std::nullopt;
    std::uint64_t reached = first->first;
    while (first != spans.end() && first->first == reached && reached < end) {
        reached = first->second.end;
        ++first;
    }
    if (reached != end) return std::nullopt;
    return first;
}

}  // namespace

Block::Block(std::size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw Error(ErrorCode::io,
                    "device memory: no host memory for " + std::to_string(bytes) + " bytes");
    }
    data_ = static_cast<std::byte*>(memory);
}

Block::~Block() {
    munmap(data_, std::max<std::size_t>(bytes_, 1));
}

std::uint64_t AddressSpace::reserve(std::size_t bytes, std::size_t alignment) {
    // The emulated space ends where a user's part of the host's address space would.
    constexpr std::uint64_t end_of_space = 0x7fff'0000'0000;
    if (bytes == 0 || bytes > end_of_space) return 0;
    const std::uint64_t unit = std::max<std::uint64_t>(alignment, granularity);
    const std::uint64_t size = rounded_up(bytes, granularity);
    std::uint64_t address = rounded_up(next_, unit);
    if (address + size + granularity > end_of_space) {
        // Look for a gap between what is still reserved.
        address = rounded_up(0x7f00'0000'0000, unit);
        for (const auto& [begin, length] : reserved_) {
            if (address + size + granularity <= begin) break;
            address = rounded_up(begin + length + granularity, unit);
        }
        if (address + size + granularity > end_of_space) return 0;
    } else {
        next_ = address + size + granularity;
    }
    reserved_[address] = size;
    return address;
}

void AddressSpace::release(std::uint64_t address) {
    reserved_.erase(address);
}

void AddressSpace::map(std::uint64_t address, std::size_t bytes, std::shared_ptr<Block> block,
                       std::size_t offset, bool writable) {
    Span span;
    span.begin = address;
    span.end = address + bytes;
    span.host = block->data() + offset;
    span.writable = writable;
    span.block = std::move(block);
    span.block_offset = offset;
    spans_[address] = std::move(span);
}

bool AddressSpace::set_writable(std::uint64_t address, std::size_t bytes, bool writable) {
    const auto first = spans_.find(address);
    const auto end = end_of_mappings(spans_, first, address + bytes);
    if (!end) return false;
    for (auto span = first; span != *end; ++span) span->second.writable = writable;
    return true;
}

bool AddressSpace::unmap(std::uint64_t address, std::size_t bytes) {
    const auto first = spans_.find(address);
    const auto end = end_of_mappings(spans_, first, address + bytes);
    if (!end) return false;
    spans_.erase(first, *end);
    return true;
}

const Span* AddressSpace::find(std::uint64_t address) const noexcept {
    const auto after = spans_.upper_bound(address);
    if (after == spans_.begin()) return nullptr;
    const Span& span = std::prev(after)->second;
    return address < span.end ? &span : nullptr;
}

std::byte* AddressSpace::host(std::uint64_t address, std::size_t bytes) const noexcept {
    const Span* span = find(address);
    if (span == nullptr || span->end - address < bytes) return nullptr;
    return span->host + (address - span->begin);
}

std::size_t AddressSpace::bytes() const noexcept {
    std::set<const Block*> seen;
    std::size_t total = 0;
    for (const auto& [begin, span] : spans_) {
        if (seen.insert(span.block.get()).second) total += span.block->bytes();
    }
    return total;
}

}  // namespace kernelforge::emulator
