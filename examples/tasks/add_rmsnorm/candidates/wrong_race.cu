//@kernelforge 1
//@launch add_rmsnorm<<<(T), (256)>>>(x, r, w, y)
#include <cuda_bf16.h>

// Wrong: the barrier between writing and reading the partial sums is missing.
extern "C" __global__ void add_rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* r,
                                       const __nv_bfloat16* w, __nv_bfloat16* y) {
    const long long base = (long long)blockIdx.x * H;
    __shared__ float partial[8];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < H; c += 256) {
        const float z = __bfloat162float(x[base + c]) + __bfloat162float(r[base + c]);
        sum += z * z;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    float total = 0.0f;
    for (int i = 0; i < 8; ++i) total += partial[i];
    const float scale = rsqrtf(total / H + 1e-5f);
    for (int c = threadIdx.x; c < H; c += 256) {
        const float z = __bfloat162float(x[base + c]) + __bfloat162float(r[base + c]);
        y[base + c] = __float2bfloat16(z * scale * __bfloat162float(w[c]));
    }
}
