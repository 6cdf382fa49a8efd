//@kernelforge 1
//@requires sm_90a //@option --use_fast_math -maxrregcount=64 -Xptxas=-O3
//@tune T = 128 256 512 if T*4 <= M
//@let tiles = cdiv(M, 8) * max(1, N >> 5)
//@valid M%8==0 && align(x)>=16 || numel(x) != 0
//@workspace sem i32 [tiles, 2] init=zero align=128
//@symbol ns::wide<T, 64> as g
//@specialize M
//@memset y 0
//@case M <= 512
//@launch g<<<(min(tiles, SMS*OCC(g))), (T), (SMEM_MAX/4), coop>>>(x, y, sem, \
//@       M:i32, 1.0/sqrt(N):f32, stride(x,0):i64)
//@case else
//@launch row<<<dim3(M, 8), 128, 0, cluster=(1,8,1)>>>(x, y, eps)
namespace ns {
template <int A, int B>
__global__ void __launch_bounds__(A) wide(const float* x, void* y, int* sem, int m, float s, long long st) {}
}
extern "C" __global__ void row(const float* __restrict__ x, __nv_bfloat16* y, float eps) { /* //@x */ }
