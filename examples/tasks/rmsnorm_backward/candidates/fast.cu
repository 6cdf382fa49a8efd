//@kernelforge 1
//@requires sm_80
//@valid align(g) >= 16 && align(n) >= 16 && align(w) >= 16 && align(grad_input) >= 16 && align(grad_residual) >= 16
//@tune RESIDENT = 3 2 4
//@let blocks = min(T, RESIDENT * SMS)
//@workspace part f32 [blocks, H]
//@launch rmsnorm_backward<<<(blocks), (320)>>>(g, n, rstd, w, grad_input, grad_residual, part, T:i32)
//@launch sum_parts<<<(H / 32), (32, 32)>>>(part, gw, blocks:i32)
#include <cuda_bf16.h>

// Persistent blocks of 320 threads: a thread owns 8 columns, whose part of the weight's gradient stays
// in registers over all rows of the block. 16-byte accesses; the next row is loaded before the
// barrier of this one, of which there is one a row.
struct Row {
    uint4 g;
    float4 n[2];
};

__device__ Row load_row(const uint4* g, const float4* n, long long row) {
    const long long v = row * (H / 8) + threadIdx.x;
    Row r;
    r.g = __ldcs(g + v);
    r.n[0] = __ldcs(n + 2 * v);
    r.n[1] = __ldcs(n + 2 * v + 1);
    return r;
}

extern "C" __global__ void __launch_bounds__(320, RESIDENT)
    rmsnorm_backward(const uint4* __restrict__ g, const float4* __restrict__ n,
                     const float* __restrict__ rstd, const float4* __restrict__ w,
                     uint4* __restrict__ grad_input, uint4* __restrict__ grad_residual,
                     float4* __restrict__ part, int t) {
    __shared__ float partial[2][12];
    const float4 low = w[2 * threadIdx.x];
    const float4 high = w[2 * threadIdx.x + 1];
    const float weights[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    float weight_sums[8] = {};
    Row next = load_row(g, n, blockIdx.x);
    int phase = 0;
    for (int row = blockIdx.x; row < t; row += gridDim.x) {
        const Row now = next;
        if (row + (int)gridDim.x < t) next = load_row(g, n, row + (int)gridDim.x);
        const float scale = __ldg(rstd + row);
        const float ns[8] = {now.n[0].x, now.n[0].y, now.n[0].z, now.n[0].w,
                             now.n[1].x, now.n[1].y, now.n[1].z, now.n[1].w};
        const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(&now.g);
        float gn[8];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = __bfloat1622float2(pairs[i]);
            weight_sums[2 * i] += pair.x * ns[2 * i];
            weight_sums[2 * i + 1] += pair.y * ns[2 * i + 1];
            gn[2 * i] = pair.x * weights[2 * i];
            gn[2 * i + 1] = pair.y * weights[2 * i + 1];
            sum += gn[2 * i] * ns[2 * i] + gn[2 * i + 1] * ns[2 * i + 1];
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) partial[phase][threadIdx.x / 32] = sum;
        __syncthreads();
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < 10; ++i) total += partial[phase][i];
        phase ^= 1;
        const float mean = total * (1.0f / H);
        uint4 out;
        __nv_bfloat162* to = reinterpret_cast<__nv_bfloat162*>(&out);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to[i] = __floats2bfloat162_rn(scale * (gn[2 * i] - ns[2 * i] * mean),
                                          scale * (gn[2 * i + 1] - ns[2 * i + 1] * mean));
        }
        const long long v = (long long)row * (H / 8) + threadIdx.x;
        __stcs(grad_input + v, out);
        __stcs(grad_residual + v, out);
    }
    const long long v = (long long)blockIdx.x * (H / 4) + 2 * threadIdx.x;
    part[v] = make_float4(weight_sums[0], weight_sums[1], weight_sums[2], weight_sums[3]);
    part[v + 1] = make_float4(weight_sums[4], weight_sums[5], weight_sums[6], weight_sums[7]);
}

extern "C" __global__ void __launch_bounds__(1024)
    sum_parts(const float* __restrict__ part, float* __restrict__ gw, int parts) {
    __shared__ float sums[32][33];
    const int c = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 4
    for (int p = threadIdx.y; p < parts; p += 32) sum += part[(long long)p * H + c];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = sums[threadIdx.x][threadIdx.y];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) gw[blockIdx.x * 32 + threadIdx.y] = sum;
}
