// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

namespace kernelforge::plan {

std::string_view format_summary() {
    return R"(One CUDA C++ source of device code, compiled by NVRTC, whose //@ comment lines are the launch plan. No host code.
Lines (one directive a line; a trailing backslash continues it; // begins a comment):
//@kernelforge 1                          format version, first line
//@launch k<<<grid, block, shared, cluster=(8,1,1), coop, pdl>>>(x, y, M, eps, 1.0/sqrt(D):f32)
    grid and block: an expression, (x), (x,y,z) or dim3(x,y,z); shared (dynamic bytes, may exceed 48 KB), cluster (to 16
    blocks), coop (cooperative) and pdl (starts before the launch directly above it ends: wait in the kernel with
    asm volatile("griddepcontrol.wait;" ::: "memory") before using what that one writes) may be left out. k is a __global__ function of this source, an alias, or k<128>.
    Arguments in the order of the kernel's parameters: a buffer by its name (input, output, workspace), a scalar
    input by its name, or an integer or floating-point expression. A scalar takes the type of the parameter; where
    that is not a plain type, write it: M:i32. Types: i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64.
//@workspace part f32 [rows, 8] init=undef align=256     scratch memory; init=zero clears it before every run
//@memset y 0                             sets every byte of an output or workspace
//@tensormap tA = x dims=(K,M) strides=(2*K) box=(64,128) swizzle=128B l2=128B    for TMA loads and stores; innermost first:
    dims and box in elements, strides in bytes (one less); also dtype=bf16 offset=bytes steps=(1,1) oob=zero|nan. Passed as
    &tA to a parameter `const __grid_constant__ CUtensorMap tA`; the type is built in, include nothing for it.
//@prepare pack<<<N, 256>>>(w, packed)    runs when constant inputs (weights) change, outside the measured call; it sees
    constant inputs and workspaces only, and later steps only read the workspaces that it names. Also //@prepare memset packed 0
//@tune THREADS = 256 128 512 if THREADS <= cols     a macro in the code; the first value is the default
//@let tiles = cdiv(M, 128) * cdiv(N, 256)           an integer for the plan only, no macro
//@valid cols % 4 == 0 && align(x) >= 16             shapes for which this source is right (left out: all)
//@symbol gemm<THREADS, 64> as g                     names a template instance
//@specialize M                           makes a variable axis a macro; one build for every value
//@option --use_fast_math -maxrregcount=128          also -std=c++20 --fmad= --ftz= --prec-div= --prec-sqrt= -Xptxas=-O3
//@requires sm_90a
//@case M <= 512                          the steps below it run when it is the first case that holds
//@case else
Launches and memsets run in order on one stream. Integer expressions are C (+ - * / % << >> < == && || ?: …) on 64 bits
with cdiv min max numel(x) stride(x,i) align(x) OCC(k) (blocks of k on one SM), SMS, L2, SMEM_MAX; they know axes,
tunables and lets. Constant axes and tunables are macros in the code, so never name a parameter or variable like one;
variable axes are no macros: pass them as arguments. Floating-point expressions know + - * / sqrt rsqrt exp log log2 pow.
Tensors are dense and row-major.
Example, y[rows, cols] = 2 * x for the variable axis rows and the constant axis cols:
//@kernelforge 1
//@tune THREADS = 256 128 512
//@launch scale<<<(rows), (THREADS)>>>(x, y, 2.0)
extern "C" __global__ void __launch_bounds__(THREADS) scale(const float* __restrict__ x, float* __restrict__ y,
                                                            float factor) {
    const size_t row = size_t(blockIdx.x) * cols;
    for (int i = threadIdx.x; i < cols; i += THREADS) y[row + i] = factor * x[row + i];
})";
}

std::string_view call_summary() {
    return R"(Library steps are allowed in this task. They run in order among the launches; a plan may consist of them alone.
//@call matmul(D=y, A=x, B=w^T, bias=b, epilogue=relu)   cuBLASLt: D = epilogue(alpha*A*B + beta*C + bias); a buffer is a
    matrix whose columns are its last axis; ^T transposes A or B; also C= alpha= beta= batch= compute=f32|tf32, epilogue
    none|relu|gelu; A and B also 8-bit floats (xq:e4m3) with A_scale= and B_scale=, then B must be transposed
//@call sdpa(O=o, Q=q, K=k, V=v, batch=B, heads=H, q_len=S, kv_len=S, dim=D, causal=1, scale=1.0/sqrt(D))   cuDNN attention on
    [batch, len, heads, dim]; also lse= kv_heads= and q_offset= q_stride= … (elements) for packed buffers
//@call reduce(D=s, A=x, op=sum, outer=M, n=N)           CUB: sum, max, min or mean over n of [outer, n, inner]
//@call sort(D=keys, A=x, n=N, descending=1, values=i, values_out=j)   CUB: sorts every run of n elements
)";
}

}  // namespace kernelforge::plan
