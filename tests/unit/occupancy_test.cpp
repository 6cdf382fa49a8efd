// SPDX-License-Identifier: Apache-2.0
#include "occupancy.hpp"

#ifdef KERNELFORGE_TEST_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

#include "support/catch.hpp"

using namespace kernelforge;

namespace {

DeviceInfo h200() {
    DeviceInfo device;
    device.multiprocessors = 132;
    device.shared_bytes_per_multiprocessor = 233472;
    device.max_shared_bytes_per_block = 232448;
    device.reserved_shared_bytes_per_block = 1024;
    return device;
}

KernelFacts facts_of(int registers, int shared = 0) {
    KernelFacts facts;
    facts.registers_per_thread = registers;
    facts.static_shared_bytes = shared;
    return facts;
}

}  // namespace

TEST_CASE("residency follows from registers, shared memory, threads and blocks", "[occupancy]") {
    const DeviceInfo device = h200();
    const Occupancy full = occupancy(facts_of(32), 256, 0, device);
    CHECK(full.blocks == 8);
    CHECK(full.fraction == Approx(1.0));
    CHECK(full.limiter == OccupancyLimiter::none);
    // 168 registers: 5376 a warp, three warps in each of four sub-partitions.
    const Occupancy registers = occupancy(facts_of(168), 128, 0, device);
    CHECK(registers.blocks == 3);
    CHECK(registers.limiter == OccupancyLimiter::registers);
    CHECK(registers.fraction == Approx(12.0 / 64.0));
    const Occupancy shared = occupancy(facts_of(32), 128, 100 * 1024, device);
    CHECK(shared.blocks == 2);
    CHECK(shared.limiter == OccupancyLimiter::shared_memory);
    const Occupancy blocks = occupancy(facts_of(16), 32, 0, device);
    CHECK(blocks.blocks == 32);
    CHECK(blocks.limiter == OccupancyLimiter::blocks);
    const Occupancy threads = occupancy(facts_of(16), 768, 0, device);
    CHECK(threads.blocks == 2);
    CHECK(threads.limiter == OccupancyLimiter::threads);
}

TEST_CASE("what does not fit has no resident block", "[occupancy]") {
    const DeviceInfo device = h200();
    CHECK(occupancy(facts_of(255), 1024, 0, device).blocks == 0);
    CHECK(occupancy(facts_of(32), 128, 10 << 20, device).blocks == 0);
    CHECK(occupancy(facts_of(32), 2048, 0, device).blocks == 0);
    KernelFacts bounded = facts_of(32);
    bounded.max_threads_per_block = 128;
    CHECK(occupancy(bounded, 256, 0, device).blocks == 0);
    CHECK_THAT(describe(occupancy(bounded, 256, 0, device), 256),
               ContainsSubstring("does not fit"));
}

TEST_CASE("a grid that leaves room is the limiter", "[occupancy]") {
    const Occupancy small = occupancy(facts_of(32), 256, 0, 132, h200());
    CHECK(small.blocks == 1);
    CHECK(small.limiter == OccupancyLimiter::grid);
    CHECK(small.fraction == Approx(8.0 / 64.0));
    CHECK(occupancy(facts_of(32), 256, 0, 132 * 8, h200()).limiter == OccupancyLimiter::none);
    CHECK(describe(small, 256) ==
          "12 % occupancy (1 blocks of 256 threads per multiprocessor), limited by grid smaller "
          "than the device");
}

TEST_CASE("unknown facts limit nothing", "[occupancy]") {
    CHECK(occupancy({}, 256, 0, DeviceInfo{}).blocks == 8);
}

#ifdef KERNELFORGE_TEST_CUDA_OCCUPANCY
TEST_CASE("residency agrees with NVIDIA's occupancy header", "[occupancy]") {
    const DeviceInfo device = h200();
    cudaOccDeviceProp properties;
    properties.computeMajor = 9;
    properties.computeMinor = 0;
    properties.maxThreadsPerBlock = 1024;
    properties.maxThreadsPerMultiprocessor = 2048;
    properties.regsPerBlock = 65536;
    properties.regsPerMultiprocessor = 65536;
    properties.warpSize = 32;
    properties.sharedMemPerBlock = 49152;
    properties.sharedMemPerMultiprocessor = 233472;
    properties.numSms = 132;
    properties.sharedMemPerBlockOptin = 232448;
    properties.reservedSharedMemPerBlock = 1024;
    cudaOccDeviceState state;
    state.carveoutConfig = 100;
    for (const int threads : {32, 64, 96, 128, 160, 256, 384, 512, 1024}) {
        for (const int registers : {16, 24, 32, 40, 64, 72, 96, 128, 168, 200, 255}) {
            for (const int shared : {0, 1, 4096, 30'000, 66'000, 120'000, 230'000}) {
                cudaOccFuncAttributes attributes;
                attributes.maxThreadsPerBlock = 1024;
                attributes.numRegs = registers;
                attributes.maxDynamicSharedSizeBytes = 232448;
                attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
                cudaOccResult expected;
                REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(
                            &expected, &properties, &attributes, &state, threads,
                            static_cast<size_t>(shared)) == CUDA_OCC_SUCCESS);
                INFO(threads << " threads, " << registers << " registers, " << shared << " bytes");
                CHECK(occupancy(facts_of(registers), threads, shared, device).blocks ==
                      expected.activeBlocksPerMultiprocessor);
            }
        }
    }
}
#endif
