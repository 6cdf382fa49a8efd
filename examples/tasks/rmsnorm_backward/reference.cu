//@kernelforge 1
//@workspace part f64 [cdiv(T, 256), H]
//@launch rows<<<(T), (256)>>>(g, n, rstd, w, grad_input, grad_residual)
//@launch columns<<<(cdiv(H, 128), cdiv(T, 256)), (128)>>>(g, n, part, T:i32)
//@launch finish<<<(cdiv(H, 128)), (128)>>>(part, gw, cdiv(T, 256):i32)
#include <cuda_bf16.h>

// One block a row; sums in double. The weight's gradient is summed over 256 rows, then over their sums.
extern "C" __global__ void rows(const __nv_bfloat16* g, const float* n, const float* rstd, const float* w,
                                __nv_bfloat16* grad_input, __nv_bfloat16* grad_residual) {
    __shared__ double sums[256];
    const long long base = (long long)blockIdx.x * H;
    double sum = 0.0;
    for (int c = threadIdx.x; c < H; c += 256) {
        sum += double(__bfloat162float(g[base + c])) * double(w[c]) * double(n[base + c]);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    const double mean = sums[0] / H;
    for (int c = threadIdx.x; c < H; c += 256) {
        const double gn = double(__bfloat162float(g[base + c])) * double(w[c]);
        const float gx = float(double(rstd[blockIdx.x]) * (gn - double(n[base + c]) * mean));
        grad_input[base + c] = __float2bfloat16(gx);
        grad_residual[base + c] = __float2bfloat16(gx);
    }
}

extern "C" __global__ void columns(const __nv_bfloat16* g, const float* n, double* part, int t) {
    const int c = blockIdx.x * 128 + threadIdx.x;
    if (c >= H) return;
    const int first = blockIdx.y * 256;
    const int last = min(first + 256, t);
    double sum = 0.0;
    for (int row = first; row < last; ++row) {
        const long long i = (long long)row * H + c;
        sum += double(__bfloat162float(g[i])) * double(n[i]);
    }
    part[(long long)blockIdx.y * H + c] = sum;
}

extern "C" __global__ void finish(const double* part, float* gw, int parts) {
    const int c = blockIdx.x * 128 + threadIdx.x;
    if (c >= H) return;
    double sum = 0.0;
    for (int p = 0; p < parts; ++p) sum += part[(long long)p * H + c];
    gw[c] = float(sum);
}
