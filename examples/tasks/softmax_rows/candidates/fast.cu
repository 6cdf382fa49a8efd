//@kernelforge 1
//@valid C % 4 == 0 && align(x) >= 16 && align(y) >= 16
//@launch softmax_rows<<<(R), (1024)>>>(x, y, C:i32)

// Maximum and sum in one pass (online softmax) with 16-byte accesses; the second pass goes backwards, so
// that it starts with what is still in the cache.
struct State {
    float maximum;
    float sum;
};

__device__ State merged(State a, State b) {
    const float maximum = fmaxf(a.maximum, b.maximum);
    if (maximum == -INFINITY) return a;
    return {maximum, a.sum * __expf(a.maximum - maximum) + b.sum * __expf(b.maximum - maximum)};
}

extern "C" __global__ void __launch_bounds__(1024)
    softmax_rows(const float4* __restrict__ x, float4* __restrict__ y, int columns) {
    const int vectors = columns / 4;
    const float4* in = x + (long long)blockIdx.x * vectors;
    float4* out = y + (long long)blockIdx.x * vectors;
    State state = {-INFINITY, 0.0f};
    for (int v = threadIdx.x; v < vectors; v += 1024) {
        const float4 a = in[v];
        const float maximum = fmaxf(fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)), state.maximum);
        state.sum = state.sum * __expf(state.maximum - maximum) + __expf(a.x - maximum) +
                    __expf(a.y - maximum) + __expf(a.z - maximum) + __expf(a.w - maximum);
        state.maximum = maximum;
    }
    for (int step = 16; step > 0; step /= 2) {
        state = merged(state, {__shfl_xor_sync(0xffffffffu, state.maximum, step),
                               __shfl_xor_sync(0xffffffffu, state.sum, step)});
    }
    __shared__ State partial[32];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = state;
    __syncthreads();
    state = partial[0];
    for (int i = 1; i < 32; ++i) state = merged(state, partial[i]);
    const float scale = 1.0f / state.sum;
    const int last = (vectors - 1) / 1024 * 1024;
    for (int v = last + threadIdx.x; v >= 0; v -= 1024) {
        if (v >= vectors) continue;
        const float4 a = in[v];
        __stcs(out + v, make_float4(__expf(a.x - state.maximum) * scale, __expf(a.y - state.maximum) * scale,
                                    __expf(a.z - state.maximum) * scale, __expf(a.w - state.maximum) * scale));
    }
}
