// SPDX-License-Identifier: Apache-2.0
//@launch k<<<(N/256), 256>>>(a, f, y, r)
extern "C" __global__ void k(const int* a, const float* f, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a[i];
    r[i] = f[i];
}
