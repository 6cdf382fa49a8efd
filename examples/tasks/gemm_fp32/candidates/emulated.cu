//@kernelforge 1
//@requires sm_80
//@valid align(a) >= 16 && align(b) >= 16 && align(c) >= 8
//@let shared = 4 * 4 * (128 * 32 + 32 * 136)
//@launch gemm<<<(N / 128, cdiv(M, 128)), (256), (shared)>>>(a, b, c, M:i32)

// fp32 by tensor cores: each factor is the sum of two tf32 values, and of the four products the smallest is left
// out (2^-22 of the whole). Matrix units round their sums towards zero, so that a long sum would lose 1e-4 of
// itself: they only take 32 terms, and these sums are added up in fp32.
// Tiles of 128 x 128 x 32, four stages of asynchronous copies; a warp has 64 x 32 outputs.
constexpr int stages = 4;
constexpr int left_bytes = 128 * 32 * 4;
constexpr int stage_bytes = left_bytes + 32 * 136 * 4;

__device__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Byte offset of 16-byte chunk `chunk` (0 to 7) of a row of 128 bytes, free of bank conflicts.
__device__ int swizzled(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

__device__ void copy_async(unsigned to, const void* from, bool wanted) {
    const int bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int pending>
__device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four matrices of 8 x 4 fp32 values, which move like 8 x 8 of 16 bits.
__device__ void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ void multiply_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// value = high + low; high is rounded to tf32, low is exact until the matrix unit cuts it to tf32.
__device__ void split(unsigned value, unsigned& high, unsigned& low) {
    high = (value + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(__uint_as_float(value) - __uint_as_float(high));
}

extern "C" __global__ void __launch_bounds__(256, 1)
    gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m) {
    extern __shared__ __align__(128) unsigned char storage[];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * 128;
    const int warp_row = warp / 4 * 64;
    const int warp_column = warp % 4 * 32;

    const auto load_stage = [&](int step) {
        const unsigned left = shared_address(storage) + step % stages * stage_bytes;
        const unsigned right = left + left_bytes;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = threadIdx.x / 8 + i * 32;
            const int chunk = threadIdx.x % 8;
            const bool wanted = row0 + row < m;
            const long long a_row = wanted ? row0 + row : 0;
            copy_async(left + swizzled(row, chunk), a + a_row * K + step * 32 + chunk * 4, wanted);
            const int k = threadIdx.x / 32 + i * 8;
            copy_async(right + (k * 136 + lane * 4) * 4, b + (long long)(step * 32 + k) * N + column0 + lane * 4,
                       true);
        }
    };

    float totals[4][4][4] = {};
    constexpr int steps = K / 32;
#pragma unroll
    for (int s = 0; s < stages - 1; ++s) {
        if (s < steps) load_stage(s);
        commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
        wait_copies<stages - 2>();
        __syncthreads();
        if (step + stages - 1 < steps) load_stage(step + stages - 1);
        commit_copies();
        const unsigned char* stage = storage + step % stages * stage_bytes;
        const unsigned left = shared_address(stage);
        const unsigned* right = reinterpret_cast<const unsigned*>(stage + left_bytes);
        float sums[4][4][4] = {};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            unsigned b_high[4][2];
            unsigned b_low[4][2];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    split(right[(k * 8 + h * 4 + lane % 4) * 136 + warp_column + j * 8 + lane / 4], b_high[j][h],
                          b_low[j][h]);
                }
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                unsigned values[4];
                unsigned a_high[4];
                unsigned a_low[4];
                load_matrices(values, left + swizzled(warp_row + i * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
                for (int e = 0; e < 4; ++e) split(values[e], a_high[e], a_low[e]);
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_tf32(sums[i][j], a_low, b_high[j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_tf32(sums[i][j], a_high, b_low[j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_tf32(sums[i][j], a_high, b_high[j]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) totals[i][j][e] += sums[i][j][e];
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int row = row0 + warp_row + i * 16 + h * 8 + lane / 4;
            if (row >= m) continue;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                *reinterpret_cast<float2*>(c + (long long)row * N + column0 + warp_column + j * 8 + lane % 4 * 2) =
                    make_float2(totals[i][j][h * 2], totals[i][j][h * 2 + 1]);
            }
        }
    }
}
