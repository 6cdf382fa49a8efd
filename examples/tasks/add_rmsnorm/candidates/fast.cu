//@kernelforge 1
//@valid align(x) >= 16 && align(r) >= 16 && align(w) >= 16 && align(y) >= 16
//@tune THREADS = 512 256
//@launch add_rmsnorm<<<(T), (THREADS)>>>(x, r, w, y)
#include <cuda_bf16.h>

// 16-byte accesses; the row stays in registers between the sum and the scaling.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_rmsnorm(const uint4* __restrict__ x, const uint4* __restrict__ r,
                const uint4* __restrict__ w, uint4* __restrict__ y) {
    constexpr int vectors = H / 8 / THREADS;
    const long long base = (long long)blockIdx.x * (H / 8);
    __shared__ float partial[THREADS / 32];
    uint4 xs[vectors], rs[vectors], ws[vectors];
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
        const int v = threadIdx.x + i * THREADS;
        xs[i] = __ldcs(x + base + v);
        rs[i] = __ldcs(r + base + v);
    }
#pragma unroll
    for (int i = 0; i < vectors; ++i) ws[i] = __ldg(w + threadIdx.x + i * THREADS);
    float2 z[vectors][4];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
        const __nv_bfloat162* a = reinterpret_cast<const __nv_bfloat162*>(&xs[i]);
        const __nv_bfloat162* b = reinterpret_cast<const __nv_bfloat162*>(&rs[i]);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 p = __bfloat1622float2(a[k]);
            const float2 q = __bfloat1622float2(b[k]);
            z[i][k] = make_float2(p.x + q.x, p.y + q.y);
            sum += z[i][k].x * z[i][k].x + z[i][k].y * z[i][k].y;
        }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) total += partial[i];
    const float scale = rsqrtf(total / H + 1e-5f);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
        const __nv_bfloat162* g = reinterpret_cast<const __nv_bfloat162*>(&ws[i]);
        uint4 out;
        __nv_bfloat162* o = reinterpret_cast<__nv_bfloat162*>(&out);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 f = __bfloat1622float2(g[k]);
            o[k] = __floats2bfloat162_rn(z[i][k].x * scale * f.x, z[i][k].y * scale * f.y);
        }
        __stcs(y + base + threadIdx.x + i * THREADS, out);
    }
}
