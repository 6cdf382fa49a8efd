// SPDX-License-Identifier: Apache-2.0
// One warp fills stages with bulk copies, the other consumes them; full and empty barriers.
// buffer: x u32[1024] counting
// buffer: y u32[32] output
// launch: k<<<1, 64>>>(x, y)
// check: y[0] = 15872
// expect: nothing
__device__ void wait(unsigned bar, unsigned parity) {
    asm volatile(
        "{ .reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT; }" ::"r"(bar),
        "r"(parity)
        : "memory");
}
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ alignas(16) unsigned s[2][128];
    __shared__ alignas(8) unsigned long long full[2], empty[2];
    const int t = threadIdx.x % 32;
    unsigned f[2], e[2];
    for (int i = 0; i < 2; ++i) {
        f[i] = static_cast<unsigned>(__cvta_generic_to_shared(&full[i]));
        e[i] = static_cast<unsigned>(__cvta_generic_to_shared(&empty[i]));
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(f[i]) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(e[i]) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (t != 0) return;
        for (int i = 0; i < 8; ++i) {
            const int stage = i % 2;
            if (i >= 2) wait(e[stage], (i / 2 - 1) & 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(f[stage]) : "memory");
            const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(s[stage]));
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(to),
                "l"(x + i * 128), "r"(f[stage])
                : "memory");
        }
    } else {
        unsigned sum = 0;
        for (int i = 0; i < 8; ++i) {
            const int stage = i % 2;
            wait(f[stage], (i / 2) & 1);
            for (int j = 0; j < 4; ++j) sum += s[stage][j * 32 + t];
            asm volatile("{ .reg .b64 st; mbarrier.arrive.shared::cta.b64 st, [%0]; }" ::"r"(e[stage]) : "memory");
        }
        y[t] = sum;
    }
}
