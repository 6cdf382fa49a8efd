//@kernelforge 1
//@launch gate_up<<<(cdiv(M, 128), N / 32), (256)>>>(x, xs, g, gs, u, us, y, M:i32)
#include <cuda_bf16.h>
#include <cuda_fp8.h>

// Right, but without matrix units: tiles of 128 rows and 32 columns of gate and up each; a thread has 8 x 2
// outputs of both.
__device__ void widen(unsigned four, float (&values)[4]) {
    for (int i = 0; i < 4; ++i) {
        __nv_fp8_e4m3 value;
        value.__x = (unsigned char)(four >> (8 * i));
        values[i] = float(value);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    gate_up(const unsigned char* x, const float* xs, const unsigned char* g, const float* gs,
            const unsigned char* u, const float* us, __nv_bfloat16* y, int m) {
    __shared__ __align__(16) float left[16][132];
    __shared__ __align__(16) float right[16][68];
    const int row0 = blockIdx.x * 128;
    const int column0 = blockIdx.y * 32;
    const int ty = threadIdx.x / 16;
    const int tx = threadIdx.x % 16;
    float total[8][4] = {};
    for (int block = 0; block < KB; ++block) {
        float sum[8][4] = {};
        for (int k0 = block * 128; k0 < block * 128 + 128; k0 += 16) {
            float four[4];
            for (int i = threadIdx.x; i < 128 * 4; i += 256) {
                const int row = row0 + i / 4;
                unsigned word = 0;
                if (row < m) word = *reinterpret_cast<const unsigned*>(x + (long long)row * K + k0 + i % 4 * 4);
                widen(word, four);
                for (int e = 0; e < 4; ++e) left[i % 4 * 4 + e][i / 4] = four[e];
            }
            // Of four neighbours in `right` two are columns of gate and two the same ones of up.
            const int column = threadIdx.x / 4 % 32;
            const unsigned char* from = threadIdx.x < 128 ? g : u;
            const int k = threadIdx.x % 4 * 4;
            widen(*reinterpret_cast<const unsigned*>(from + (long long)(column0 + column) * K + k0 + k), four);
            const int at = column / 2 * 4 + threadIdx.x / 128 * 2 + column % 2;
            for (int e = 0; e < 4; ++e) right[k + e][at] = four[e];
            __syncthreads();
            for (int i = 0; i < 16; ++i) {
                float a[8];
                float b[4];
                *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&left[i][ty * 8]);
                *reinterpret_cast<float4*>(a + 4) = *reinterpret_cast<const float4*>(&left[i][ty * 8 + 4]);
                *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&right[i][tx * 4]);
                for (int p = 0; p < 8; ++p) {
                    for (int q = 0; q < 4; ++q) sum[p][q] += a[p] * b[q];
                }
            }
            __syncthreads();
        }
        const float gate = gs[column0 / 128 * KB + block];
        const float up = us[column0 / 128 * KB + block];
        for (int p = 0; p < 8; ++p) {
            const int row = row0 + ty * 8 + p;
            const float scale = row < m ? xs[(long long)row * KB + block] : 0.0f;
            for (int q = 0; q < 4; ++q) total[p][q] += sum[p][q] * scale * (q < 2 ? gate : up);
        }
    }
    for (int p = 0; p < 8; ++p) {
        const int row = row0 + ty * 8 + p;
        if (row >= m) continue;
        for (int q = 0; q < 2; ++q) {
            const float gate = total[p][q];
            y[(long long)row * N + column0 + tx * 2 + q] =
                __float2bfloat16(gate / (1.0f + expf(-gate)) * total[p][q + 2]);
        }
    }
}
