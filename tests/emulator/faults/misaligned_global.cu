// SPDX-License-Identifier: Apache-2.0
// Rows of 33 floats are read four at a time.
// buffer: x f32[132] input
// buffer: y f32[16] output
// launch: k<<<1, 4>>>(x, y)
// expect: misaligned
extern "C" __global__ void k(const float* x, float* y) {
    const float* row = x + threadIdx.x * 33;
    const float4 v = *reinterpret_cast<const float4*>(row);  // HERE
    y[threadIdx.x] = v.x + v.y + v.z + v.w;
}
