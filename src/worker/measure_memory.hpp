// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/driver.hpp"

namespace kernelforge::worker {

/// A range of device memory with unmapped guards on either side, so that a stray access before or
/// after it is a fault and not a wrong number somewhere else. The guard in front is of random size,
/// so that no address tells where another region lies. Owned by its pool.
class Region {
  public:
    /// Reserves, creates and maps at least `bytes`, readable and writable.
    /// @throws DriverError (CUDA_ERROR_OUT_OF_MEMORY among others)
    Region(const Driver& driver, CUdevice device, std::size_t bytes);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    /// Start of the readable and writable mapping.
    [[nodiscard]] CUdeviceptr base() const noexcept { return writable_.base; }
    /// Start of a read-only mapping of the same memory at another place, made when it is first
    /// asked for. What is written through one mapping is seen through the other by kernels that
    /// start after the writing one has ended (CUDA programming guide, "Virtual Aliasing Support").
    /// @throws DriverError
    [[nodiscard]] CUdeviceptr read_only_base();
    /// Mapped bytes, a multiple of the device's granularity (2 MiB).
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  private:
    struct Mapping {
        CUdeviceptr reserved = 0;
        std::size_t reserved_bytes = 0;
        CUdeviceptr base = 0;
        bool mapped = false;
    };
    void map(Mapping& mapping, CUmemAccess_flags access);
    void unmap(Mapping& mapping) noexcept;
    void release() noexcept;

    const Driver& driver_;
    CUdevice device_;
    std::size_t granularity_ = 0;
    std::size_t capacity_ = 0;
    CUmemGenericAllocationHandle handle_ = 0;
    bool created_ = false;
    Mapping writable_;
    Mapping read_only_;
};

/// Keeps regions mapped between evaluations: creating 100 MB costs more than screening a candidate.
/// Contents are whatever the last user left; users poison. Not thread-safe. [device]
class MemoryPool {
  public:
    MemoryPool(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}

    /// A region of a lease goes back when the lease ends.
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

    /// The smallest free region that holds `bytes` and at most `most`, else a new one; free regions
    /// are given up when memory runs out. The pool must outlive its leases.
    /// @throws DriverError
    [[nodiscard]] Lease acquire(std::size_t bytes, std::size_t most);
    /// The same with at most four times as much as asked for, or 64 MiB.
    [[nodiscard]] Lease acquire(std::size_t bytes);

  private:
    const Driver& driver_;
    CUdevice device_;
    std::vector<std::unique_ptr<Region>> free_;
};

}  // namespace kernelforge::worker
