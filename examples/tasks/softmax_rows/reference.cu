//@kernelforge 1
//@launch reference<<<(R), (1024)>>>(x, y, C:i64)

// One block a row, three passes, sums in double.
__shared__ double shared[1024];

__device__ double block_maximum(double value) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int step = 512; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] = fmax(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    const double result = shared[0];
    __syncthreads();
    return result;
}

__device__ double block_sum(double value) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int step = 512; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
        __syncthreads();
    }
    const double result = shared[0];
    __syncthreads();
    return result;
}

extern "C" __global__ void reference(const float* x, float* y, long long columns) {
    const long long base = blockIdx.x * columns;
    double maximum = -INFINITY;
    for (long long c = threadIdx.x; c < columns; c += 1024) maximum = fmax(maximum, double(x[base + c]));
    maximum = block_maximum(maximum);
    double sum = 0.0;
    for (long long c = threadIdx.x; c < columns; c += 1024) sum += exp(double(x[base + c]) - maximum);
    sum = block_sum(sum);
    for (long long c = threadIdx.x; c < columns; c += 1024) {
        y[base + c] = float(exp(double(x[base + c]) - maximum) / sum);
    }
}
