//@kernelforge 1
//@valid align(a) >= 16 && align(b) >= 16 && align(c) >= 16
//@launch gemm<<<(N / 128, cdiv(M, 128)), (256)>>>(a, b, c, M:i32)

// Tiles of 128 x 128 x 16, double-buffered: the next tile is on its way in registers while this one is used.
// A warp has 32 x 64 outputs, a thread 8 x 8 in four pieces of 4 x 4, so that shared memory is read 16 bytes
// at a time without bank conflicts. `left` is transposed.
__device__ float4 load_4(const float* from) { return *reinterpret_cast<const float4*>(from); }

extern "C" __global__ void __launch_bounds__(256, 2)
    gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m) {
    __shared__ __align__(16) float left[2][16][132];
    __shared__ __align__(16) float right[2][16][128];
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * 128;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int my_row = warp / 2 * 32 + lane / 8 * 4;
    const int my_column = warp % 2 * 64 + lane % 8 * 4;

    float4 next_left[2];
    float4 next_right[2];
    const auto load = [&](int k0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = row0 + threadIdx.x / 4 + i * 64;
            next_left[i] = row < m ? load_4(a + (long long)row * K + k0 + threadIdx.x % 4 * 4)
                                   : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            const int k = k0 + threadIdx.x / 32 + i * 8;
            next_right[i] = load_4(b + (long long)k * N + column0 + threadIdx.x % 32 * 4);
        }
    };
    const auto store = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int k = threadIdx.x % 4 * 4;
            const int row = threadIdx.x / 4 + i * 64;
            left[buffer][k][row] = next_left[i].x;
            left[buffer][k + 1][row] = next_left[i].y;
            left[buffer][k + 2][row] = next_left[i].z;
            left[buffer][k + 3][row] = next_left[i].w;
            *reinterpret_cast<float4*>(&right[buffer][threadIdx.x / 32 + i * 8][threadIdx.x % 32 * 4]) =
                next_right[i];
        }
    };

    float sum[8][8] = {};
    load(0);
    store(0);
    __syncthreads();
    for (int step = 0; step < K / 16; ++step) {
        const int buffer = step % 2;
        const bool more = step + 1 < K / 16;
        if (more) load((step + 1) * 16);
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float p[8];
            float q[8];
            *reinterpret_cast<float4*>(p) = load_4(&left[buffer][k][my_row]);
            *reinterpret_cast<float4*>(p + 4) = load_4(&left[buffer][k][my_row + 16]);
            *reinterpret_cast<float4*>(q) = load_4(&right[buffer][k][my_column]);
            *reinterpret_cast<float4*>(q + 4) = load_4(&right[buffer][k][my_column + 32]);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] += p[i] * q[j];
            }
        }
        // The other buffer was read a step ago, before the last barrier.
        if (more) store(1 - buffer);
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = row0 + my_row + i / 4 * 16 + i % 4;
        if (row >= m) continue;
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            *reinterpret_cast<float4*>(c + (long long)row * N + column0 + my_column + j * 8) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
    }
}
