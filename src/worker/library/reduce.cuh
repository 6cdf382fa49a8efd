// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>

#include "worker/library/parameters.hpp"

// Reductions of the middle axis of [outer, n, inner], of one type: KERNELFORGE_REDUCE_NAME in
// kernel names, KERNELFORGE_REDUCE_IN in memory, KERNELFORGE_REDUCE_SUM where it is added up. Long
// axes are split over blocks, whose results a second launch reduces; nothing is atomic, so equal
// inputs give equal bits.

namespace kernelforge::worker::library {

namespace {

__device__ float load(float x) {
    return x;
}
__device__ double load(double x) {
    return x;
}
__device__ float load(__half x) {
    return __half2float(x);
}
__device__ float load(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
__device__ long long load(int x) {
    return x;
}
__device__ long long load(long long x) {
    return x;
}

template <class A>
struct Extreme;
template <>
struct Extreme<float> {
    static __device__ float largest() { return __int_as_float(0x7f800000); }
    static __device__ float least() { return -largest(); }
};
template <>
struct Extreme<double> {
    static __device__ double largest() { return __longlong_as_double(0x7ff0000000000000ll); }
    static __device__ double least() { return -largest(); }
};
template <>
struct Extreme<long long> {
    static __device__ long long largest() { return 0x7fffffffffffffffll; }
    static __device__ long long least() { return -0x7fffffffffffffffll - 1; }
};

struct Sum {
    template <class A>
    static __device__ A identity() {
        return A(0);
    }
    template <class A>
    __device__ A operator()(A a, A b) const {
        return a + b;
    }
};
// A NaN on either side is the result, as in IEEE 754-2019 maximum and minimum.
struct Max {
    template <class A>
    static __device__ A identity() {
        return Extreme<A>::least();
    }
    template <class A>
    __device__ A operator()(A a, A b) const {
        return a > b || a != a ? a : b;
    }
};
struct Min {
    template <class A>
    static __device__ A identity() {
        return Extreme<A>::largest();
    }
    template <class A>
    __device__ A operator()(A a, A b) const {
        return a < b || a != a ? a : b;
    }
};

template <class In>
struct Vector {
    static constexpr int width = reduce_vector_bytes / static_cast<int>(sizeof(In));
    union {
        uint4 bits;
        In elements[width];
    };
    __device__ Vector() {}
};

template <class A>
__device__ void store(const ReduceParameters& p, long long at, A value) {
    if (p.divisor != 0.0) value = static_cast<A>(value / static_cast<A>(p.divisor));
    switch (p.out_type) {
        case element_f32:
            reinterpret_cast<float*>(p.out)[at] = static_cast<float>(value);
            return;
        case element_f64:
            reinterpret_cast<double*>(p.out)[at] = static_cast<double>(value);
            return;
        case element_f16:
            reinterpret_cast<__half*>(p.out)[at] = __float2half_rn(static_cast<float>(value));
            return;
        case element_bf16:
            reinterpret_cast<__nv_bfloat16*>(p.out)[at] =
                __float2bfloat16_rn(static_cast<float>(value));
            return;
        case element_i32:
            reinterpret_cast<int*>(p.out)[at] = static_cast<int>(value);
            return;
        default:
            reinterpret_cast<long long*>(p.out)[at] = static_cast<long long>(value);
    }
}

/// One thread's share of `count` contiguous elements, `threads` threads together.
template <class In, class A, class Op>
__device__ A contiguous(const In* in, long long count, int thread, int threads) {
    constexpr int width = Vector<In>::width;
    const Op op;
    A result = Op::template identity<A>();
    // Up to the first multiple of 16 bytes, then vectors, then the rest.
    const int misaligned = static_cast<int>(reinterpret_cast<unsigned long long>(in) %
                                            reduce_vector_bytes / sizeof(In));
    const long long head = min(count, static_cast<long long>((width - misaligned) % width));
    for (long long i = thread; i < head; i += threads) result = op(result, load(in[i]));
    const long long vectors = (count - head) / width;
    const uint4* body = reinterpret_cast<const uint4*>(in + head);
    A part[width];
#pragma unroll
    for (int e = 0; e < width; ++e) part[e] = Op::template identity<A>();
#pragma unroll 4
    for (long long i = thread; i < vectors; i += threads) {
        Vector<In> vector;
        vector.bits = __ldg(body + i);
#pragma unroll
        for (int e = 0; e < width; ++e) part[e] = op(part[e], load(vector.elements[e]));
    }
#pragma unroll
    for (int e = 0; e < width; ++e) result = op(result, part[e]);
    for (long long i = head + vectors * width + thread; i < count; i += threads) {
        result = op(result, load(in[i]));
    }
    return result;
}

template <class In, class A, class Op>
__device__ void row(const ReduceParameters& p) {
    using Reduce = cub::BlockReduce<A, reduce_threads>;
    __shared__ typename Reduce::TempStorage storage;
    const long long outer = blockIdx.x / p.splits;
    const long long begin = blockIdx.x % p.splits * p.chunk;
    const long long count = max(0ll, min(p.chunk, p.n - begin));
    const In* in = reinterpret_cast<const In*>(p.in) + outer * p.n + begin;
    const A mine = contiguous<In, A, Op>(in, count, threadIdx.x, reduce_threads);
    const A result = Reduce(storage).Reduce(mine, Op());
    if (threadIdx.x == 0) store(p, blockIdx.x, result);
}

template <class In, class A, class Op>
__device__ void warp(const ReduceParameters& p) {
    using Reduce = cub::WarpReduce<A>;
    __shared__ typename Reduce::TempStorage storage[reduce_warps];
    const int index = threadIdx.x / 32;
    const long long outer = blockIdx.x * static_cast<long long>(reduce_warps) + index;
    if (outer >= p.outer) return;
    const In* in = reinterpret_cast<const In*>(p.in) + outer * p.n;
    const A mine = contiguous<In, A, Op>(in, p.n, threadIdx.x % 32, 32);
    const A result = Reduce(storage[index]).Reduce(mine, Op());
    if (threadIdx.x % 32 == 0) store(p, outer, result);
}

template <class In, class A, class Op, int width>
__device__ void columns(const ReduceParameters& p) {
    __shared__ A partial[reduce_column_rows][reduce_column_lanes * width];
    const Op op;
    const int lane = threadIdx.x % reduce_column_lanes;
    const int line = threadIdx.x / reduce_column_lanes;
    constexpr int block_columns = reduce_column_lanes * width;
    const long long tiles = (p.inner + block_columns - 1) / block_columns;
    const long long tile = blockIdx.x % tiles;
    const long long split = blockIdx.x / tiles % p.splits;
    const long long outer = blockIdx.x / tiles / p.splits;
    const long long column = tile * block_columns + lane * width;
    const long long begin = split * p.chunk;
    const long long end = min(p.n, begin + p.chunk);
    A sum[width];
#pragma unroll
    for (int e = 0; e < width; ++e) sum[e] = Op::template identity<A>();
    if (column < p.inner) {
        const In* in = reinterpret_cast<const In*>(p.in) + outer * p.n * p.inner + column;
#pragma unroll 4
        for (long long i = begin + line; i < end; i += reduce_column_rows) {
            if constexpr (width == 1) {
                sum[0] = op(sum[0], load(in[i * p.inner]));
            } else {
                Vector<In> vector;
                vector.bits = __ldg(reinterpret_cast<const uint4*>(in + i * p.inner));
#pragma unroll
                for (int e = 0; e < width; ++e) sum[e] = op(sum[e], load(vector.elements[e]));
            }
        }
    }
#pragma unroll
    for (int e = 0; e < width; ++e) partial[line][lane * width + e] = sum[e];
    __syncthreads();
    for (int c = threadIdx.x; c < block_columns; c += reduce_threads) {
        const long long at = tile * block_columns + c;
        if (at >= p.inner) break;
        A result = partial[0][c];
        for (int r = 1; r < reduce_column_rows; ++r) result = op(result, partial[r][c]);
        store(p, (outer * p.splits + split) * p.inner + at, result);
    }
}

template <class In, class A, class Op>
__device__ void column(const ReduceParameters& p) {
    if (p.vector != 0) {
        columns<In, A, Op, Vector<In>::width>(p);
    } else {
        columns<In, A, Op, 1>(p);
    }
}

}  // namespace

#define KERNELFORGE_REDUCE_KERNEL(shape, name, op_name, Op)          \
    extern "C" __global__ void __launch_bounds__(reduce_threads)     \
        kf_reduce_##shape##_##name##_##op_name(ReduceParameters p) { \
        shape<KERNELFORGE_REDUCE_IN, KERNELFORGE_REDUCE_SUM, Op>(p); \
    }
#define KERNELFORGE_REDUCE_SHAPES(name, op_name, Op)   \
    KERNELFORGE_REDUCE_KERNEL(row, name, op_name, Op)  \
    KERNELFORGE_REDUCE_KERNEL(warp, name, op_name, Op) \
    KERNELFORGE_REDUCE_KERNEL(column, name, op_name, Op)
#define KERNELFORGE_REDUCE_TYPE(name)         \
    KERNELFORGE_REDUCE_SHAPES(name, sum, Sum) \
    KERNELFORGE_REDUCE_SHAPES(name, max, Max) \
    KERNELFORGE_REDUCE_SHAPES(name, min, Min)

KERNELFORGE_REDUCE_TYPE(KERNELFORGE_REDUCE_NAME)

}  // namespace kernelforge::worker::library
