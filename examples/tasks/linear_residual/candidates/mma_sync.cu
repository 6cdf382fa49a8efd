//@kernelforge 1
//@requires sm_80
//@valid align(x) >= 16 && align(w) >= 16 && align(r) >= 4 && align(y) >= 4
//@launch linear_residual<<<(N / 128, cdiv(M, 128)), (256), (65536)>>>(x, w, r, y, M:i32)
#include <cuda_bf16.h>

// Tensor cores through mma.sync: tiles of 128 x 128 x 32, four stages of asynchronous copies, swizzled
// shared memory, ldmatrix. Blocks that share a tile of x are neighbours in the grid: w stays in L2.
constexpr int tile_bytes = 128 * 64;
constexpr int stages = 4;

__device__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Byte offset of 16-byte chunk `chunk` (0 to 3) of a row of 64 bytes, free of bank conflicts.
__device__ int swizzled(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

__device__ void copy_async(unsigned to, const void* from, bool wanted) {
    const int bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int pending>
__device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(256, 2)
    linear_residual(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                const __nv_bfloat16* __restrict__ r, __nv_bfloat16* __restrict__ y, int m) {
    extern __shared__ __align__(128) unsigned char storage[];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * 128;
    const int warp_row = warp / 4 * 64;
    const int warp_column = warp % 4 * 32;

    const auto load_stage = [&](int stage, int k0) {
        unsigned char* xs = storage + stage * 2 * tile_bytes;
        unsigned char* ws = xs + tile_bytes;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = threadIdx.x / 4 + i * 64;
            const int chunk = threadIdx.x % 4;
            const bool wanted = row0 + row < m;
            const long long x_row = wanted ? row0 + row : 0;
            copy_async(shared_address(xs + swizzled(row, chunk)), x + x_row * K + k0 + chunk * 8, wanted);
            copy_async(shared_address(ws + swizzled(row, chunk)),
                       w + (long long)(column0 + row) * K + k0 + chunk * 8, true);
        }
    };

    float sums[4][4][4] = {};
#pragma unroll
    for (int s = 0; s < stages - 1; ++s) {
        load_stage(s, s * 32);
        commit_copies();
    }
    constexpr int steps = K / 32;
    for (int step = 0; step < steps; ++step) {
        wait_copies<stages - 2>();
        __syncthreads();
        if (step + stages - 1 < steps) load_stage((step + stages - 1) % stages, (step + stages - 1) * 32);
        commit_copies();
        const unsigned xs = shared_address(storage + step % stages * 2 * tile_bytes);
        const unsigned ws = xs + tile_bytes;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            unsigned left[4][4];
            unsigned right[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_matrices(left[i], xs + swizzled(warp_row + i * 16 + lane % 16, k * 2 + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int row = warp_column + j * 16 + lane % 8 + lane / 16 * 8;
                load_matrices(right[j], ws + swizzled(row, k * 2 + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int column = column0 + warp_column + j * 8 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = row0 + warp_row + i * 16 + h * 8 + lane / 4;
                if (row >= m) continue;
                const long long at = (long long)row * N + column;
                const float2 residual = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(r + at));
                *reinterpret_cast<__nv_bfloat162*>(y + at) = __floats2bfloat162_rn(
                    sums[i][j][h * 2] + residual.x, sums[i][j][h * 2 + 1] + residual.y);
            }
        }
    }
}
