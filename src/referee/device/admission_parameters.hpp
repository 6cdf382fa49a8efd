// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/parameters.hpp"

// What the kernels of a task's admission are given: compiled by the host compiler and by NVRTC.

namespace kernelforge::referee {

/// - `kf_admit_sum`: adds the elements of `source` to `target`, f64[columns] that the caller has
///   cleared; element i to column i % columns
/// - `kf_admit_spread`: writes to every element of `target` the mean of its column: `source` is
///   f64[columns] of such sums
/// - `kf_admit_copy`: element i of `target` is element i % source_count of `source`, converted
/// - `kf_admit_round`: element i of `target` is that of `source` rounded to `bits` explicit
///   significand bits, to nearest even; same type, may be the same buffer
/// Any grid; shape: bytes_shape of the larger buffer.
struct AdmissionParameters {
    u64 source = 0;
    u64 target = 0;
    u64 source_count = 0;  ///< elements
    u64 target_count = 0;
    u64 columns = 1;
    u32 source_dtype = type_float32;
    u32 target_dtype = type_float32;
    u32 bits = 52;
    u32 unused = 0;
};

}  // namespace kernelforge::referee
