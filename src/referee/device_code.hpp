// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "referee/device/parameters.hpp"

// The referee's own kernels as PTX, and how to launch them. Trusted code; compiled when KernelForge
// is built. All kernels tolerate any grid (grid-stride loops); the block sizes are fixed.

namespace kernelforge::referee {

/// PTX for compute_80 and later. NUL-terminated (data()[size()] == 0), so data() may go to
/// cuModuleLoadData. Kernel: parameter struct: shape:
/// - `kf_admit_sum`, `kf_admit_spread`, `kf_admit_copy`, `kf_admit_round`: AdmissionParameters
///   (device/admission_parameters.hpp): bytes_shape
/// - `kf_fill`: FillParameters: fill_shape
/// - `kf_poison`: PoisonParameters: bytes_shape
/// - `kf_count_nonzero`: CountNonzeroParameters: bytes_shape
/// - `kf_compare_tiles`: CompareParameters: tiles_shape
/// - `kf_compare_reduce`: CompareParameters: reduce_shape
/// - `kf_compare_elements`: CompareParameters: tiles_shape
/// - `kf_compare_finish`: CompareParameters: finish_shape
/// - `kf_digest_tiles`: DigestParameters: digest_shape
/// - `kf_digest_sample`: DigestParameters: digest_sample_shape
/// - `kf_digest_judge`: DigestParameters: digest_judge_shape
/// - `kf_flush_write`, `kf_flush_read`: StreamParameters: stream_shape
/// - `kf_roof_read`, `kf_roof_copy`, `kf_roof_write`: StreamParameters: stream_shape
/// - `kf_roof_fma`: ComputeParameters: fma_shape
/// - `kf_roof_mma_bf16`: ComputeParameters: mma_shape
/// - `kf_empty`: no parameter: one thread
/// - `kf_scrub_shared`: ScrubParameters: scrub_shared_shape, cooperative
/// - `kf_scrub_local_256`, `_1024`, `_4096`, `_16384`: ScrubParameters: scrub_local_shape,
///   cooperative
/// - `kf_stamp`: StampParameters: one thread
[[nodiscard]] std::string_view device_ptx();

/// PTX for compute_90a only (Hopper): `kf_roof_wgmma_bf16`: ComputeParameters: wgmma_shape. Load it
/// on devices of compute capability 9.0; elsewhere `kf_roof_mma_bf16` is the matrix roof.
/// NUL-terminated.
[[nodiscard]] std::string_view hopper_ptx();

/// One-dimensional launch.
struct LaunchShape {
    std::uint32_t blocks = 1;
    std::uint32_t threads = 1;
    std::uint32_t dynamic_shared_bytes =
        0;  ///< set the kernel's limit to it first when over 48 KiB
};

[[nodiscard]] LaunchShape fill_shape(const FillParameters& parameters, int multiprocessors);
/// For the byte kernels (poison, count_nonzero).
[[nodiscard]] LaunchShape bytes_shape(std::uint64_t bytes, int multiprocessors);
[[nodiscard]] LaunchShape tiles_shape(const CompareParameters& parameters, int multiprocessors);
[[nodiscard]] LaunchShape reduce_shape();
[[nodiscard]] LaunchShape finish_shape();
[[nodiscard]] LaunchShape digest_shape(const DigestParameters& parameters, int multiprocessors);
/// `samples` is at least 1.
[[nodiscard]] LaunchShape digest_sample_shape(const DigestParameters& parameters);
[[nodiscard]] LaunchShape digest_judge_shape(const DigestParameters& parameters);
/// For flush and bandwidth roofs: four resident blocks of 512 threads on every multiprocessor.
[[nodiscard]] LaunchShape stream_shape(const StreamParameters& parameters, int multiprocessors);
[[nodiscard]] LaunchShape fma_shape(int multiprocessors);
[[nodiscard]] LaunchShape mma_shape(int multiprocessors);
[[nodiscard]] LaunchShape wgmma_shape(int multiprocessors);

/// One block a multiprocessor with all shared memory that a block can have.
[[nodiscard]] LaunchShape scrub_shared_shape(int multiprocessors, int max_shared_bytes_per_block);
/// As many threads as can be resident.
[[nodiscard]] LaunchShape scrub_local_shape(int multiprocessors,
                                            int max_threads_per_multiprocessor);
/// Largest stack frame that can be scrubbed.
inline constexpr int most_local_bytes = 16384;
/// The kernel with the smallest frame of at least `local_bytes`; empty for 0.
/// @throws Error unsupported: more than `most_local_bytes`
[[nodiscard]] std::string_view scrub_local_kernel(int local_bytes);

/// Floating-point operations (a multiply-add is two) of one launch with the shape above.
[[nodiscard]] double fma_operations(const ComputeParameters& parameters, const LaunchShape& shape);
[[nodiscard]] double mma_operations(const ComputeParameters& parameters, const LaunchShape& shape);
[[nodiscard]] double wgmma_operations(const ComputeParameters& parameters,
                                      const LaunchShape& shape);

}  // namespace kernelforge::referee
