// SPDX-License-Identifier: Apache-2.0
#include "emulator_kernels.hpp"

#include "emulator/async_tensor.hpp"
#include "support/catch.hpp"

#include <algorithm>

using namespace kernelforge::emulator;

namespace {

const char* const source = R"(
using u32 = unsigned; using u64 = unsigned long long;
extern "C" __device__ int printf(const char*, ...);
__constant__ int table[4] = {10, 20, 30, 40};
__device__ int lock_word, protected_count;

extern "C" __global__ void reduce(const float* x, float* sum, int n) {
    __shared__ float parts[8];
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < 8 ? parts[threadIdx.x] : 0.f;
        for (int o = 4; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
        if (threadIdx.x == 0) atomicAdd(sum, s);
    }
}
// Look-back scan: state 1 is a block's sum, 2 an inclusive prefix, in the upper half of a word.
extern "C" __global__ void scan(const u32* x, u32* y, u64* state, u32* ticket) {
    __shared__ u32 part[128], block, before;
    if (threadIdx.x == 0) block = atomicAdd(ticket, 1);
    __syncthreads();
    u32 v = x[block * 128 + threadIdx.x];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int o = 1; o < 128; o *= 2) {
        u32 add = threadIdx.x >= o ? part[threadIdx.x - o] : 0;
        __syncthreads();
        part[threadIdx.x] += add;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        u32 sum = part[127], ahead = 0;
        atomicExch(state + block, (block == 0 ? 2ull : 1ull) << 32 | sum);
        for (int b = (int)block - 1; b >= 0;) {
            u64 s = *(volatile u64*)(state + b);
            if (s >> 32 == 0) continue;
            ahead += (u32)s;
            if (s >> 32 == 2) break;
            --b;
        }
        if (block > 0) atomicExch(state + block, 2ull << 32 | (ahead + sum));
        before = ahead;
    }
    __syncthreads();
    y[block * 128 + threadIdx.x] = part[threadIdx.x] + before;
}
extern "C" __global__ void collatz(u32* steps) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, v = i + 1, n = 0;
    while (v != 1) {
        if (n > 200) break;
        if (v & 1) { v = 3 * v + 1; } else { v /= 2; if (v % 5 == 0) { n += 2; continue; } }
        ++n;
    }
    steps[i] = __reduce_add_sync(~0u, n) * 1000 + n;
}
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recurse(int* y) { y[threadIdx.x] = fibonacci(threadIdx.x % 13); }
__device__ __noinline__ int endless(int n) { return n == -1 ? 0 : endless(n + 1) * 3 + n; }
extern "C" __global__ void overflow(int* y) { y[threadIdx.x] = endless(y[0]); }
extern "C" __global__ void lock_in_warp() {
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock_word, 0, 1) == 0) {
            *(volatile int*)&protected_count = *(volatile int*)&protected_count + 1;
            __threadfence();
            atomicExch(&lock_word, 0);
            done = true;
        }
    }
}
extern "C" __global__ void naive_lock() {
    while (atomicCAS(&lock_word, 0, 1) != 0);
    *(volatile int*)&protected_count = *(volatile int*)&protected_count + 1;
    __threadfence();
    atomicExch(&lock_word, 0);
}
// Slices of a tile add in order: slice k waits for slice k + 1, which has a later block.
extern "C" __global__ void split_k(u32* out, int* semaphore) {
    int slice = blockIdx.x, slices = gridDim.x;
    if (threadIdx.x == 0) {
        int seen;
        do { asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(semaphore)); }
        while (seen != slices - 1 - slice);
    }
    __syncthreads();
    out[threadIdx.x] = out[threadIdx.x] * 3 + slice;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.s32 [%0], 1;" :: "l"(semaphore) : "memory");
}
// The flag is read by ordinary loads that go past the first cache, as __ldcg does.
extern "C" __global__ void plain_wait(int* flags) {
    if (threadIdx.x == 0) {
        if (blockIdx.x + 1 < gridDim.x) {
            int seen;
            do { asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(seen) : "l"(flags + blockIdx.x + 1) : "memory"); } while (seen == 0);
        }
        __threadfence();
        *(volatile int*)(flags + blockIdx.x) = 1;
    }
    __syncthreads();
}
extern "C" __global__ void grid_barrier(u32* values, u32* sums, u32* count) {
    if (threadIdx.x == 0) values[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (*(volatile u32*)count < gridDim.x) __nanosleep(20);
        __threadfence();
        u32 sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += *(volatile u32*)(values + i);
        sums[blockIdx.x] = sum;
    }
}
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster(u32* y) {
    __shared__ u32 mine[32];
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    u32 here = (u32)__cvta_generic_to_shared(mine + threadIdx.x), there, value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"((rank + 1) % 4));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    y[blockIdx.x * 32 + threadIdx.x] = value;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast(const float* x, float* y) {
    __shared__ alignas(128) float tile[32];
    __shared__ alignas(8) u64 full;
    u32 bar = (u32)__cvta_generic_to_shared(&full), to = (u32)__cvta_generic_to_shared(tile), rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(bar) : "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0 && threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 128, [%2], %3;"
                     :: "r"(to), "l"(x), "r"(bar), "h"((unsigned short)3) : "memory");
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar) : "memory");
    y[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x] + rank;
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void say(const char* word) {
    if (threadIdx.x == 3) printf("%d %5.2f|%s|%lld %x %c %% %-4u| %e %g\n", -7, 2.5f, "text", 1ll << 40, 255u, 'z', 9u, 1e10, 0.5);
    if (threadIdx.x >= 30) printf("t%d\n", threadIdx.x);
}
extern "C" __global__ void stop() { if (threadIdx.x == 5) __trap(); }
extern "C" __global__ void pipeline(const float* x, float* y) {
    __shared__ alignas(128) float tile[2][64];
    __shared__ alignas(8) u64 full[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"((u32)__cvta_generic_to_shared(full + i)));
    __syncthreads();
    auto load = [&](int step) {
        u32 bar = (u32)__cvta_generic_to_shared(full + step % 2), to = (u32)__cvta_generic_to_shared(tile[step % 2]);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     :: "r"(to), "l"(__cvta_generic_to_global(x + step * 64)), "r"(bar) : "memory");
    };
    if (threadIdx.x == 0) { load(0); load(1); }
    for (int step = 0; step < 6; ++step) {
        u32 bar = (u32)__cvta_generic_to_shared(full + step % 2), done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(bar), "r"((u32)(step / 2 % 2)) : "memory");
        y[step * 64 + threadIdx.x] = tile[step % 2][63 - threadIdx.x] * 2;
        __syncthreads();
        if (threadIdx.x == 0 && step + 2 < 6) load(step + 2);
    }
}
extern "C" __global__ void copies(const float* x, float* y) {
    __shared__ alignas(16) float tile[128];
    u32 to = (u32)__cvta_generic_to_shared(tile + threadIdx.x * 4);
    int bytes = threadIdx.x == 31 ? 8 : 16;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(x + threadIdx.x * 4), "r"(bytes) : "memory");
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (int i = threadIdx.x; i < 128; i += 32) y[i] = tile[127 - i];
}
extern "C" __global__ void choose(int* y, int n) {
    int local[8];
    for (int i = 0; i < 8; ++i) local[i] = i * n;
    int v = table[threadIdx.x & 3];
    switch (threadIdx.x % 7) {
        case 0: v += local[(threadIdx.x + n) & 7]; break;
        case 1: v *= 3; break;
        case 2: v -= 5; break;
        case 3: v ^= 77; break;
        case 4: v = v * v; break;
        case 5: v <<= 2; break;
        default: v = -v;
    }
    y[threadIdx.x] = v;
}
extern "C" __global__ void named(u32* y) {
    __shared__ u32 box[32];
    if (threadIdx.x < 32) {
        for (int i = 0; i < 5; ++i) {
            asm volatile("bar.sync 2, 64;" ::: "memory");
            box[threadIdx.x] = i * 100 + threadIdx.x;
            asm volatile("bar.arrive 1, 64;" ::: "memory");
        }
    } else if (threadIdx.x < 64) {
        u32 sum = 0;
        for (int i = 0; i < 5; ++i) {
            asm volatile("bar.arrive 2, 64;" ::: "memory");
            asm volatile("bar.sync 1, 64;" ::: "memory");
            sum += box[threadIdx.x - 32];
        }
        y[threadIdx.x - 32] = sum;
    }
}
extern "C" __global__ void counts(int* y) {
    int c = __syncthreads_count(threadIdx.x % 3 == 0);
    int o = __syncthreads_or(threadIdx.x == 99), a = __syncthreads_and(threadIdx.x < 99);
    unsigned peers = __match_any_sync(__activemask(), threadIdx.x % 5);
    y[threadIdx.x] = c * 100 + o * 10 + a + __reduce_add_sync(peers, 1) * 10000;
}
extern "C" __global__ void split_shuffle(int* y) {
    int v = threadIdx.x;
    if (threadIdx.x % 2) v = __shfl_xor_sync(0xaaaaaaaau, v * 10, 2); else v = __shfl_xor_sync(0x55555555u, v * 20, 4);
    y[threadIdx.x] = v;
}
extern "C" __global__ void multiply(const unsigned short* a, const unsigned short* b, float* d) {
    u32 ra[4], rb[2]; float rd[4] = {0, 0, 0, 0};
    u32 at = (u32)__cvta_generic_to_shared(nullptr);
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    auto two = [](const unsigned short* p) { return *(const u32*)p; };
    ra[0] = two(a + g * 16 + t * 2); ra[1] = two(a + (g + 8) * 16 + t * 2);
    ra[2] = two(a + g * 16 + t * 2 + 8); ra[3] = two(a + (g + 8) * 16 + t * 2 + 8);
    rb[0] = two(b + g * 16 + t * 2); rb[1] = two(b + g * 16 + t * 2 + 8);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(rd[0]), "+f"(rd[1]), "+f"(rd[2]), "+f"(rd[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    d[g * 8 + t * 2] = rd[0]; d[g * 8 + t * 2 + 1] = rd[1];
    d[(g + 8) * 8 + t * 2] = rd[2]; d[(g + 8) * 8 + t * 2 + 1] = rd[3];
}
struct alignas(64) Map { char bytes[128]; };
// d[64, 8] = a[64, 64] * b[8, 64]^T: tiles by TMA with 128-byte swizzle, product by wgmma, and the
// result, as f32 pairs, by a tensor store.
extern "C" __global__ void tensor_multiply(const __grid_constant__ Map a, const __grid_constant__ Map b,
                                           const __grid_constant__ Map d) {
    extern __shared__ __align__(1024) char tiles[];
    __shared__ alignas(8) u64 full;
    char* at = tiles;
    u32 sa = (u32)__cvta_generic_to_shared(at), sb = sa + 8192, sd = sa + 16384, bar = (u32)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
        asm volatile("fence.proxy.async;");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(8192 + 1024) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                     :: "r"(sa), "l"(&a), "r"(bar), "r"(0), "r"(0) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                     :: "r"(sb), "l"(&b), "r"(bar), "r"(0), "r"(0) : "memory");
    }
    __syncthreads();
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar) : "memory");
    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; ++k) {
        u64 fixed = 1ull << 62 | (u64)(1024 >> 4) << 32 | 1ull << 16;
        u64 da = fixed | ((sa + k * 32) & 0x3ffff) >> 4, db = fixed | ((sb + k * 32) & 0x3ffff) >> 4;
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "l"(da), "l"(db));
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    float* out = (float*)(at + 16384);
    out[row * 8 + column] = c0; out[row * 8 + column + 1] = c1;
    out[(row + 8) * 8 + column] = c2; out[(row + 8) * 8 + column + 1] = c3;
    asm volatile("fence.proxy.async;");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                     :: "l"(&d), "r"(sd), "r"(0), "r"(0) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
extern "C" __global__ void lone_multiply() {
    __shared__ __align__(1024) char tile[4096];
    if (threadIdx.x >= 96) return;
    u64 d = 1ull << 62 | (u64)(1024 >> 4) << 32 | 1ull << 16 | (u32)__cvta_generic_to_shared(tile) >> 4;
    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "l"(d), "l"(d));
}
extern "C" __global__ void matrices(const uint4* x, u32* y) {
    __shared__ uint4 tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    u32 r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"((u32)__cvta_generic_to_shared(tile + threadIdx.x)) : "memory");
    y[threadIdx.x] = r0; y[32 + threadIdx.x] = r1; y[64 + threadIdx.x] = r2; y[96 + threadIdx.x] = r3;
}
extern "C" __global__ void half_barrier(int* y) {
    if (threadIdx.x < 16) __syncthreads();
    else y[threadIdx.x] = __shfl_sync(~0u, threadIdx.x, 0);
}
)";

LoadedKernels& kernels() {
    static LoadedKernels loaded(source, 2);
    return loaded;
}

std::string message_of(const Outcome& outcome) {
    return outcome.report ? outcome.report->message : "";
}

std::uint32_t* words(std::uint64_t address) {
    return kernels().device.at<std::uint32_t>(address);
}

}  // namespace

TEST_CASE("a block reduction with shuffles and an atomic sums all elements", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t x = device.make<float>(5000, 0.5F), sum = device.make<float>(1);
    const Outcome outcome = kernels().run("reduce", {{7, 1, 1}, {256, 1, 1}}, {x, sum, 5000});
    REQUIRE(message_of(outcome) == "");
    CHECK(*device.at<float>(sum) == 2500.0F);
}

TEST_CASE("a look-back scan with more blocks than host threads ends and is right", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    constexpr std::uint32_t blocks = 60, n = blocks * 128;
    const std::uint64_t x = device.make<std::uint32_t>(n), y = device.make<std::uint32_t>(n),
                        state = device.make<std::uint64_t>(blocks),
                        ticket = device.make<std::uint32_t>(1);
    for (std::uint32_t i = 0; i < n; ++i) words(x)[i] = i % 17;
    const Outcome outcome =
        kernels().run("scan", {{blocks, 1, 1}, {128, 1, 1}}, {x, y, state, ticket});
    REQUIRE(message_of(outcome) == "");
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
        sum += i % 17;
        REQUIRE(words(y)[i] == sum);
    }
}

TEST_CASE("lanes with different numbers of iterations meet again at a warp reduction",
          "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<std::uint32_t>(96);
    REQUIRE(message_of(kernels().run("collatz", {{1, 1, 1}, {96, 1, 1}}, {y})) == "");
    for (std::uint32_t warp = 0; warp < 3; ++warp) {
        std::array<std::uint32_t, 32> steps{};
        std::uint32_t total = 0;
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
            std::uint32_t v = warp * 32 + lane + 1, n = 0;
            while (v != 1 && n <= 200) {
                if ((v & 1) != 0) {
                    v = 3 * v + 1;
                } else {
                    v /= 2;
                    if (v % 5 == 0) {
                        n += 2;
                        continue;
                    }
                }
                ++n;
            }
            steps[lane] = n;
            total += n;
        }
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
            REQUIRE(words(y)[warp * 32 + lane] == total * 1000 + steps[lane]);
        }
    }
}

TEST_CASE("device functions recurse, each lane to its own depth", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<std::uint32_t>(64);
    REQUIRE(message_of(kernels().run("recurse", {{1, 1, 1}, {64, 1, 1}}, {y})) == "");
    constexpr std::array<std::uint32_t, 13> fibonacci{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144};
    for (std::uint32_t i = 0; i < 64; ++i) REQUIRE(words(y)[i] == fibonacci[i % 13]);
}

TEST_CASE("a kernel that recurses without an end is a stack overflow", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<std::uint32_t>(64);
    const Outcome outcome = kernels().run("overflow", {}, {y});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::stack_overflow);
}

TEST_CASE("lanes of a warp take a spin lock one after the other", "[machine]") {
    kernels().watched = GENERATE(false, true);
    const auto& globals = kernels().loaded.code->globals;
    const auto count = std::find_if(globals.begin(), globals.end(), [](const Variable& variable) {
        return variable.name == "protected_count";
    });
    REQUIRE(count != globals.end());
    int& counted = *kernels().device.at<int>(
        kernels().loaded.global_addresses[static_cast<std::size_t>(count - globals.begin())]);
    for (const char* name : {"lock_in_warp", "naive_lock"}) {
        counted = 0;
        REQUIRE(message_of(kernels().run(name, {{4, 1, 1}, {64, 1, 1}}, {})) == "");
        CHECK(counted == 256);
    }
}

TEST_CASE("blocks that wait for later blocks make progress", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t out = device.make<std::uint32_t>(64), semaphore = device.make<int>(1);
    const Outcome outcome = kernels().run("split_k", {{40, 1, 1}, {64, 1, 1}}, {out, semaphore});
    REQUIRE(message_of(outcome) == "");
    std::uint32_t expected = 0;
    for (std::uint32_t slice = 40; slice-- > 0;) expected = expected * 3 + slice;
    CHECK(words(out)[0] == expected);
    CHECK(words(out)[63] == expected);
}

TEST_CASE("blocks that wait by ordinary loads give way too", "[machine]") {
    auto& device = kernels().device;
    kernels().watched = false;
    const std::uint64_t flags = device.make<int>(12);
    REQUIRE(message_of(kernels().run("plain_wait", {{12, 1, 1}, {128, 1, 1}}, {flags})) == "");
    for (int i = 0; i < 12; ++i) REQUIRE(device.at<int>(flags)[i] == 1);
}

TEST_CASE("a grid barrier opens all blocks of a cooperative launch", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t values = device.make<std::uint32_t>(200),
                        sums = device.make<std::uint32_t>(200),
                        count = device.make<std::uint32_t>(1);
    LoadedKernels::Shape shape{{200, 1, 1}, {64, 1, 1}};
    shape.cooperative = true;
    const Outcome outcome = kernels().run("grid_barrier", shape, {values, sums, count});
    REQUIRE(message_of(outcome) == "");
    for (std::uint32_t i = 0; i < 200; ++i) REQUIRE(words(sums)[i] == 200 * 201 / 2);
}

TEST_CASE("a cooperative grid that cannot be resident is refused", "[machine]") {
    LoadedKernels::Shape shape{{5000, 1, 1}, {1024, 1, 1}};
    shape.cooperative = true;
    const Outcome outcome = kernels().run("stop", shape, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK_THAT(message_of(outcome), ContainsSubstring("at most 264 are resident"));
}

TEST_CASE("blocks of a cluster read each other's shared memory", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<std::uint32_t>(16 * 32);
    LoadedKernels::Shape shape{{16, 1, 1}, {32, 1, 1}, {4, 1, 1}};
    REQUIRE(message_of(kernels().run("cluster", shape, {y})) == "");
    for (std::uint32_t block = 0; block < 16; ++block) {
        const std::uint32_t other = block / 4 * 4 + (block + 1) % 4;
        REQUIRE(words(y)[block * 32 + 9] == other * 100 + 9);
    }
}

TEST_CASE("a multicast copy reaches all blocks that its mask names", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t x = device.make<float>(32, 5.0F), y = device.make<float>(64);
    LoadedKernels::Shape shape{{2, 1, 1}, {32, 1, 1}, {2, 1, 1}};
    REQUIRE(message_of(kernels().run("multicast", shape, {x, y})) == "");
    CHECK(device.at<float>(y)[3] == 5.0F);
    CHECK(device.at<float>(y)[63] == 6.0F);
}

TEST_CASE("printf formats every conversion and is cut at its limit", "[machine]") {
    const Outcome outcome = kernels().run("say", {}, {0});
    REQUIRE(message_of(outcome) == "");
    CHECK(outcome.output ==
          "-7  2.50|text|1099511627776 ff z % 9   | 1.000000e+10 0.5\nt30\nt31\n");
    MachineLimits limits;
    limits.most_output_bytes = 10;
    LoadedKernels few(source, 1, limits);
    CHECK(few.run("say", {}, {0}).output == "-7  2.50|t");
}

TEST_CASE("a trap is reported with its thread", "[machine]") {
    const Outcome outcome = kernels().run("stop", {}, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::trap);
    CHECK_THAT(message_of(outcome),
               ContainsSubstring("thread (5,0,0) of block (0,0,0) executes a trap"));
}

TEST_CASE("bulk copies complete mbarriers whose waiters then see the tile", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t x = device.make<float>(384), y = device.make<float>(384);
    for (int i = 0; i < 384; ++i) device.at<float>(x)[i] = static_cast<float>(i);
    REQUIRE(message_of(kernels().run("pipeline", {{1, 1, 1}, {64, 1, 1}}, {x, y})) == "");
    for (int i = 0; i < 384; ++i) {
        REQUIRE(device.at<float>(y)[i] == static_cast<float>(2 * (i / 64 * 64 + 63 - i % 64)));
    }
}

TEST_CASE("cp.async copies and fills with zeros", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t x = device.make<float>(128, 3.0F), y = device.make<float>(128);
    REQUIRE(message_of(kernels().run("copies", {}, {x, y})) == "");
    CHECK(device.at<float>(y)[0] == 0.0F);
    CHECK(device.at<float>(y)[1] == 0.0F);
    CHECK(device.at<float>(y)[2] == 3.0F);
    CHECK(device.at<float>(y)[127] == 3.0F);
}

TEST_CASE("a switch, a local array and a constant table give each lane its value", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<int>(64);
    REQUIRE(message_of(kernels().run("choose", {{1, 1, 1}, {64, 1, 1}}, {y, 6})) == "");
    for (int t = 0; t < 64; ++t) {
        int v = (t & 3) * 10 + 10;
        switch (t % 7) {
            case 0:
                v += ((t + 6) & 7) * 6;
                break;
            case 1:
                v *= 3;
                break;
            case 2:
                v -= 5;
                break;
            case 3:
                v ^= 77;
                break;
            case 4:
                v = v * v;
                break;
            case 5:
                v <<= 2;
                break;
            default:
                v = -v;
        }
        REQUIRE(device.at<int>(y)[t] == v);
    }
}

TEST_CASE("warps hand over through named barriers", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<std::uint32_t>(32);
    REQUIRE(message_of(kernels().run("named", {{1, 1, 1}, {96, 1, 1}}, {y})) == "");
    for (std::uint32_t i = 0; i < 32; ++i) REQUIRE(words(y)[i] == 1000 + 5 * i);
}

TEST_CASE("barriers reduce predicates over a block whose last warp is not full", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<int>(100);
    REQUIRE(message_of(kernels().run("counts", {{1, 1, 1}, {100, 1, 1}}, {y})) == "");
    for (int t = 0; t < 100; ++t) {
        int peers = 0;
        for (int other = t / 32 * 32; other < std::min(t / 32 * 32 + 32, 100); ++other) {
            peers += other % 5 == t % 5 ? 1 : 0;
        }
        REQUIRE(device.at<int>(y)[t] == 34 * 100 + 10 + peers * 10000);
    }
}

TEST_CASE("two halves of a warp shuffle apart", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<int>(32);
    REQUIRE(message_of(kernels().run("split_shuffle", {}, {y})) == "");
    for (int t = 0; t < 32; ++t) {
        REQUIRE(device.at<int>(y)[t] == (t % 2 == 1 ? (t ^ 2) * 10 : (t ^ 4) * 20));
    }
}

TEST_CASE("mma.sync multiplies halves", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t a = device.make<std::uint16_t>(256, 0x3c00),
                        b = device.make<std::uint16_t>(128, 0x4000), d = device.make<float>(128);
    REQUIRE(message_of(kernels().run("multiply", {}, {a, b, d})) == "");
    for (int i = 0; i < 128; ++i) REQUIRE(device.at<float>(d)[i] == 32.0F);
}

TEST_CASE("tensor copies, a warp group's product and a tensor store work together", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t a = device.make<std::uint16_t>(64 * 64),
                        b = device.make<std::uint16_t>(8 * 64), d = device.make<float>(64 * 8);
    // Small whole numbers as f16.
    constexpr std::array<std::uint16_t, 4> halves{0x0000, 0x3c00, 0x4000, 0x4200};
    for (std::size_t i = 0; i < 64 * 64; ++i) {
        device.at<std::uint16_t>(a)[i] = halves[(i * 7 + i / 64) % 4];
        if (i < 8 * 64) device.at<std::uint16_t>(b)[i] = halves[(i * 5 + i / 64 * 3) % 4];
    }
    const auto map = [](std::uint64_t address, int type, std::uint32_t bytes, std::uint32_t columns,
                        std::uint32_t rows, int swizzle) {
        TensorMapParameters parameters;
        parameters.data_type = type;
        parameters.rank = 2;
        parameters.address = address;
        parameters.dimensions = {columns, rows};
        parameters.strides = {std::uint64_t{columns} * bytes};
        parameters.box = {columns, rows};
        parameters.element_strides = {1, 1};
        parameters.swizzle = swizzle;
        const EncodedTensorMap encoded = encode_tensor_map(parameters);
        REQUIRE(encoded.error.value_or("") == "");
        return std::string(reinterpret_cast<const char*>(encoded.bytes.data()), 128);
    };
    // CU_TENSOR_MAP_DATA_TYPE_FLOAT16 and _FLOAT32, CU_TENSOR_MAP_SWIZZLE_128B and _NONE.
    LoadedKernels::Shape shape{{1, 1, 1}, {128, 1, 1}};
    shape.shared = 16384 + 2048;
    const Outcome outcome = kernels().run_with(
        "tensor_multiply", shape,
        {map(a, 6, 2, 64, 64, 3), map(b, 6, 2, 64, 8, 3), map(d, 7, 4, 8, 64, 0)});
    REQUIRE(message_of(outcome) == "");
    for (std::size_t row = 0; row < 64; ++row) {
        for (std::size_t column = 0; column < 8; ++column) {
            std::size_t sum = 0;
            for (std::size_t k = 0; k < 64; ++k) {
                const std::size_t i = row * 64 + k, j = column * 64 + k;
                sum += (i * 7 + i / 64) % 4 * ((j * 5 + j / 64 * 3) % 4);
            }
            REQUIRE(device.at<float>(d)[row * 8 + column] == static_cast<float>(sum));
        }
    }
}

TEST_CASE("a wgmma that not all warps of its group reach is reported", "[machine]") {
    const Outcome outcome = kernels().run("lone_multiply", {{1, 1, 1}, {128, 1, 1}}, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::barrier_divergence);
    CHECK_THAT(message_of(outcome),
               ContainsSubstring("wait for the other warps of their warp group"));
}

TEST_CASE("ldmatrix gives each lane its pair of a row", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t x = device.make<std::uint32_t>(128), y = device.make<std::uint32_t>(128);
    for (std::uint32_t i = 0; i < 128; ++i) words(x)[i] = i;
    REQUIRE(message_of(kernels().run("matrices", {}, {x, y})) == "");
    for (std::uint32_t i = 0; i < 128; ++i) REQUIRE(words(y)[i] == i);
}

TEST_CASE("a barrier and a shuffle that wait for the same lanes are reported", "[machine]") {
    kernels().watched = GENERATE(false, true);
    auto& device = kernels().device;
    const std::uint64_t y = device.make<int>(32);
    const Outcome outcome = kernels().run("half_barrier", {}, {y});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::barrier_divergence);
    CHECK_THAT(message_of(outcome), ContainsSubstring("can never come together"));
}
