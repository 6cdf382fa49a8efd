//@kernelforge 1
//@workspace wide_x f16 [M, K]
//@workspace x_units f32 [M]
//@workspace wide_w f16 [2 * N, K]
//@workspace w_units f32 [2 * N]
//@workspace both f32 [M, 2 * N]
//@prepare widen<<<(N), (K / 8)>>>(g, gs, 128, 0, wide_w, w_units)
//@prepare widen<<<(N), (K / 8)>>>(u, us, 128, N, wide_w, w_units)
//@launch widen<<<(M), (K / 8)>>>(x, xs, 1, 0, wide_x, x_units)
//@call matmul(D=both, A=wide_x, B=wide_w^T)
//@launch silu_multiply<<<(N / 512, M), (128)>>>(both, x_units, w_units, y)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// The library's plain product knows no scales of blocks: values times scales in fp16 (the weights once, because
// they stay the same), gate and up as one product, and one kernel for the rest. So that all values fit fp16,
// each row has a unit, the power of two above its largest scale. bfloat16 would need none, but its rounding
// comes to two thirds of the error that is allowed.

// A block a row, eight values a thread; `rows_per_scale` rows share their scales.
extern "C" __global__ void __launch_bounds__(K / 8)
    widen(const unsigned char* from, const float* scales, int rows_per_scale, int first_row, __half* to,
          float* units) {
    const long long row = blockIdx.x;
    const float* row_scales = scales + row / rows_per_scale * KB;
    float largest = threadIdx.x % 32 < KB ? row_scales[threadIdx.x % 32] : 0.0f;
    for (int step = 16; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    }
    const int exponent = largest > 0.0f ? ilogbf(largest) + 1 : 0;
    if (threadIdx.x == 0) units[first_row + row] = ldexpf(1.0f, exponent);
    const int k = threadIdx.x * 8;
    const float scale = ldexpf(row_scales[k / 128], -exponent);
    const uint2 words = *reinterpret_cast<const uint2*>(from + row * K + k);
    uint4 result;
    __half* values = reinterpret_cast<__half*>(&result);
    for (int i = 0; i < 8; ++i) {
        __nv_fp8_e4m3 value;
        value.__x = (__nv_fp8_storage_t)((i < 4 ? words.x : words.y) >> (i % 4 * 8));
        values[i] = __float2half(float(value) * scale);
    }
    *reinterpret_cast<uint4*>(to + (first_row + row) * K + k) = result;
}

__device__ float silu(float value) { return value / (1.0f + __expf(-value)); }

__device__ float4 load_4(const float* from) { return *reinterpret_cast<const float4*>(from); }

extern "C" __global__ void __launch_bounds__(128)
    silu_multiply(const float* both, const float* x_units, const float* w_units, __nv_bfloat16* y) {
    const int column = (blockIdx.x * 128 + threadIdx.x) * 4;
    const long long row = blockIdx.y;
    const float4 gate = load_4(both + row * 2 * N + column);
    const float4 up = load_4(both + row * 2 * N + N + column);
    // Rows of the weights in one block of 128 have the same unit.
    const float gate_unit = x_units[row] * w_units[column];
    const float up_unit = x_units[row] * w_units[N + column];
    __nv_bfloat162 pairs[2];
    pairs[0] = __floats2bfloat162_rn(silu(gate.x * gate_unit) * (up.x * up_unit),
                                     silu(gate.y * gate_unit) * (up.y * up_unit));
    pairs[1] = __floats2bfloat162_rn(silu(gate.z * gate_unit) * (up.z * up_unit),
                                     silu(gate.w * gate_unit) * (up.w * up_unit));
    *reinterpret_cast<uint2*>(y + row * N + column) = *reinterpret_cast<const uint2*>(pairs);
}
