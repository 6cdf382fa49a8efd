//@tensormap tA = x dims=(N,M) strides=(4*N) box=(32,64) dtype=f32 swizzle=128B l2=256B oob=nan steps=(1,2) offset=0
//@workspace packed bf16 [N, N]
//@workspace sums f32 [M]
//@workspace copy u8 [N, N]
//@let aligned = align(x)
//@valid aligned >= 16 && M > 3
//@prepare memset packed 0
//@prepare j<<<N, 32>>>(w, packed)
//@call reduce(D=sums, A=x, op=max, outer=M, n=N)
//@call matmul(D=y, A=q, B=copy:e4m3^T, epilogue=relu, alpha=1/sqrt(N))
//@launch k<<<1, 1>>>(&tA)
//@launch j<<<16, 1, pdl, cluster=16>>>(packed, sums)
__global__ void k(const __grid_constant__ CUtensorMap map) {}
__global__ void j(const void* a, void* b) {}
