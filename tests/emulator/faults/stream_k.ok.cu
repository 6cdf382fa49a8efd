// SPDX-License-Identifier: Apache-2.0
// Blocks take even shares of the work that end within tiles; the block that ends a tile waits for
// those that began it.
// buffer: x u32[960] counting
// buffer: partial u32[160] output
// buffer: flags u32[5] zeroed
// buffer: y u32[96] output
// launch: k<<<5, 32>>>(x, partial, flags, y)
// check: y[0] = 1440
// check: y[95] = 8150
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* partial, unsigned* flags, unsigned* y) {
    // Three tiles of ten steps are thirty steps, six a block.
    const int t = threadIdx.x, begin = blockIdx.x * 6, end = begin + 6;
    for (int at = begin; at < end;) {
        const int tile = at / 10, stop = min(end, tile * 10 + 10);
        unsigned sum = 0;
        for (int step = at; step < stop; ++step) sum += x[step * 32 + t];
        if (stop == tile * 10 + 10) {
            // Blocks before this one that worked on the tile.
            for (int b = tile * 10 / 6; b < static_cast<int>(blockIdx.x); ++b) {
                if (t == 0) {
                    while (atomicAdd(&flags[b], 0u) == 0) {
                    }
                    __threadfence();
                }
                __syncwarp();
                sum += __ldcg(&partial[b * 32 + t]);
            }
            y[tile * 32 + t] = sum;
        } else {
            partial[blockIdx.x * 32 + t] = sum;
            __threadfence();
            __syncwarp();
            if (t == 0) atomicExch(&flags[blockIdx.x], 1u);
        }
        at = stop;
    }
}
