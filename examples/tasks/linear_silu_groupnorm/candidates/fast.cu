//@kernelforge 1
//@requires sm_90a
//@valid align(x) >= 16 && align(w) >= 16 && align(y) >= 8
//@let shared = 3 * 128 * (128 + 128) + 1024
//@launch linear_silu_groupnorm<128><<<(N / 128, cdiv(M, 128)), (256), (shared)>>>(x, w, b1, b2, gamma, beta, y, M:i32)
#include <cuda_bf16.h>

// wgmma on tiles of 128 x 128, 64 terms a stage, three stages of asynchronous copies; two blocks on a
// multiprocessor, so that one multiplies while the other normalises. Two warp groups of 64 rows each. Four
// lanes have whole groups of 64 channels of a row in their registers: nothing but y is written.
constexpr int stages = 3;

// A stage has 128 rows of x and `columns` rows of w, 64 values (128 bytes) each.
__device__ constexpr int stage_bytes(int columns) { return (128 + columns) * 128; }

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
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
        "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n}\n"
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

__device__ float quad_sum(float value) {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

__device__ float2 load_pair(const __nv_bfloat16* from) {
    return make_float2(__bfloat162float(from[0]), __bfloat162float(from[1]));
}

__device__ float silu(float value) { return __fdividef(value, 1.0f + __expf(-value)); }

template <int columns>
__global__ void __launch_bounds__(256, 2)
    linear_silu_groupnorm(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                          const __nv_bfloat16* __restrict__ b1, const __nv_bfloat16* __restrict__ b2,
                          const __nv_bfloat16* __restrict__ gamma, const __nv_bfloat16* __restrict__ beta,
                          __nv_bfloat16* __restrict__ y, int m) {
    extern __shared__ unsigned char storage[];
    const unsigned tiles = (shared_address(storage) + 1023u) & ~1023u;
    const int group = threadIdx.x / 128;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * columns;

    const auto load_stage = [&](int step) {
        const unsigned xs = tiles + step % stages * stage_bytes(columns);
        const unsigned ws = xs + 128 * 128;
        const int chunk = threadIdx.x % 8;
        const int k = step * 64 + chunk * 8;
#pragma unroll
        for (int row = threadIdx.x / 8; row < 128; row += 32) {
            const bool wanted = row0 + row < m;
            const long long x_row = wanted ? row0 + row : 0;
            copy_async(xs + swizzled(row, chunk), x + x_row * K + k, wanted);
        }
#pragma unroll
        for (int row = threadIdx.x / 8; row < columns; row += 32) {
            copy_async(ws + swizzled(row, chunk), w + (long long)(column0 + row) * K + k, true);
        }
    };

    float sums[columns / 2];
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) sums[i] = 0.0f;
    constexpr int steps = K / 64;
    for (int step = 0; step < stages - 1; ++step) {
        load_stage(step);
        commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
        wait_copies<stages - 2>();
        __syncthreads();
        const unsigned xs = tiles + step % stages * stage_bytes(columns);
        begin_products();
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            multiply_add(sums, descriptor(xs + group * 64 * 128 + k * 32), descriptor(xs + 128 * 128 + k * 32), 1);
        }
        commit_products();
        // The stage that is filled now was read a step ago: those products ended before the barrier.
        if (step + stages - 1 < steps) load_stage(step + stages - 1);
        commit_copies();
        wait_products<0>();
    }
    settle(sums);

    const int first_row = row0 + threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int part = 0; part < columns / 64; ++part) {
        const int column = column0 + part * 64 + lane % 4 * 2;
        float sum[2] = {};
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const float2 before = load_pair(b1 + column + j * 8);
            const float2 after = load_pair(b2 + column + j * 8);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float* pair = sums + (part * 8 + j) * 4 + h * 2;
                pair[0] = silu(pair[0] + before.x) + after.x;
                pair[1] = silu(pair[1] + before.y) + after.y;
                sum[h] += pair[0] + pair[1];
            }
        }
        float mean[2];
        float scale[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            mean[h] = quad_sum(sum[h]) * (1.0f / 64.0f);
            float squares = 0.0f;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float* pair = sums + (part * 8 + j) * 4 + h * 2;
                squares += (pair[0] - mean[h]) * (pair[0] - mean[h]) + (pair[1] - mean[h]) * (pair[1] - mean[h]);
            }
            scale[h] = rsqrtf(quad_sum(squares) * (1.0f / 64.0f) + 1e-5f);
        }
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            unsigned words[2][2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float2 factor = load_pair(gamma + column + (j + e) * 8);
                const float2 shift = load_pair(beta + column + (j + e) * 8);
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const float* pair = sums + (part * 8 + j + e) * 4 + h * 2;
                    words[h][e] = pack((pair[0] - mean[h]) * scale[h] * factor.x + shift.x,
                                       (pair[1] - mean[h]) * scale[h] * factor.y + shift.y);
                }
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = first_row + h * 8;
                store(y + (long long)row * N + column0 + part * 64 + j * 8, lane, words[h][0], words[h][1], row < m);
            }
        }
    }
}
