//@kernelforge 1
//@requires sm_90a
//@valid align(x) >= 16 && align(g) >= 16 && align(u) >= 16 && align(y) >= 8
//@let shared = 6 * 128 * (128 + 128) + 1024
//@launch gate_up<<<(cdiv(M, 128), N / 64), (256), (shared)>>>(x, xs, g, gs, u, us, y, M:i32)
#include <cuda_bf16.h>

// wgmma on e4m3: tiles of 128 rows and 64 columns of gate and up each, which one instruction multiplies; a
// stage is one block of 128 terms, three pairs of stages of asynchronous copies. Sums of the first block of a
// pair are scaled and added up in fp32 while the second is multiplied. Thread blocks that share a tile of the
// weights are neighbours in the grid: x stays in L2 and the weights are read once.
constexpr int stages = 6;
constexpr int stage_bytes = (128 + 128) * 128;  // rows of x; rows of g, then of u
static_assert(KB % 2 == 0, "blocks are taken in pairs");

__device__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ void copy_async(unsigned to, const void* from, bool wanted) {
    const int bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// All but the last `pending` groups of this thread's copies are there, also for the asynchronous proxy.
template <int pending>
__device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(pending) : "memory");
}

__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int pending>
__device__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps the compiler from reading sums before the wait for them.
template <int count>
__device__ void settle(float (&sums)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// Rows of 128 bytes with the 128-byte swizzle; 1024 bytes from eight rows to the next eight.
__device__ unsigned long long descriptor(unsigned address) {
    return ((unsigned long long)(address & 0x3ffffu) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

// Byte offset of 16-byte chunk `chunk` (0 to 7) of a row.
__device__ int swizzled(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

__device__ void multiply_add(float (&d)[64], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
        "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63}, "
        "%64, %65, p, 1, 1;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63])
        : "l"(a), "l"(b), "r"(accumulate));
}

__device__ unsigned pack(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// A lane has two columns of each eight, in `left` those of the first eight and in `right` of the second.
// Neighbours exchange one of them, so that a lane has four columns in a row and four lanes a sector of 32 bytes.
__device__ void store(__nv_bfloat16* to_eight, int lane, unsigned left, unsigned right, bool wanted) {
    const bool odd = lane % 2 != 0;
    const unsigned other = __shfl_xor_sync(0xffffffffu, odd ? left : right, 1);
    if (!wanted) return;
    *reinterpret_cast<uint2*>(to_eight + (odd ? 8 : 0) + lane % 4 / 2 * 4) =
        make_uint2(odd ? other : left, odd ? right : other);
}

__device__ float silu(float value) { return __fdividef(value, 1.0f + __expf(-value)); }

extern "C" __global__ void __launch_bounds__(256, 1)
    gate_up(const unsigned char* __restrict__ x, const float* __restrict__ xs,
            const unsigned char* __restrict__ g, const float* __restrict__ gs,
            const unsigned char* __restrict__ u, const float* __restrict__ us,
            __nv_bfloat16* __restrict__ y, int m) {
    extern __shared__ unsigned char storage[];
    const unsigned tiles = (shared_address(storage) + 1023u) & ~1023u;
    const int group = threadIdx.x / 128;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.x * 128;
    const int column0 = blockIdx.y * 64;
    const int first_row = row0 + threadIdx.x / 32 * 16 + lane / 4;
    const float* scales[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) scales[h] = xs + (long long)min(first_row + h * 8, m - 1) * KB;
    const float* gate_scales = gs + column0 / 128 * KB;
    const float* up_scales = us + column0 / 128 * KB;

    const auto load_stage = [&](int step) {
        const unsigned left = tiles + step % stages * stage_bytes;
        const unsigned right = left + 128 * 128;
        const int chunk = threadIdx.x % 8;
        const int k = step * 128 + chunk * 16;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = threadIdx.x / 8 + i * 32;
            const bool wanted = row0 + row < m;
            const long long x_row = wanted ? row0 + row : 0;
            copy_async(left + swizzled(row, chunk), x + x_row * K + k, wanted);
            copy_async(right + swizzled(row, chunk), (i < 2 ? g : u) + (long long)(column0 + row % 64) * K + k, true);
        }
    };
    const auto load_pair = [&](int pair) {
        if (pair * 2 < KB) {
            load_stage(pair * 2);
            load_stage(pair * 2 + 1);
        }
        commit_copies();
    };
    const auto multiply = [&](int step, float (&sums)[64]) {
        const unsigned left = tiles + step % stages * stage_bytes;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            multiply_add(sums, descriptor(left + group * 64 * 128 + k * 32), descriptor(left + 128 * 128 + k * 32),
                         k > 0);
        }
        commit_products();
    };
    float totals[64] = {};
    const auto add_up = [&](int step, const float (&sums)[64]) {
        const float gate = gate_scales[step];
        const float up = up_scales[step];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float scale = scales[h][step];
#pragma unroll
            for (int j = 0; j < 16; ++j) {
                const float factor = scale * (j < 8 ? gate : up);
                totals[j * 4 + h * 2] += sums[j * 4 + h * 2] * factor;
                totals[j * 4 + h * 2 + 1] += sums[j * 4 + h * 2 + 1] * factor;
            }
        }
    };

    load_pair(0);
    load_pair(1);
    for (int pair = 0; pair < KB / 2; ++pair) {
        wait_copies<1>();
        __syncthreads();
        float even[64];
        float odd[64];
        begin_products();
        multiply(pair * 2, even);
        multiply(pair * 2 + 1, odd);
        load_pair(pair + 2);  // over the pair before this one, whose products ended before the barrier
        wait_products<1>();
        settle(even);
        add_up(pair * 2, even);
        wait_products<0>();
        settle(odd);
        add_up(pair * 2 + 1, odd);
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = first_row + h * 8;
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            unsigned words[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float* gate = totals + (j + e) * 4 + h * 2;
                const float* up = gate + 32;
                words[e] = pack(silu(gate[0]) * up[0], silu(gate[1]) * up[1]);
            }
            store(y + (long long)row * N + column0 + j * 8, lane, words[0], words[1], row < m);
        }
    }
}
