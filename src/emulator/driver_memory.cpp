// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emulator/driver_state.hpp"

// Allocations, virtual memory, memsets and copies.

namespace kernelforge::emulator {

namespace {

/// As the driver rounds allocations.
constexpr std::size_t allocation_unit = 512;

CUresult CUDAAPI get_memory_info(std::size_t* free_bytes, std::size_t* total) {
    return on_device([&](DriverState& state) {
        *total = state.memory_bytes;
        *free_bytes = state.memory_bytes - std::min(state.memory_bytes, state.used_bytes());
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI allocate(CUdeviceptr* address, std::size_t bytes) {
    return on_device([&](DriverState& state) {
        if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
        if (bytes > state.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
        const std::size_t rounded =
            (bytes + allocation_unit - 1) / allocation_unit * allocation_unit;
        const std::uint64_t made = state.allocate(rounded);
        if (made == 0) return CUDA_ERROR_OUT_OF_MEMORY;
        state.allocations[made] = rounded;
        *address = made;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI free_memory(CUdeviceptr address) {
    return giving_back([&](DriverState& state) {
        if (address == 0) return CUDA_SUCCESS;
        const auto found = state.allocations.find(address);
        if (found == state.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
        state.free(address, found->second);
        state.allocations.erase(found);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI allocate_page(void** page, std::size_t bytes, unsigned) {
    return on_device([&](DriverState& state) {
        if (page == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
        auto made = std::make_unique<char[]>(bytes);
        *page = made.get();
        state.pages.emplace(made.get(), std::move(made));
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI free_page(void* page) {
    return giving_back([&](DriverState& state) {
        return state.pages.erase(page) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
}

/// Host memory of a range that the host may write or read; null: it is not all in one mapping.
std::byte* host_range(DriverState& state, CUdeviceptr address, std::size_t bytes, bool write) {
    const Span* span = state.memory.find(address);
    if (span == nullptr || bytes > span->end - address || (write && !span->writable)) {
        return nullptr;
    }
    return span->host + (address - span->begin);
}

CUresult CUDAAPI set_bytes(CUdeviceptr address, unsigned char value, std::size_t bytes, CUstream) {
    return on_device([&](DriverState& state) {
        if (bytes == 0) return CUDA_SUCCESS;
        std::byte* host = host_range(state, address, bytes, true);
        if (host == nullptr) return CUDA_ERROR_INVALID_VALUE;
        std::memset(host, value, bytes);
        return state.note_written(address, bytes);
    });
}

CUresult CUDAAPI copy_to_host(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
    return on_device([&](DriverState& state) {
        if (bytes == 0) return CUDA_SUCCESS;
        const std::byte* host = host_range(state, from, bytes, false);
        if (host == nullptr || to == nullptr) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(to, host, bytes);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI copy_from_host(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
    return on_device([&](DriverState& state) {
        if (bytes == 0) return CUDA_SUCCESS;
        std::byte* host = host_range(state, to, bytes, true);
        if (host == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(host, from, bytes);
        return state.note_written(to, bytes);
    });
}

CUresult CUDAAPI copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
    return on_device([&](DriverState& state) {
        if (bytes == 0) return CUDA_SUCCESS;
        std::byte* target = host_range(state, to, bytes, true);
        const std::byte* source = host_range(state, from, bytes, false);
        if (target == nullptr || source == nullptr) return CUDA_ERROR_INVALID_VALUE;
        std::memmove(target, source, bytes);
        return state.note_written(to, bytes);
    });
}

CUresult CUDAAPI get_granularity(std::size_t* bytes, const CUmemAllocationProp*,
                                 CUmemAllocationGranularity_flags) {
    return on_device([&](DriverState&) {
        *bytes = AddressSpace::granularity;
        return CUDA_SUCCESS;
    });
}

bool is_granular(std::uint64_t value) {
    return value % AddressSpace::granularity == 0;
}

CUresult CUDAAPI reserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                         CUdeviceptr, unsigned long long) {
    return on_device([&](DriverState& state) {
        if (address == nullptr || bytes == 0 || !is_granular(bytes)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        *address = state.memory.reserve(
            bytes, std::max<std::size_t>(alignment, AddressSpace::granularity));
        return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    });
}

CUresult CUDAAPI release_addresses(CUdeviceptr address, std::size_t) {
    return giving_back([&](DriverState& state) {
        state.memory.release(address);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                        const CUmemAllocationProp*, unsigned long long) {
    return on_device([&](DriverState& state) {
        if (handle == nullptr || bytes == 0 || !is_granular(bytes)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        std::shared_ptr<Block> block = state.make_block(bytes);
        if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
        *handle = state.next_handle++;
        state.handles.emplace(*handle, std::move(block));
        return CUDA_SUCCESS;
    });
}

/// The memory stays until its last mapping is gone.
CUresult CUDAAPI release(CUmemGenericAllocationHandle handle) {
    return giving_back([&](DriverState& state) {
        return state.handles.erase(handle) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
}

bool overlaps(const DriverState& state, CUdeviceptr address, std::size_t bytes) {
    for (const auto& [begin, mapping] : state.mappings) {
        if (begin < address + bytes && address < begin + mapping.bytes) return true;
    }
    return false;
}

CUresult CUDAAPI map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long) {
    return on_device([&](DriverState& state) {
        const auto found = state.handles.find(handle);
        if (found == state.handles.end() || bytes == 0 || !is_granular(address) ||
            !is_granular(bytes) || !is_granular(offset) || overlaps(state, address, bytes)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        const std::size_t there = found->second->bytes();
        if (offset > there || bytes > there - offset) return CUDA_ERROR_INVALID_VALUE;
        state.mappings[address] = {bytes, found->second, offset, false};
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI unmap(CUdeviceptr address, std::size_t bytes) {
    return giving_back([&](DriverState& state) {
        const auto found = state.mappings.find(address);
        if (found == state.mappings.end() || found->second.bytes != bytes) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (found->second.accessible) static_cast<void>(state.memory.unmap(address, bytes));
        state.mappings.erase(found);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI set_access(CUdeviceptr address, std::size_t bytes,
                            const CUmemAccessDesc* description, std::size_t count) {
    return on_device([&](DriverState& state) {
        const auto found = state.mappings.find(address);
        if (found == state.mappings.end() || found->second.bytes != bytes ||
            description == nullptr || count != 1) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        DriverMapping& mapping = found->second;
        if (mapping.accessible) static_cast<void>(state.memory.unmap(address, bytes));
        mapping.accessible = description->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (mapping.accessible) {
            state.memory.map(address, bytes, mapping.block, mapping.offset,
                             description->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        return CUDA_SUCCESS;
    });
}

}  // namespace

void add_memory_functions(worker::Driver& table) {
    table.cuMemGetInfo = get_memory_info;
    table.cuMemAlloc = allocate;
    table.cuMemFree = free_memory;
    table.cuMemHostAlloc = allocate_page;
    table.cuMemFreeHost = free_page;
    table.cuMemsetD8Async = set_bytes;
    table.cuMemcpyDtoHAsync = copy_to_host;
    table.cuMemcpyHtoDAsync = copy_from_host;
    table.cuMemcpyDtoDAsync = copy;
    table.cuMemGetAllocationGranularity = get_granularity;
    table.cuMemAddressReserve = reserve;
    table.cuMemAddressFree = release_addresses;
    table.cuMemCreate = create;
    table.cuMemRelease = release;
    table.cuMemMap = map;
    table.cuMemUnmap = unmap;
    table.cuMemSetAccess = set_access;
}

}  // namespace kernelforge::emulator
