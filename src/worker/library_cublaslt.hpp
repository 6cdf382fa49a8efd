// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/library_loading.hpp"

// The part of cuBLASLt's C interface that is used, declared here so that a build needs no header of
// it. Names and values are those of cublasLt.h, cublas_api.h and library_types.h of CUDA 12 and 13.

namespace kernelforge::worker::library::lt {

using Status = int;  ///< cublasStatus_t; 0 is success
using Handle = void*;
using MatmulDesc = void*;
using Layout = void*;
using Preference = void*;

/// cublasLtMatmulAlgo_t: plain bytes, which may be kept in a file for the same library version.
struct Algorithm {
    std::array<std::uint64_t, 8> words{};
    friend bool operator==(const Algorithm&, const Algorithm&) = default;
};

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
    Algorithm algorithm;
    std::size_t workspace_bytes = 0;
    Status state = 0;
    float waves = 0.0F;
    int reserved[4] = {};
};

enum DataType : int {  // cudaDataType_t
    r_32f = 0,
    r_64f = 1,
    r_16f = 2,
    r_16bf = 14,
    r_8f_e4m3 = 28,
    r_8f_e5m2 = 29,
};

enum ComputeType : int {  // cublasComputeType_t
    compute_32f = 68,
    compute_64f = 70,
    compute_32f_fast_tf32 = 77,
};

constexpr int op_n = 0;  // cublasOperation_t
constexpr int op_t = 1;

enum LayoutAttribute : int {
    layout_batch_count = 5,   // int32
    layout_batch_offset = 6,  // int64, elements
};

enum DescAttribute : int {
    desc_transa = 3,  // int32
    desc_transb = 4,
    desc_epilogue = 7,      // uint32
    desc_bias_pointer = 8,  // pointer
    desc_a_scale_pointer = 17,
    desc_b_scale_pointer = 18,
    desc_bias_data_type = 26,  // int32
};

enum Epilogue : std::uint32_t {
    epilogue_default = 1,
    epilogue_relu = 2,
    epilogue_bias = 4,
    epilogue_relu_bias = 6,
    epilogue_gelu = 32,
    epilogue_gelu_bias = 36,
};

enum PreferenceAttribute : int {
    preference_max_workspace = 1,      // uint64
    preference_reduction_schemes = 3,  // uint32
};

enum ReductionScheme : std::uint32_t {
    reduction_none = 0,
    reduction_in_place = 1,
    reduction_compute_type = 2,
    reduction_output_type = 4,
    reduction_all = 7,
};

enum Capability : int {
    cap_splitk = 0,            // int32
    cap_reduction_mask = 1,    // uint32
    cap_swizzling = 2,         // uint32
    cap_tiles = 6,             // uint32 []
    cap_custom_max = 7,        // int32
    cap_stages = 13,           // uint32 []
    cap_numerical_flags = 15,  // uint64
};

enum Config : int {
    config_id = 0,         // int32
    config_tile = 1,       // uint32
    config_splitk = 2,     // int32
    config_reduction = 3,  // uint32
    config_swizzling = 4,  // uint32
    config_custom = 5,     // uint32
    config_stages = 6,     // uint32
    config_inner = 7,      // uint16
    config_cluster = 8,    // uint16
};

// cublasLtNumericalImplFlags_t
constexpr std::uint64_t flags_tensor_op = 0xfe;
constexpr std::uint64_t flags_input_f16 = 0x01ULL << 16;
constexpr std::uint64_t flags_input_bf16 = 0x02ULL << 16;
constexpr std::uint64_t flags_input_tf32 = 0x04ULL << 16;

/// The functions. Never unloaded. [any]
struct Api {
    LoadedLibrary library;
    Status (*create)(Handle*) = nullptr;
    Status (*destroy)(Handle) = nullptr;
    std::size_t (*get_version)() = nullptr;
    const char* (*status_string)(Status) = nullptr;
    Status (*layout_create)(Layout*, DataType, std::uint64_t, std::uint64_t,
                            std::int64_t) = nullptr;
    Status (*layout_destroy)(Layout) = nullptr;
    Status (*layout_set)(Layout, LayoutAttribute, const void*, std::size_t) = nullptr;
    Status (*desc_create)(MatmulDesc*, ComputeType, DataType) = nullptr;
    Status (*desc_destroy)(MatmulDesc) = nullptr;
    Status (*desc_set)(MatmulDesc, DescAttribute, const void*, std::size_t) = nullptr;
    Status (*preference_create)(Preference*) = nullptr;
    Status (*preference_destroy)(Preference) = nullptr;
    Status (*preference_set)(Preference, PreferenceAttribute, const void*, std::size_t) = nullptr;
    Status (*heuristic)(Handle, MatmulDesc, Layout, Layout, Layout, Layout, Preference, int,
                        HeuristicResult*, int*) = nullptr;
    Status (*ids)(Handle, ComputeType, DataType, DataType, DataType, DataType, DataType, int, int*,
                  int*) = nullptr;
    Status (*init)(Handle, ComputeType, DataType, DataType, DataType, DataType, DataType, int,
                   Algorithm*) = nullptr;
    Status (*check_algorithm)(Handle, MatmulDesc, Layout, Layout, Layout, Layout, const Algorithm*,
                              HeuristicResult*) = nullptr;
    Status (*capability)(const Algorithm*, Capability, void*, std::size_t, std::size_t*) = nullptr;
    Status (*config_set)(Algorithm*, Config, const void*, std::size_t) = nullptr;
    Status (*config_get)(const Algorithm*, Config, void*, std::size_t, std::size_t*) = nullptr;
    Status (*matmul)(Handle, MatmulDesc, const void*, const void*, Layout, const void*, Layout,
                     const void*, const void*, Layout, void*, Layout, const Algorithm*, void*,
                     std::size_t, void*) = nullptr;

    /// Loads libcublasLt.so.13 or .12. @throws Error unsupported
    explicit Api(const std::vector<std::string>& folders);

    /// "13.1.0"
    [[nodiscard]] std::string version() const;
    /// @throws Error `cublasLt VERSION: WHAT: STATUS` unless `status` is success: unsupported where
    /// the library says so, else device_unavailable
    void check(Status status, std::string_view what) const;
};

/// "13.1.0" from 130100 (13.x counts major * 10000 + minor * 100 + patch).
[[nodiscard]] std::string version_text(std::size_t version);

/// @throws Error unsupported for an element type that cuBLASLt has no matmul of
[[nodiscard]] DataType data_type(std::string_view dtype);

}  // namespace kernelforge::worker::library::lt
