//@kernelforge 1
//@workspace qkv bf16 [B, S, F]
//@workspace att bf16 [B, S, E]
//@launch linear<<<(F / 32, B * (S / 32)), (32, 32)>>>(x, wqkv, bqkv, qkv, F:i32)
//@launch attend<<<(S / 8, H, B), (256)>>>(qkv, att)
//@launch linear<<<(E / 32, B * (S / 32)), (32, 32)>>>(att, wo, bo, y, E:i32)
#include <cuda_bf16.h>

// Right, but without matrix instructions, and every product one thread.
extern "C" __global__ void linear(const __nv_bfloat16* a, const __nv_bfloat16* w, const __nv_bfloat16* bias,
                                  __nv_bfloat16* to, int columns) {
    __shared__ float as[32][33];
    __shared__ float ws[32][33];
    const long long row = (long long)blockIdx.y * 32 + threadIdx.y;
    const int column = blockIdx.x * 32 + threadIdx.x;
    const int w_row = blockIdx.x * 32 + threadIdx.y;
    float sum = 0.0f;
    for (int k0 = 0; k0 < E; k0 += 32) {
        as[threadIdx.y][threadIdx.x] = __bfloat162float(a[row * E + k0 + threadIdx.x]);
        ws[threadIdx.y][threadIdx.x] = __bfloat162float(w[(long long)w_row * E + k0 + threadIdx.x]);
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += as[threadIdx.y][i] * ws[threadIdx.x][i];
        __syncthreads();
    }
    to[row * columns + column] = __float2bfloat16(sum + __bfloat162float(bias[column]));
}

extern "C" __global__ void __launch_bounds__(256) attend(const __nv_bfloat16* qkv, __nv_bfloat16* att) {
    __shared__ float logits[8][S];
    __shared__ float tile[64][D + 1];
    __shared__ float queries[8][D];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int query = blockIdx.x * 8 + warp;
    const int last_query = blockIdx.x * 8 + 7;
    const __nv_bfloat16* base = qkv + (long long)blockIdx.z * S * F + blockIdx.y * D;
    for (int d = lane; d < D; d += 32) queries[warp][d] = __bfloat162float(base[(long long)query * F + d]);
    const float scale = 0.10206207261596577f;
    float most = -__int_as_float(0x7f800000);
    for (int t0 = 0; t0 <= last_query; t0 += 64) {
        __syncthreads();
        for (int i = threadIdx.x; i < 64 * D; i += 256) {
            tile[i / D][i % D] = __bfloat162float(base[(long long)(t0 + i / D) * F + E + i % D]);
        }
        __syncthreads();
        for (int t = lane; t < 64 && t0 + t <= query; t += 32) {
            float sum = 0.0f;
            for (int d = 0; d < D; ++d) sum += queries[warp][d] * tile[t][d];
            logits[warp][t0 + t] = sum * scale;
            most = fmaxf(most, logits[warp][t0 + t]);
        }
    }
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    float total = 0.0f;
    for (int t = lane; t <= query; t += 32) {
        const float p = expf(logits[warp][t] - most);
        logits[warp][t] = p;
        total += p;
    }
    for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    float values[3] = {};
    for (int t0 = 0; t0 <= last_query; t0 += 64) {
        __syncthreads();
        for (int i = threadIdx.x; i < 64 * D; i += 256) {
            tile[i / D][i % D] = __bfloat162float(base[(long long)(t0 + i / D) * F + 2 * E + i % D]);
        }
        __syncthreads();
        for (int t = 0; t < 64 && t0 + t <= query; ++t) {
            for (int i = 0; i < 3; ++i) {
                values[i] += logits[warp][t0 + t] * tile[t][lane + i * 32];
            }
        }
    }
    for (int i = 0; i < 3; ++i) {
        att[((long long)blockIdx.z * S + query) * E + blockIdx.y * D + lane + i * 32] =
            __float2bfloat16(values[i] / total);
    }
}
