//@kernelforge 1
//@requires sm_90a
//@valid align(x) >= 16 && align(w) >= 16 && align(r) >= 8 && align(y) >= 8
//@let tall = cdiv(M, 128)
//@let cost_80 = cdiv(tall * (N / 80), SMS) * 100
//@let cost_160 = cdiv(tall * (N / 160), SMS) * 168
//@let cost_256 = cdiv(tall * (N / 256), SMS) * 256
//@case cost_256 <= min(cost_80, cost_160)
//@launch linear_residual<256, 4><<<(N / 256, tall), (256), (4 * 128 * (128 + 256) + 1024)>>>(x, w, r, y, M:i32)
//@case cost_160 <= cost_80
//@launch linear_residual<160, 6><<<(N / 160, tall), (256), (6 * 128 * (128 + 160) + 1024)>>>(x, w, r, y, M:i32)
//@case else
//@launch linear_residual<80, 6><<<(N / 80, tall), (256), (6 * 128 * (128 + 80) + 1024)>>>(x, w, r, y, M:i32)
#include <cuda_bf16.h>

// wgmma on tiles of 128 rows and 80, 160 or 256 columns, whichever takes the least by rounds of blocks times the
// cost of a tile, its columns plus what narrow tiles lose. 64 terms a stage, four or six stages of asynchronous
// copies, the residual is added in registers. Two warp groups of 64 rows each. Blocks that share a tile of x are
// neighbours in the grid: w (13 MB) stays in L2.

// A stage has 128 rows of x and `columns` rows of w, 64 values (128 bytes) each.
__device__ constexpr int stage_bytes(int columns) { return (128 + columns) * 128; }

__device__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ void copy_async(unsigned to, const void* from, bool wanted) {
    const int bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// All but the last `pending` groups of this thread's copies are there, also for the asynchronous proxy.
template <int pending>
__device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(pending) : "memory");
}

__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int pending>
__device__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps the compiler from reading sums before the wait for them.
template <int count>
__device__ void settle(float (&sums)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// Rows of 128 bytes with the 128-byte swizzle; 1024 bytes from eight rows to the next eight.
__device__ unsigned long long descriptor(unsigned address) {
    return ((unsigned long long)(address & 0x3ffffu) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

// Byte offset of 16-byte chunk `chunk` (0 to 7) of a row.
__device__ int swizzled(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

__device__ void multiply_add(float (&d)[40], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, "
        "%40, %41, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
        : "l"(a), "l"(b), "r"(accumulate));
}

__device__ void multiply_add(float (&d)[80], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %82, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
        "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "
        "%80, %81, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
          "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
          "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
        : "l"(a), "l"(b), "r"(accumulate));
}

__device__ void multiply_add(float (&d)[128], unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
        "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
        "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, "
        "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "
        "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
          "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
          "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),
          "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]),
          "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),
          "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
          "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]),
          "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b), "r"(accumulate));
}

__device__ unsigned pack(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ float2 unpack(unsigned word) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
}

template <int columns, int stages>
__global__ void __launch_bounds__(256, 1)
    linear_residual(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                    const __nv_bfloat16* __restrict__ r, __nv_bfloat16* __restrict__ y, int m) {
    extern __shared__ unsigned char storage[];
    const unsigned tiles = (shared_address(storage) + 1023u) & ~1023u;
    const int group = threadIdx.x / 128;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * columns;

    const auto load_stage = [&](int step) {
        const unsigned xs = tiles + step % stages * stage_bytes(columns);
        const unsigned ws = xs + 128 * 128;
        const int chunk = threadIdx.x % 8;
        const int k = step * 64 + chunk * 8;
#pragma unroll
        for (int row = threadIdx.x / 8; row < 128; row += 32) {
            const bool wanted = row0 + row < m;
            const long long x_row = wanted ? row0 + row : 0;
            copy_async(xs + swizzled(row, chunk), x + x_row * K + k, wanted);
        }
#pragma unroll
        for (int row = threadIdx.x / 8; row < columns; row += 32) {
            copy_async(ws + swizzled(row, chunk), w + (long long)(column0 + row) * K + k, true);
        }
    };

    float sums[columns / 2];
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) sums[i] = 0.0f;
    constexpr int steps = K / 64;
    for (int step = 0; step < stages - 2; ++step) {
        load_stage(step);
        commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
        wait_copies<stages - 3>();
        __syncthreads();
        const unsigned xs = tiles + step % stages * stage_bytes(columns);
        begin_products();
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            multiply_add(sums, descriptor(xs + group * 64 * 128 + k * 32), descriptor(xs + 128 * 128 + k * 32), 1);
        }
        commit_products();
        // The stage that is filled now was read two steps ago: those products ended before the last barrier.
        if (step + stages - 2 < steps) load_stage(step + stages - 2);
        commit_copies();
        wait_products<1>();
    }
    wait_products<0>();
    settle(sums);

    // A lane has two columns of each eight. Neighbours exchange one pair of two, so that a lane has four columns
    // in a row and four lanes a sector of 32 bytes.
    const int first_row = row0 + threadIdx.x / 32 * 16 + lane / 4;
    const bool odd = lane % 2 != 0;
    const int first_column = column0 + (odd ? 8 : 0) + lane % 4 / 2 * 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = first_row + h * 8;
#pragma unroll
        for (int j = 0; j < columns / 8; j += 2) {
            float* left = sums + j * 4 + h * 2;
            float* right = left + 4;
            const float pair0 = __shfl_xor_sync(0xffffffffu, odd ? left[0] : right[0], 1);
            const float pair1 = __shfl_xor_sync(0xffffffffu, odd ? left[1] : right[1], 1);
            if (row >= m) continue;
            const long long at = (long long)row * N + first_column + j * 8;
            const uint2 words = *reinterpret_cast<const uint2*>(r + at);
            const float2 residual0 = unpack(words.x);
            const float2 residual1 = unpack(words.y);
            uint2 result;
            result.x = pack((odd ? pair0 : left[0]) + residual0.x, (odd ? pair1 : left[1]) + residual0.y);
            result.y = pack((odd ? right[0] : pair0) + residual1.x, (odd ? right[1] : pair1) + residual1.y);
            *reinterpret_cast<uint2*>(y + at) = result;
        }
    }
}
