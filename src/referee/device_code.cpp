// SPDX-License-Identifier: Apache-2.0
#include "referee/device_code.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernelforge/definition.hpp"
#include "kernelforge/error.hpp"
#include "referee/comparison.hpp"

namespace kernelforge::referee {
namespace {

constexpr bool same(DeviceType device, DType host) {
    return static_cast<u32>(device) == static_cast<u32>(host);
}
static_assert(same(type_float64, DType::float64) && same(type_float32, DType::float32) &&
              same(type_float16, DType::float16) && same(type_bfloat16, DType::bfloat16) &&
              same(type_float8_e4m3fn, DType::float8_e4m3fn) &&
              same(type_float8_e5m2, DType::float8_e5m2) &&
              same(type_float4_e2m1, DType::float4_e2m1) && same(type_int64, DType::int64) &&
              same(type_int32, DType::int32) && same(type_int16, DType::int16) &&
              same(type_int8, DType::int8) && same(type_uint8, DType::uint8) &&
              same(type_boolean, DType::boolean));

/// Blocks of `threads` for `items`, at most `per_multiprocessor` resident ones on each.
LaunchShape grid_stride(std::uint64_t items, std::uint32_t threads, int multiprocessors,
                        std::uint32_t per_multiprocessor) {
    const std::uint64_t wanted = (items + threads - 1) / threads;
    const std::uint64_t most =
        static_cast<std::uint64_t>(std::max(multiprocessors, 1)) * per_multiprocessor;
    return {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 1, most)), threads, 0};
}

LaunchShape resident(int multiprocessors, std::uint32_t per_multiprocessor, std::uint32_t threads) {
    return {static_cast<std::uint32_t>(std::max(multiprocessors, 1)) * per_multiprocessor, threads,
            0};
}

double warps_or_threads(const LaunchShape& shape, std::uint32_t unit) {
    return static_cast<double>(shape.blocks) * (shape.threads / unit);
}

}  // namespace

// Block sizes are those of `__launch_bounds__` in device/*.cuh.

LaunchShape fill_shape(const FillParameters& parameters, int multiprocessors) {
    return grid_stride(parameters.count, 256, multiprocessors, 8);
}

LaunchShape bytes_shape(std::uint64_t bytes, int multiprocessors) {
    return grid_stride((bytes + 15) / 16, 256, multiprocessors, 8);
}

LaunchShape tiles_shape(const CompareParameters& parameters, int multiprocessors) {
    return grid_stride(tile_count(parameters) * 256, 256, multiprocessors, 8);
}

LaunchShape reduce_shape() {
    return {1, 1024, 0};
}

LaunchShape finish_shape() {
    return {1, 32, 0};
}

LaunchShape digest_shape(const DigestParameters& parameters, int multiprocessors) {
    const Tiling& tiling = parameters.tiling;
    return grid_stride(tiling.tiles_down * tiling.tiles_across * 256, 256, multiprocessors, 8);
}

LaunchShape digest_sample_shape(const DigestParameters& parameters) {
    return {4 * std::max<u32>(parameters.samples, 1), 256, 0};
}

LaunchShape digest_judge_shape(const DigestParameters& parameters) {
    return {static_cast<u32>(std::clamp<u64>(parameters.calls, 1, 4096)), 256, 0};
}

LaunchShape stream_shape(const StreamParameters& parameters, int multiprocessors) {
    return grid_stride(parameters.bytes / 16, 512, multiprocessors, 4);
}

LaunchShape fma_shape(int multiprocessors) {
    return resident(multiprocessors, 8, 256);
}

LaunchShape mma_shape(int multiprocessors) {
    return resident(multiprocessors, 2, 256);
}

LaunchShape wgmma_shape(int multiprocessors) {
    LaunchShape shape = resident(multiprocessors, 1, 256);
    shape.dynamic_shared_bytes = 2 * 8192 + 32768 + 1024;  // A of two warp groups, B, alignment
    return shape;
}

LaunchShape scrub_shared_shape(int multiprocessors, int max_shared_bytes_per_block) {
    LaunchShape shape = resident(multiprocessors, 1, 1024);
    shape.dynamic_shared_bytes = static_cast<std::uint32_t>(max_shared_bytes_per_block) / 16 * 16;
    return shape;
}

LaunchShape scrub_local_shape(int multiprocessors, int max_threads_per_multiprocessor) {
    return resident(multiprocessors,
                    static_cast<std::uint32_t>(std::max(max_threads_per_multiprocessor, 256)) / 256,
                    256);
}

std::string_view scrub_local_kernel(int local_bytes) {
    if (local_bytes <= 0) return {};
    if (local_bytes <= 256) return "kf_scrub_local_256";
    if (local_bytes <= 1024) return "kf_scrub_local_1024";
    if (local_bytes <= 4096) return "kf_scrub_local_4096";
    if (local_bytes <= most_local_bytes) return "kf_scrub_local_16384";
    throw Error(ErrorCode::unsupported,
                fmt::format("a stack frame of {} bytes a thread cannot be scrubbed, at most {} can",
                            local_bytes, most_local_bytes));
}

double fma_operations(const ComputeParameters& parameters, const LaunchShape& shape) {
    return warps_or_threads(shape, 1) * parameters.iterations * (8.0 * 16.0 * 2.0);
}

double mma_operations(const ComputeParameters& parameters, const LaunchShape& shape) {
    return warps_or_threads(shape, 32) * parameters.iterations * (16.0 * 16.0 * 8.0 * 16.0 * 2.0);
}

double wgmma_operations(const ComputeParameters& parameters, const LaunchShape& shape) {
    return warps_or_threads(shape, 128) * parameters.iterations *
           (16.0 * 64.0 * 256.0 * 16.0 * 2.0);
}

}  // namespace kernelforge::referee
