// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/library_loading.hpp"

// The part of cuDNN 9's backend interface that is used, declared here so that a build needs no
// header of it. Names and values are those of cudnn_graph_v9.h.

namespace kernelforge::worker::library::dnn {

using Status = int;  ///< cudnnStatus_t; 0 is success
using Handle = void*;
using RawDescriptor = void*;

enum AttributeType : int {
    type_handle = 0,
    type_data_type = 1,
    type_boolean = 2,
    type_int64 = 3,
    type_void_ptr = 6,
    type_heur_mode = 8,
    type_pointwise_mode = 14,
    type_descriptor = 15,
    type_reduction_operator = 18,
};

enum DescriptorType : int {
    descriptor_pointwise = 0,
    descriptor_engine = 2,
    descriptor_engine_config = 3,
    descriptor_heuristics = 4,
    descriptor_plan = 5,
    descriptor_operation_pointwise = 13,
    descriptor_graph = 15,
    descriptor_variant_pack = 16,
    descriptor_tensor = 17,
    descriptor_matmul = 18,
    descriptor_operation_matmul = 19,
    descriptor_reduction = 21,
    descriptor_operation_reduction = 22,
};

enum DataType : int {
    data_float = 0,
    data_half = 2,
    data_int32 = 4,
    data_bfloat16 = 9,
    data_boolean = 11,
};

enum PointwiseMode : int {
    pointwise_add = 0,
    pointwise_mul = 1,
    pointwise_div = 6,
    pointwise_sub = 9,
    pointwise_exp = 13,
    pointwise_log = 15,
    pointwise_cmp_ge = 303,
    pointwise_gen_index = 501,
    pointwise_binary_select = 601,
};

enum ReductionOperator : int {
    reduction_add = 0,
    reduction_max = 3,
};

constexpr int heuristics_mode_a = 3;

/// An attribute with its name for messages.
struct Attribute {
    int id = 0;
    const char* name = "";
};

constexpr Attribute pointwise_mode{0, "POINTWISE_MODE"};
constexpr Attribute pointwise_precision{1, "POINTWISE_MATH_PREC"};
constexpr Attribute pointwise_axis{9, "POINTWISE_AXIS"};
constexpr Attribute heuristics_mode{200, "ENGINEHEUR_MODE"};
constexpr Attribute heuristics_graph{201, "ENGINEHEUR_OPERATION_GRAPH"};
constexpr Attribute heuristics_results{202, "ENGINEHEUR_RESULTS"};
constexpr Attribute config_engine{300, "ENGINECFG_ENGINE"};
constexpr Attribute plan_handle{400, "EXECUTION_PLAN_HANDLE"};
constexpr Attribute plan_config{401, "EXECUTION_PLAN_ENGINE_CONFIG"};
constexpr Attribute plan_workspace{402, "EXECUTION_PLAN_WORKSPACE_SIZE"};
constexpr Attribute operation_pointwise_descriptor{750, "OPERATION_POINTWISE_PW_DESCRIPTOR"};
constexpr Attribute operation_pointwise_x{751, "OPERATION_POINTWISE_XDESC"};
constexpr Attribute operation_pointwise_b{752, "OPERATION_POINTWISE_BDESC"};
constexpr Attribute operation_pointwise_y{753, "OPERATION_POINTWISE_YDESC"};
constexpr Attribute operation_pointwise_t{758, "OPERATION_POINTWISE_TDESC"};
constexpr Attribute graph_handle{800, "OPERATIONGRAPH_HANDLE"};
constexpr Attribute graph_operations{801, "OPERATIONGRAPH_OPS"};
constexpr Attribute tensor_alignment{900, "TENSOR_BYTE_ALIGNMENT"};
constexpr Attribute tensor_type{901, "TENSOR_DATA_TYPE"};
constexpr Attribute tensor_dimensions{902, "TENSOR_DIMENSIONS"};
constexpr Attribute tensor_strides{903, "TENSOR_STRIDES"};
constexpr Attribute tensor_id{906, "TENSOR_UNIQUE_ID"};
constexpr Attribute tensor_virtual{907, "TENSOR_IS_VIRTUAL"};
constexpr Attribute tensor_by_value{908, "TENSOR_IS_BY_VALUE"};
constexpr Attribute pack_ids{1000, "VARIANT_PACK_UNIQUE_IDS"};
constexpr Attribute pack_pointers{1001, "VARIANT_PACK_DATA_POINTERS"};
constexpr Attribute pack_workspace{1003, "VARIANT_PACK_WORKSPACE"};
constexpr Attribute engine_index{1301, "ENGINE_GLOBAL_INDEX"};
constexpr Attribute matmul_type{1500, "MATMUL_COMP_TYPE"};
constexpr Attribute operation_matmul_a{1520, "OPERATION_MATMUL_ADESC"};
constexpr Attribute operation_matmul_b{1521, "OPERATION_MATMUL_BDESC"};
constexpr Attribute operation_matmul_c{1522, "OPERATION_MATMUL_CDESC"};
constexpr Attribute operation_matmul_descriptor{1523, "OPERATION_MATMUL_DESC"};
constexpr Attribute reduction_operator{1600, "REDUCTION_OPERATOR"};
constexpr Attribute reduction_type{1601, "REDUCTION_COMP_TYPE"};
constexpr Attribute operation_reduction_x{1610, "OPERATION_REDUCTION_XDESC"};
constexpr Attribute operation_reduction_y{1611, "OPERATION_REDUCTION_YDESC"};
constexpr Attribute operation_reduction_descriptor{1612, "OPERATION_REDUCTION_DESC"};

/// The functions. Never unloaded. [any]
struct Api {
    LoadedLibrary library;
    std::size_t (*get_version)() = nullptr;
    const char* (*error_string)(Status) = nullptr;
    void (*last_error)(char*, std::size_t) = nullptr;
    Status (*create)(Handle*) = nullptr;
    Status (*destroy)(Handle) = nullptr;
    Status (*set_stream)(Handle, void*) = nullptr;
    Status (*descriptor_create)(int, RawDescriptor*) = nullptr;
    Status (*descriptor_destroy)(RawDescriptor) = nullptr;
    Status (*finalize)(RawDescriptor) = nullptr;
    Status (*set_attribute)(RawDescriptor, int, int, std::int64_t, const void*) = nullptr;
    Status (*get_attribute)(RawDescriptor, int, int, std::int64_t, std::int64_t*, void*) = nullptr;
    Status (*execute)(Handle, RawDescriptor, RawDescriptor) = nullptr;

    /// Loads libcudnn.so.9. @throws Error unsupported
    explicit Api(const std::vector<std::string>& folders);

    /// "9.19.0"
    [[nodiscard]] std::string version() const;
    /// @throws Error `cudnn VERSION: WHAT: STATUS: REASON` unless `status` is success: unsupported
    /// for the statuses of that kind, else device_unavailable
    void check(Status status, const std::string& what) const;
};

/// The library with its handle for the current context. [device]
struct Session {
    Api api;
    Handle handle = nullptr;

    /// @throws Error unsupported, device_unavailable
    explicit Session(const std::vector<std::string>& folders);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
};

/// One backend descriptor; `name` says in messages what it stands for. [device]
class Descriptor {
  public:
    Descriptor(const Api& api, DescriptorType type, std::string name);
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    [[nodiscard]] RawDescriptor raw() const noexcept { return raw_; }
    void set(const Attribute& attribute, AttributeType type, std::int64_t count,
             const void* values);
    void set(const Attribute& attribute, AttributeType type, int value);
    void set(const Attribute& attribute, std::int64_t value);
    void set(const Attribute& attribute, bool value);
    void set(const Attribute& attribute, const std::vector<std::int64_t>& values);
    void set(const Attribute& attribute, const Descriptor& value);
    void finalize();

  private:
    const Api& api_;
    std::string name_;
    RawDescriptor raw_ = nullptr;
};

}  // namespace kernelforge::worker::library::dnn
