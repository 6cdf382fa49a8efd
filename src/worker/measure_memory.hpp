// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/driver.hpp"

namespace kernelforge::worker {

/// A range of device memory with an unmapped guard on either side, so that a stray access before or
/// after it is a fault and not a wrong number somewhere else. Owned by its pool.
class Region {
  public:
    enum class Access { read_only, read_write };

    /// Reserves, creates and maps at least `bytes`, readable and writable.
    /// @throws DriverError (CUDA_ERROR_OUT_OF_MEMORY among others)
    Region(const Driver& driver, CUdevice device, std::size_t bytes);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    [[nodiscard]] CUdeviceptr base() const noexcept { return base_; }
    /// Mapped bytes, a multiple of the device's granularity (2 MiB).
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    /// The device must be idle: a mapping that changes under a running kernel faults it.
    void set_access(Access access);

  private:
    void release() noexcept;

    const Driver& driver_;
    CUdevice device_;
    std::size_t guard_ = 0;
    std::size_t capacity_ = 0;
    CUdeviceptr reserved_ = 0;
    CUdeviceptr base_ = 0;
    CUmemGenericAllocationHandle handle_ = 0;
    bool created_ = false;
    bool mapped_ = false;
    Access access_ = Access::read_write;
};

/// Keeps regions mapped between evaluations: creating 100 MB costs more than screening a candidate.
/// Contents are whatever the last user left; users poison. Not thread-safe. [device]
class MemoryPool {
  public:
    MemoryPool(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}

    /// A region of a lease goes back, readable and writable, when the lease ends.
    class Lease {
      public:
        Lease() = default;
        Lease(Lease&& other) noexcept { *this = std::move(other); }
        Lease& operator=(Lease&& other) noexcept;
        ~Lease() { release(); }

        [[nodiscard]] Region& region() const { return *region_; }

      private:
        friend class MemoryPool;
        void release() noexcept;
        MemoryPool* pool_ = nullptr;
        std::unique_ptr<Region> region_;
    };

    /// The smallest free region that holds `bytes` (and is not over four times as large), else a
    /// new one; free regions are given up when memory runs out. The pool must outlive its leases.
    /// @throws DriverError
    [[nodiscard]] Lease acquire(std::size_t bytes);

  private:
    const Driver& driver_;
    CUdevice device_;
    std::vector<std::unique_ptr<Region>> free_;
};

}  // namespace kernelforge::worker
