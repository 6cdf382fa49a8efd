// SPDX-License-Identifier: Apache-2.0
// Rows are read four floats at a time, and the tensor ends within the last four.
// buffer: x f32[126] input
// buffer: y f32[128] output
// launch: k<<<1, 32>>>(x, y, 126)
// expect: out_of_bounds
extern "C" __global__ void k(const float* x, float* y, int n) {
    const int i = threadIdx.x * 4;
    float4 v = {0, 0, 0, 0};
    if (i < n) v = *reinterpret_cast<const float4*>(x + i);  // HERE
    *reinterpret_cast<float4*>(y + i) = v;
}
