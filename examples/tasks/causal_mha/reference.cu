//@kernelforge 1
//@workspace qkv bf16 [B, S, F]
//@workspace att bf16 [B, S, E]
//@launch linear<<<(F / 64, B * (S / 64)), (256)>>>(x, wqkv, bqkv, qkv, F:i32)
//@launch attend<<<(S / 8, H, B), (256)>>>(qkv, att)
//@launch linear<<<(E / 64, B * (S / 64)), (256)>>>(att, wo, bo, y, E:i32)
#include <cuda_bf16.h>

// Products in fp32, of which 16 (exact terms) are added before they go to a double; softmax over the
// whole row, with sums in double. Keys after a query are never looked at.
extern "C" __global__ void __launch_bounds__(256)
    linear(const __nv_bfloat16* a, const __nv_bfloat16* w, const __nv_bfloat16* bias, __nv_bfloat16* to,
           int columns) {
    __shared__ float as[16][65];
    __shared__ float ws[16][65];
    const long long row0 = (long long)blockIdx.y * 64;
    const int column0 = blockIdx.x * 64;
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    double sums[4][4] = {};
    for (int k0 = 0; k0 < E; k0 += 16) {
        for (int i = ty; i < 64; i += 16) {
            as[tx][i] = __bfloat162float(a[(row0 + i) * E + k0 + tx]);
            ws[tx][i] = __bfloat162float(w[(long long)(column0 + i) * E + k0 + tx]);
        }
        __syncthreads();
        float parts[4][4] = {};
        for (int k = 0; k < 16; ++k) {
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) parts[i][j] += as[k][ty + i * 16] * ws[k][tx + j * 16];
            }
        }
        for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 4; ++j) sums[i][j] += double(parts[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            const int column = column0 + tx + j * 16;
            to[(row0 + ty + i * 16) * columns + column] =
                __float2bfloat16(float(sums[i][j] + double(__bfloat162float(bias[column]))));
        }
    }
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
    const double scale = 1.0 / sqrt(double(D));
    float most = -__int_as_float(0x7f800000);
    for (int t0 = 0; t0 <= last_query; t0 += 64) {
        __syncthreads();
        for (int i = threadIdx.x; i < 64 * D; i += 256) {
            tile[i / D][i % D] = __bfloat162float(base[(long long)(t0 + i / D) * F + E + i % D]);
        }
        __syncthreads();
        for (int t = lane; t < 64 && t0 + t <= query; t += 32) {
            double sum = 0.0;
            for (int d = 0; d < D; ++d) sum += double(queries[warp][d] * tile[t][d]);
            logits[warp][t0 + t] = float(sum * scale);
            most = fmaxf(most, logits[warp][t0 + t]);
        }
    }
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    double total = 0.0;
    for (int t = lane; t <= query; t += 32) {
        const float p = float(exp(double(logits[warp][t]) - double(most)));
        logits[warp][t] = p;
        total += double(p);
    }
    for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    double values[3] = {};
    for (int t0 = 0; t0 <= last_query; t0 += 64) {
        __syncthreads();
        for (int i = threadIdx.x; i < 64 * D; i += 256) {
            tile[i / D][i % D] = __bfloat162float(base[(long long)(t0 + i / D) * F + 2 * E + i % D]);
        }
        __syncthreads();
        for (int t = 0; t < 64 && t0 + t <= query; ++t) {
            for (int i = 0; i < 3; ++i) {
                values[i] += double(logits[warp][t0 + t]) * double(tile[t][lane + i * 32]);
            }
        }
    }
    for (int i = 0; i < 3; ++i) {
        att[((long long)blockIdx.z * S + query) * E + blockIdx.y * D + lane + i * 32] =
            __float2bfloat16(float(values[i] / total));
    }
}
