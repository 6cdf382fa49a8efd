// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernelforge/export.hpp"

namespace kernelforge {

/// Element types, with the names that the definition format uses (`bfloat16`, …).
enum class DType {
    float64,
    float32,
    float16,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float4_e2m1,
    int64,
    int32,
    int16,
    int8,
    uint8,
    boolean,
};

[[nodiscard]] constexpr std::string_view to_string(DType dtype) noexcept {
    switch (dtype) {
        case DType::float64:
            return "float64";
        case DType::float32:
            return "float32";
        case DType::float16:
            return "float16";
        case DType::bfloat16:
            return "bfloat16";
        case DType::float8_e4m3fn:
            return "float8_e4m3fn";
        case DType::float8_e5m2:
            return "float8_e5m2";
        case DType::float4_e2m1:
            return "float4_e2m1";
        case DType::int64:
            return "int64";
        case DType::int32:
            return "int32";
        case DType::int16:
            return "int16";
        case DType::int8:
            return "int8";
        case DType::uint8:
            return "uint8";
        case DType::boolean:
            return "bool";
    }
    return "unknown";
}

/// Bits of one element: 4 for float4_e2m1, otherwise a multiple of 8.
[[nodiscard]] constexpr std::size_t bits_of(DType dtype) noexcept {
    switch (dtype) {
        case DType::float64:
        case DType::int64:
            return 64;
        case DType::float32:
        case DType::int32:
            return 32;
        case DType::float16:
        case DType::bfloat16:
        case DType::int16:
            return 16;
        case DType::float4_e2m1:
            return 4;
        default:
            return 8;
    }
}

/// One named extent. `constant` axes are known to the kernel's author, `variable` ones come with
/// each workload, `expression` ones are computed from others.
struct Axis {
    enum class Kind { constant, variable, expression };
    std::string name;
    Kind kind = Kind::variable;
    std::int64_t value = 0;  ///< of a constant axis, > 0
    std::string expression;  ///< of an expression axis, integer arithmetic over other axes
    std::string description;
};

/// An input or output. Tensors are dense and row-major: the last axis is contiguous.
struct TensorSpec {
    std::string name;
    std::vector<std::string> shape;  ///< axis names, outermost first; empty for a 0-D tensor
    bool scalar = false;             ///< `shape: null` in the format: passed by value, not a tensor
    DType dtype = DType::float32;
    std::string description;
};

/// The operation, in the words of the flashinfer-bench / SOL-ExecBench format.
struct Definition {
    std::string name;
    std::string op_type;
    std::string description;
    std::vector<Axis> axes;           ///< in file order
    std::vector<TensorSpec> inputs;   ///< in file order, which is the argument order
    std::vector<TensorSpec> outputs;  ///< likewise
    std::string reference;            ///< PyTorch source that defines `run`
    std::vector<std::string> constraints;
};

/// Values of one scalar input in a workload.
using ScalarValue = double;

/// One concrete problem: a value for every variable axis, and one for every scalar input.
struct Workload {
    std::string uuid;
    std::map<std::string, std::int64_t> axes;    ///< variable axes only
    std::map<std::string, ScalarValue> scalars;  ///< scalar inputs by name
    double weight = 1.0;                         ///< share of this workload in geometric means, > 0
};

/// How an input's values are drawn. The referee varies scale and shape of the values around this
/// (its "distributions"), so `normal` says what is natural for the input, not what it always gets.
struct InitSpec {
    enum class Kind {
        normal,       ///< mean, stddev
        uniform,      ///< [low, high)
        integers,     ///< uniform integers in [low, high]
        constant,     ///< low
        permutation,  ///< along the last axis, of 0 … extent-1
        heavy_tail,   ///< normal with occasional values up to 100 times larger
        offsets,      ///< starts of ragged segments: 0, non-decreasing, the last one is `bound`
        distinct,     ///< different integers in [0, bound), in random order; one axis
    };
    Kind kind = Kind::normal;
    double mean = 0.0;
    double stddev = 1.0;
    double low = 0.0;
    double high = 1.0;
    std::string bound;  ///< axis name, for offsets and distinct
    /// Name of an input of kind `distinct` whose values index the first axis of this one: slices
    /// that it does not name are NaN (or all bits set), so that reading one shows. Empty: all are
    /// used.
    std::string used_by;
    /// False: the referee always draws the natural values. For inputs of an operation that is well
    /// conditioned at its natural scale only (products that are exponentiated).
    bool varied = true;
};

/// Numerical expectation of an output: the largest normalised root-mean-square error
/// sqrt(mean((y-ref)²)) / sqrt(mean(ref²)) that still passes. Values and their origin:
/// docs/referee.md.
enum class PrecisionTier { float64, float32, tensor_float32, float16, bfloat16, float8 };

[[nodiscard]] constexpr std::string_view to_string(PrecisionTier tier) noexcept {
    switch (tier) {
        case PrecisionTier::float64:
            return "float64";
        case PrecisionTier::float32:
            return "float32";
        case PrecisionTier::tensor_float32:
            return "tensor_float32";
        case PrecisionTier::float16:
            return "float16";
        case PrecisionTier::bfloat16:
            return "bfloat16";
        case PrecisionTier::float8:
            return "float8";
    }
    return "unknown";
}

/// How one output is compared with the reference.
struct CompareSpec {
    enum class Kind {
        rms,       ///< normalised root-mean-square error of the whole, of tiles, of elements
        exact,     ///< equal elements
        set,       ///< integers: each run of the last axis holds the same values in any order
        by_index,  ///< element p of a run belongs to the value at p of `index`, a `set` output
        lse,       ///< logarithms of sums: absolute errors; infinities must agree
        ragged,    ///< rms over each segment of the first axis that `offsets` names
        samples,   ///< drawn from the distributions in `probabilities`
        custom,    ///< by a comparator plugin
    };
    Kind kind = Kind::rms;
    PrecisionTier tier = PrecisionTier::float32;
    double slack = 1.0;   ///< multiplies the tier's bound, > 0
    std::string custom;   ///< name of a comparator plugin, for Kind::custom
    std::string index;    ///< by_index: output of kind set
    std::string offsets;  ///< ragged: input of init kind offsets
    /// set: workspace of the reference, `u8 [rows, n]`: 1 where value i of [0, n) may be in or out
    /// of the row's set within rounding (a near tie). Empty: no ties are allowed.
    std::string ties;
    /// samples: workspace of the reference, `f32 [rows, n]`: probability of each value of [0, n).
    std::string probabilities;
};

/// What a user would call today.
struct BaselineSpec {
    /// All but `command` are sources in candidate form; those named after a library are plans whose
    /// work is `//@call` steps of that library.
    enum class Kind { cuda, cublaslt, cudnn, cub, command };
    std::string name;
    Kind kind = Kind::cuda;
    std::string source;                ///< text of the .cu file; of the script, for Kind::command
    std::string source_path;           ///< where `source` was read from, for messages
    std::vector<std::string> command;  ///< argv, for Kind::command; see docs/task_format.md
};

/// What candidates may use.
struct Policy {
    bool vector_fp32_only = false;  ///< no matrix instructions
    bool library_calls = false;     ///< `//@call` steps
};

/// A definition together with all that is needed to judge candidates for it.
struct Task {
    Definition definition;
    std::vector<Workload> workloads;
    std::vector<Workload> emulator_workloads;
    /// Constant axes that have another value on an emulated device, where an operation of the real
    /// extents would take minutes.
    std::map<std::string, std::int64_t> emulator_axes;
    std::string reference_cuda;       ///< trusted source in candidate form; empty: none
    std::string reference_cuda_path;  ///< where it was read from, for messages
    std::vector<BaselineSpec> baselines;
    std::map<std::string, InitSpec> init;  ///< by input name; absent: standard normal
    std::map<std::string, CompareSpec>
        compare;  ///< by output name; absent: rms at the tier of its dtype
    std::map<std::string, std::string> inplace;  ///< output name → the input that shares its buffer
    std::vector<std::string> unused_inputs;      ///< that no output depends on
    std::vector<std::string> constant_inputs;    ///< weights, which may be prepared once
    std::map<std::string, std::pair<std::int64_t, std::int64_t>>
        axis_ranges;    ///< for hidden shapes
    std::string flops;  ///< integer expression over axes; empty: unknown
    std::string
        bytes;  ///< compulsory bytes; empty: every input read once and every output written once
    Policy policy;
    std::string folder;  ///< absolute path of the task folder; empty for a task built in memory
};

/// Reads `definition.json`, `workload.jsonl` and the files that they name.
/// @throws Error parse (with file, line, column), io, not_found, unsupported
[[nodiscard]] KERNELFORGE_EXPORT Task load_task(const std::string& folder);

/// Checks a task that was built in memory, by the same rules as `load_task`.
/// @throws Error invalid_argument
KERNELFORGE_EXPORT void check_task(const Task& task);

/// Values of all axes of `definition` in `workload`, by name: constant, variable and computed ones.
/// @throws Error invalid_argument when a variable axis is missing or an expression fails
[[nodiscard]] KERNELFORGE_EXPORT std::map<std::string, std::int64_t> axis_values(
    const Definition& definition, const Workload& workload);

}  // namespace kernelforge
