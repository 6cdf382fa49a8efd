//@tensormap tA = x dims=(N,M) strides=(4*N) box=(64,64) dtype=f32 swizzle=128B l2=256B oob=zero
//@call matmul(D=y, A=x, B=x^T)
//@launch k<<<1, 1, pdl>>>(&tA)
__global__ void k(int a) {}
