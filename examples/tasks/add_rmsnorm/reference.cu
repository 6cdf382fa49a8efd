//@kernelforge 1
//@launch reference<<<(T), (256)>>>(x, r, w, y, T:i64)
#include <cuda_bf16.h>

// One block a row, sums in double.
extern "C" __global__ void reference(const __nv_bfloat16* x, const __nv_bfloat16* r,
                                     const __nv_bfloat16* w, __nv_bfloat16* y, long long rows) {
    const long long row = blockIdx.x;
    if (row >= rows) return;
    __shared__ double partial[256];
    double sum = 0.0;
    for (int c = threadIdx.x; c < H; c += 256) {
        const double z = double(__bfloat162float(x[row * H + c])) + double(__bfloat162float(r[row * H + c]));
        sum += z * z;
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    const double scale = 1.0 / sqrt(partial[0] / H + 1e-5);
    for (int c = threadIdx.x; c < H; c += 256) {
        const double z = double(__bfloat162float(x[row * H + c])) + double(__bfloat162float(r[row * H + c]));
        y[row * H + c] = __float2bfloat16(float(z * scale * double(__bfloat162float(w[c]))));
    }
}
