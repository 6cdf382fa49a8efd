//@kernelforge 1
//@launch k<<<1, 32>>>(x)
/* c */ __global__ void k(float* x) { asm volatile("mov.u32 %0, %clock;"); x[0] = R"a(//)a"[0] + 1'000; }
