// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

namespace kernelforge::plan {

std::string_view format_summary() {
    return R"(One CUDA C++ source of device code, compiled by NVRTC, whose //@ comment lines are the launch plan. No host code.
Lines (one directive a line; a trailing backslash continues it; // begins a comment):
//@kernelforge 1                          format version, first line
//@launch k<<<grid, block, shared, cluster=(8,1,1), coop>>>(x, y, M, eps, 1.0/sqrt(D):f32)
    grid and block: an expression, (x), (x,y,z) or dim3(x,y,z); shared (dynamic bytes, may exceed 48 KB), cluster
    and coop (cooperative) may be left out. k is a __global__ function of this source, an alias, or k<128>.
    Arguments in the order of the kernel's parameters: a buffer by its name (input, output, workspace), a scalar
    input by its name, or an integer or floating-point expression. A scalar takes the type of the parameter; where
    that is not a plain type, write it: M:i32. Types: i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64.
//@workspace part f32 [rows, 8] init=undef align=256     scratch memory; init=zero clears it before every run
//@memset y 0                             sets every byte of an output or workspace
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
Tensors are dense and row-major. Not yet supported: //@tensormap //@prepare //@call pdl.
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

}  // namespace kernelforge::plan
