// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_memory.hpp"

#include <sys/random.h>

#include <algorithm>
#include <utility>

namespace kernelforge::worker {

namespace {

constexpr std::size_t waste_factor = 4;
constexpr std::size_t small_bytes = std::size_t{64} << 20;
/// Addresses are plenty: 128 MiB of them a mapping at most, with pages of 2 MiB.
constexpr std::uint32_t most_front_guards = 64;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

/// Without a seed on purpose: where memory lies must not be known to what runs in it.
std::uint32_t random_below(std::uint32_t limit) {
    std::uint32_t word = 0;
    if (::getrandom(&word, sizeof(word), 0) != static_cast<ssize_t>(sizeof(word))) {
        throw Error(ErrorCode::io, "getrandom gave no random number");
    }
    return word % limit;
}

CUmemAllocationProp properties(CUdevice device) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

}  // namespace

Region::Region(const Driver& driver, CUdevice device, std::size_t bytes)
    : driver_(driver), device_(device) {
    const CUmemAllocationProp prop = properties(device);
    driver_.check(driver_.cuMemGetAllocationGranularity(&granularity_, &prop,
                                                        CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  "cuMemGetAllocationGranularity");
    capacity_ = round_up(std::max<std::size_t>(bytes, 1), granularity_);
    try {
        driver_.check(driver_.cuMemCreate(&handle_, capacity_, &prop, 0),
                      "cuMemCreate of " + std::to_string(capacity_) + " bytes");
        created_ = true;
        map(writable_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    } catch (...) {
        release();
        throw;
    }
}

Region::~Region() {
    release();
}

CUdeviceptr Region::read_only_base() {
    if (!read_only_.mapped) {
        try {
            map(read_only_, CU_MEM_ACCESS_FLAGS_PROT_READ);
        } catch (...) {
            unmap(read_only_);
            throw;
        }
    }
    return read_only_.base;
}

void Region::map(Mapping& mapping, CUmemAccess_flags access) {
    const std::size_t front = granularity_ * (1 + random_below(most_front_guards));
    mapping.reserved_bytes = front + capacity_ + granularity_;
    driver_.check(
        driver_.cuMemAddressReserve(&mapping.reserved, mapping.reserved_bytes, granularity_, 0, 0),
        "cuMemAddressReserve");
    mapping.base = mapping.reserved + front;
    driver_.check(driver_.cuMemMap(mapping.base, capacity_, 0, handle_, 0), "cuMemMap");
    mapping.mapped = true;
    CUmemAccessDesc description{};
    description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    description.location.id = device_;
    description.flags = access;
    driver_.check(driver_.cuMemSetAccess(mapping.base, capacity_, &description, 1),
                  "cuMemSetAccess");
}

void Region::unmap(Mapping& mapping) noexcept {
    if (mapping.mapped) driver_.cuMemUnmap(mapping.base, capacity_);
    if (mapping.reserved != 0) driver_.cuMemAddressFree(mapping.reserved, mapping.reserved_bytes);
    mapping = {};
}

void Region::release() noexcept {
    unmap(read_only_);
    unmap(writable_);
    if (created_) driver_.cuMemRelease(handle_);
}

MemoryPool::Lease& MemoryPool::Lease::operator=(Lease&& other) noexcept {
    if (this != &other) {
        release();
        pool_ = std::exchange(other.pool_, nullptr);
        region_ = std::move(other.region_);
    }
    return *this;
}

void MemoryPool::Lease::release() noexcept {
    if (pool_ == nullptr || region_ == nullptr) return;
    pool_->free_.push_back(std::move(region_));
    pool_ = nullptr;
}

MemoryPool::Lease MemoryPool::acquire(std::size_t bytes) {
    return acquire(bytes, std::max(bytes * waste_factor, small_bytes));
}

MemoryPool::Lease MemoryPool::acquire(std::size_t bytes, std::size_t most) {
    Lease lease;
    lease.pool_ = this;
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        const std::size_t capacity = (*it)->capacity();
        if (capacity < bytes || capacity > most) continue;
        if (best == free_.end() || capacity < (*best)->capacity()) best = it;
    }
    if (best != free_.end()) {
        lease.region_ = std::move(*best);
        free_.erase(best);
        return lease;
    }
    try {
        lease.region_ = std::make_unique<Region>(driver_, device_, bytes);
    } catch (const DriverError& error) {
        if (error.result() != CUDA_ERROR_OUT_OF_MEMORY || free_.empty()) throw;
        free_.clear();
        lease.region_ = std::make_unique<Region>(driver_, device_, bytes);
    }
    return lease;
}

}  // namespace kernelforge::worker
