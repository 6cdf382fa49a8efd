// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/admission_elements.hpp"
#include "referee/device/admission_parameters.hpp"
#include "referee/device/fill.cuh"

// Kernels that make null candidates' outputs from right ones (docs/referee.md, "Admission").

namespace kernelforge::referee {

__device__ __forceinline__ double admission_value(u64 data, u64 index, u32 dtype) {
    return decode(dtype,
                  load_bits(reinterpret_cast<const void*>(data), index, bytes_of_type(dtype)));
}

__device__ __forceinline__ void admission_store(u64 data, u64 index, u32 dtype, double value) {
    const u64 bits = encode(dtype, value);
    void* target = reinterpret_cast<void*>(data);
    switch (bytes_of_type(dtype)) {
        case 8:
            static_cast<u64*>(target)[index] = bits;
            break;
        case 4:
            static_cast<u32*>(target)[index] = static_cast<u32>(bits);
            break;
        case 2:
            static_cast<unsigned short*>(target)[index] = static_cast<unsigned short>(bits);
            break;
        default:
            static_cast<unsigned char*>(target)[index] = static_cast<unsigned char>(bits);
    }
}

extern "C" __global__ void __launch_bounds__(256) kf_admit_sum(const AdmissionParameters p) {
    double* sums = reinterpret_cast<double*>(p.target);
    const u64 rows = p.source_count / p.columns;
    const u64 threads = global_threads();
    // Few columns: several threads share one. Many: a thread has several, one after the other.
    const u64 lanes = threads >= p.columns ? threads / p.columns : 1;
    if (threads >= p.columns && global_thread() >= lanes * p.columns) return;
    for (u64 column = global_thread() % p.columns; column < p.columns; column += threads) {
        double sum = 0.0;
        const u64 first = threads >= p.columns ? global_thread() / p.columns : 0;
        for (u64 row = first; row < rows; row += lanes) {
            sum += admission_value(p.source, row * p.columns + column, p.source_dtype);
        }
        atomicAdd(sums + column, sum);
    }
}

extern "C" __global__ void __launch_bounds__(256) kf_admit_spread(const AdmissionParameters p) {
    const double* sums = reinterpret_cast<const double*>(p.source);
    const double rows = static_cast<double>(p.target_count / p.columns);
    for (u64 i = global_thread(); i < p.target_count; i += global_threads()) {
        admission_store(p.target, i, p.target_dtype, sums[i % p.columns] / rows);
    }
}

extern "C" __global__ void __launch_bounds__(256) kf_admit_copy(const AdmissionParameters p) {
    if (p.source_count == 0) return;
    for (u64 i = global_thread(); i < p.target_count; i += global_threads()) {
        admission_store(p.target, i, p.target_dtype,
                        admission_value(p.source, i % p.source_count, p.source_dtype));
    }
}

extern "C" __global__ void __launch_bounds__(256) kf_admit_round(const AdmissionParameters p) {
    for (u64 i = global_thread(); i < p.target_count; i += global_threads()) {
        const double value = admission_value(p.source, i, p.source_dtype);
        // A NaN keeps its bits: a slice that must not be read stays as it is.
        if (!is_finite(value)) {
            if (p.source != p.target) admission_store(p.target, i, p.target_dtype, value);
            continue;
        }
        admission_store(p.target, i, p.target_dtype, rounded_to(value, p.bits));
    }
}

}  // namespace kernelforge::referee
