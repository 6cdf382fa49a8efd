// SPDX-License-Identifier: Apache-2.0
// The sum takes 128 values, of which the tail was never written.
// buffer: x f32[100] input
// buffer: y f32[1] output
// launch: k<<<1, 128>>>(x, y, 100)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[t] = t < n ? x[t] : 0;
    __syncthreads();
    if (t < 32) {
        float v = s[t] + s[t + 32] + s[t + 64] + s[t + 96];
        for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
        if (t == 0) y[0] = v;
    }
}
