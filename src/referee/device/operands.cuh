// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/parameters.hpp"

// Random operands of the roof kernels: zeros would draw less power and run at higher clocks.

namespace kernelforge::referee {

__device__ __forceinline__ u32 mixed(u32 x) {
    x ^= x >> 16;
    x *= 0x7FEB352DU;
    x ^= x >> 15;
    x *= 0x846CA68BU;
    return x ^ (x >> 16);
}

/// Two random bf16 values of magnitude 0.5 to 1 and random sign.
__device__ __forceinline__ u32 random_bf16_pair(u32 x) {
    return (mixed(x) & 0x807F807FU) | 0x3F003F00U;
}

}  // namespace kernelforge::referee
