//@kernelforge 1
#include <cuda_bf16.h>   // bf16
extern "C" __global__ void k(const __nv_bfloat16* x, float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = __bfloat162float(x[threadIdx.x]) * TT + NEG; }
