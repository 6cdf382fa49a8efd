// SPDX-License-Identifier: Apache-2.0
// The second kernel sums more partial results than the first one made.
// buffer: x f32[256] input
// buffer: w f32[16] output
// buffer: y f32[1] output
// launch: parts<<<8, 32>>>(x, w)
// launch: total<<<1, 32>>>(w, y, 16)
// expect: uninitialised
__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    return v;
}
extern "C" __global__ void parts(const float* x, float* w) {
    const float v = warp_sum(x[blockIdx.x * 32 + threadIdx.x]);
    if (threadIdx.x == 0) w[blockIdx.x] = v;
}
extern "C" __global__ void total(const float* w, float* y, int n) {
    const float v = warp_sum(threadIdx.x < n ? w[threadIdx.x] : 0);  // HERE
    if (threadIdx.x == 0) y[0] = v;
}
