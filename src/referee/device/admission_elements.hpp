// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/elements.hpp"

// Arithmetic of the admission kernels, for the host compiler and for NVRTC.

namespace kernelforge::referee {

/// `value` with at most `bits` explicit significand bits, 1 to 51, to nearest even; the exponent is
/// not limited. What is not finite stays.
KERNELFORGE_BOTH double rounded_to(double value, u32 bits) {
    if (!is_finite(value) || bits >= 52) return value;
    const u32 dropped = 52 - bits;
    u64 code = bits_of_double(value);
    code += ((u64{1} << (dropped - 1)) - 1) + ((code >> dropped) & 1);
    return double_of_bits(code & ~((u64{1} << dropped) - 1));
}

}  // namespace kernelforge::referee
