// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_memory.hpp"

#include <algorithm>
#include <utility>

namespace kernelforge::worker {

namespace {

constexpr std::size_t waste_factor = 4;
constexpr std::size_t small_bytes = std::size_t{64} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
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
    driver_.check(
        driver_.cuMemGetAllocationGranularity(&guard_, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
    capacity_ = round_up(std::max<std::size_t>(bytes, 1), guard_);
    try {
        driver_.check(driver_.cuMemAddressReserve(&reserved_, capacity_ + 2 * guard_, guard_, 0, 0),
                      "cuMemAddressReserve");
        base_ = reserved_ + guard_;
        driver_.check(driver_.cuMemCreate(&handle_, capacity_, &prop, 0),
                      "cuMemCreate of " + std::to_string(capacity_) + " bytes");
        created_ = true;
        driver_.check(driver_.cuMemMap(base_, capacity_, 0, handle_, 0), "cuMemMap");
        mapped_ = true;
        access_ = Access::read_only;  // so that the next line is no repetition
        set_access(Access::read_write);
    } catch (...) {
        release();
        throw;
    }
}

Region::~Region() {
    release();
}

void Region::release() noexcept {
    if (mapped_) driver_.cuMemUnmap(base_, capacity_);
    if (created_) driver_.cuMemRelease(handle_);
    if (reserved_ != 0) driver_.cuMemAddressFree(reserved_, capacity_ + 2 * guard_);
}

void Region::set_access(Access access) {
    if (access == access_) return;
    CUmemAccessDesc description{};
    description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    description.location.id = device_;
    description.flags = access == Access::read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                    : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    driver_.check(driver_.cuMemSetAccess(base_, capacity_, &description, 1), "cuMemSetAccess");
    access_ = access;
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
    try {
        region_->set_access(Region::Access::read_write);
        pool_->free_.push_back(std::move(region_));
    } catch (const Error&) {
        // The context is lost: the region goes with it.
        region_.reset();
    }
    pool_ = nullptr;
}

MemoryPool::Lease MemoryPool::acquire(std::size_t bytes) {
    Lease lease;
    lease.pool_ = this;
    const std::size_t most = std::max(bytes * waste_factor, small_bytes);
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
