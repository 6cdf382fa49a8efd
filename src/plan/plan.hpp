// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernelforge/candidate.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/error.hpp"
#include "kernelforge/evaluator.hpp"
#include "plan/expression.hpp"

// The launch plan of a candidate: parsed from its `//@` lines (docs/candidate_format.md), checked
// against a definition, and resolved to numbers for one workload on one device.

namespace kernelforge::plan {

struct Tune {
    std::string name;
    std::vector<std::int64_t> values;     ///< at least one, in source order
    std::optional<Expression> condition;  ///< which combinations are meant (`if …`)
    SourcePosition position;
};

struct Let {
    std::string name;
    Expression value;
    SourcePosition position;
};

struct Workspace {
    enum class Init { undef, zero, selfzero };
    std::string name;
    std::string element;  ///< `i8 i16 i32 i64 u8 … u64 f16 bf16 f32 f64`
    std::size_t element_bytes = 1;
    std::vector<Expression> extents;  ///< at least one
    Init init = Init::undef;
    std::int64_t align = 256;  ///< a power of two, at most 4096
    SourcePosition position;
};

struct Symbol {
    std::string expression;  ///< C++ name expression, `gemm<THREADS, 64>`
    std::string alias;
    SourcePosition position;
};

/// `//@tensormap`: how the tensor memory accelerator sees a buffer. Extents are innermost first.
struct TensorMap {
    enum class Swizzle { none, bytes32, bytes64, bytes128 };
    enum class L2Promotion { none, bytes64, bytes128, bytes256 };
    std::string name;
    std::string buffer;                ///< input, output or workspace
    std::string dtype;                 ///< `i8 … f64`, as of a workspace; `f8` is u8
    std::vector<Expression> dims;      ///< elements, one to five
    std::vector<Expression> strides;   ///< bytes, one less than dims; multiples of 16
    std::vector<Expression> box;       ///< elements, as many as dims, at most 256 each
    std::vector<Expression> steps;     ///< element strides; empty: all 1
    std::optional<Expression> offset;  ///< bytes from the buffer's start; a multiple of 16
    Swizzle swizzle = Swizzle::none;
    L2Promotion l2 = L2Promotion::none;
    bool nan_fill = false;  ///< out-of-bounds elements are NaN instead of 0
    SourcePosition position;
};

/// One kernel argument as written.
struct Argument {
    enum class Kind { buffer, integer, floating, tensor_map };
    Kind kind = Kind::buffer;
    std::string name;  ///< of a buffer: input, output or workspace; of a tensor map
    std::string type;  ///< of a scalar: `i8 … i64 u8 … u64 f16 bf16 f32 f64`
    std::optional<Expression> integer;
    std::optional<FloatExpression> floating;
    SourcePosition position;
};

struct Launch {
    std::string kernel;  ///< a function name of the source, or an alias
    std::array<Expression, 3> grid;
    std::array<Expression, 3> block;
    Expression shared_bytes;  ///< dynamic
    std::optional<std::array<Expression, 3>> cluster;
    bool cooperative = false;
    bool pdl = false;  ///< programmatic stream serialization: may start before the step above ends
    std::vector<Argument> arguments;
    SourcePosition position;
    /// The kernel's own `__cluster_dims__`, where it is an integer expression of macros. The launch
    /// must not set it; it is here so that the grid can be checked against it.
    std::optional<std::array<Expression, 3>> fixed_cluster;
};

struct Memset {
    std::string buffer;  ///< output or workspace
    Expression value;    ///< a byte, 0 to 255
    SourcePosition position;
};

/// One `key=value` of a `//@call`.
struct CallArgument {
    enum class Kind { buffer, word, integer, floating };
    std::string key;
    Kind kind = Kind::buffer;
    std::string name;         ///< of a buffer; the word of a word (`relu`)
    std::string type;         ///< of a buffer, where it was written: `xq:e4m3`
    bool transposed = false;  ///< `w^T`
    std::optional<Expression> integer;
    std::optional<FloatExpression> floating;
    SourcePosition position;
};

/// A trusted library step. Functions, their keys and what each means: docs/candidate_format.md; the
/// table is in call.cpp.
struct Call {
    std::string function;  ///< `matmul`, `sdpa`, `reduce`, `sort`
    std::vector<CallArgument> arguments;
    SourcePosition position;
};

using Step = std::variant<Launch, Memset, Call>;

/// Steps that run when the condition is the first true one among its neighbours. No condition:
/// always reached (`else`).
struct Case {
    std::optional<Expression> condition;
    std::vector<Step> steps;
    SourcePosition position;
};

struct Plan {
    std::string file;
    int version = 1;
    std::string requires_arch;         ///< `sm_90a`; empty: any
    std::vector<std::string> options;  ///< compiler options, from the allow-list
    std::vector<Tune> tunes;
    std::vector<Let> lets;
    std::optional<Expression> valid;
    std::vector<Workspace> workspaces;
    std::vector<Symbol> symbols;
    std::vector<TensorMap> tensor_maps;
    /// `//@prepare` steps, in order: launches and memsets that read constant inputs and prepared
    /// workspaces only, and write workspaces. They run when constant inputs change, not in a call.
    std::vector<Step> prepare;
    std::vector<std::string> specialized;  ///< axis names
    std::vector<Step> steps;               ///< before the first `//@case`
    std::vector<Case> cases;
    SourcePosition requires_position;
};

/// Parses and checks all that can be checked without numbers: syntax, unknown and duplicate names,
/// options outside the allow-list, a launch of a kernel that the source does not define, the number
/// of arguments and their types against the kernel's parameter list where the source shows it.
/// `file` is used in messages only.
/// `constant_inputs`: what `//@prepare` may read.
/// @throws Error parse with position, what was expected and what was found
[[nodiscard]] Plan parse_plan(std::string_view source, std::string file,
                              const Definition& definition,
                              const std::vector<std::string>& constant_inputs = {});

/// Whether any step of the plan is a library step, which the task's policy must allow.
[[nodiscard]] bool has_calls(const Plan& plan);

/// Where the first `//@call` line of a text is, whether or not the rest is a plan; nothing when
/// there is none.
[[nodiscard]] std::optional<SourcePosition> first_call(std::string_view source);

/// The candidate format in about 40 lines, for a model's prompt: how to write the plan, with a
/// small complete example. The whole of it is in docs/candidate_format.md.
[[nodiscard]] std::string_view format_summary();

/// What to say in addition where the task's policy allows library steps.
[[nodiscard]] std::string_view call_summary();

/// Whether the text has at least one `//@launch`, `//@call` or `//@kernelforge` line.
[[nodiscard]] bool has_plan(std::string_view source);

/// What expressions may ask about a tensor.
struct TensorFacts {
    std::vector<std::int64_t> shape;
    std::uint64_t address = 0;  ///< for align(x); 0: treat as aligned to 256
    DType dtype = DType::float32;
};

/// Everything that resolving needs besides the plan.
struct Environment {
    std::map<std::string, std::int64_t> axes;    ///< all axes, by name
    std::map<std::string, double> scalars;       ///< scalar inputs, by name
    Bindings bindings;                           ///< absent tunables take their first value
    std::map<std::string, TensorFacts> tensors;  ///< inputs and outputs, by name
    DeviceInfo device;
    /// Blocks per multiprocessor of a kernel (plan name) at a block size and dynamic shared size,
    /// for OCC(kernel). Empty: OCC is 1 (before compilation).
    std::function<int(const std::string& kernel, int threads, std::int64_t shared_bytes)> occupancy;
    /// Largest number of resident clusters, for CLUSTERS(kernel). Empty: 1.
    std::function<int(const std::string& kernel, int threads, std::int64_t shared_bytes,
                      int cluster)>
        clusters;
};

struct ResolvedArgument {
    Argument::Kind kind = Argument::Kind::buffer;
    std::string name;                  ///< of a buffer or tensor map
    std::array<std::byte, 8> value{};  ///< of a scalar, little-endian, `size` bytes of it
    std::size_t size = 8;              ///< of the kernel's parameter; 128 of a tensor map
};

struct ResolvedLaunch {
    std::string kernel;  ///< plan name
    std::array<std::int64_t, 3> grid{1, 1, 1};
    std::array<std::int64_t, 3> block{1, 1, 1};
    std::array<std::int64_t, 3> cluster{1, 1, 1};
    bool has_cluster = false;
    std::int64_t shared_bytes = 0;
    bool cooperative = false;
    bool pdl = false;
    std::vector<ResolvedArgument> arguments;
    SourcePosition position;
};

struct ResolvedTensorMap {
    std::string name;
    std::string buffer;
    std::string dtype;
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> strides;
    std::vector<std::int64_t> box;
    std::vector<std::int64_t> steps;  ///< as many as dims
    std::int64_t offset = 0;
    TensorMap::Swizzle swizzle = TensorMap::Swizzle::none;
    TensorMap::L2Promotion l2 = TensorMap::L2Promotion::none;
    bool nan_fill = false;
    SourcePosition position;
};

struct ResolvedCallArgument {
    std::string key;
    CallArgument::Kind kind = CallArgument::Kind::buffer;
    std::string name;
    bool transposed = false;
    std::int64_t integer = 0;
    double floating = 0.0;
    std::string dtype;                ///< of a buffer: `f32 bf16 e4m3 i64 …`
    std::vector<std::int64_t> shape;  ///< of a buffer, elements, dense and row-major
};

struct ResolvedCall {
    std::string function;
    std::vector<ResolvedCallArgument> arguments;  ///< checked against the function's signature
    SourcePosition position;

    /// The argument of this key; null where it was not given.
    [[nodiscard]] const ResolvedCallArgument* find(std::string_view key) const;
};

struct ResolvedMemset {
    std::string buffer;
    std::uint8_t value = 0;
    bool implied = false;  ///< comes from `init=zero`
    SourcePosition position;
};

struct ResolvedWorkspace {
    std::string name;
    std::int64_t bytes = 0;  ///< > 0
    std::int64_t align = 256;
    Workspace::Init init = Workspace::Init::undef;
    bool prepared = false;            ///< a `//@prepare` step names it
    std::string element;              ///< as `Workspace::element`
    std::vector<std::int64_t> shape;  ///< elements
};

using ResolvedStep = std::variant<ResolvedLaunch, ResolvedMemset, ResolvedCall>;

struct ResolvedPlan {
    bool valid = true;  ///< the plan's `//@valid`; when false the rest is empty
    std::vector<ResolvedWorkspace> workspaces;
    /// In order, with the memsets of `init=zero` workspaces in front.
    std::vector<ResolvedStep> steps;
    std::vector<ResolvedStep> prepare;
    std::vector<ResolvedTensorMap> tensor_maps;
};

/// Numbers for one workload. Checks against the device: grid and block extents (also 2^31 - 1 and
/// 65535 limits), threads per block, shared memory, cluster size (at most 16, over 8 where the
/// device allows non-portable sizes, and a divisor of the grid), a cooperative grid over residency
/// (where `occupancy` is given), workspace sizes (at most device memory), overflow and division by
/// zero in any expression, a tune value outside its list.
/// @throws Error invalid_argument with the position of the line in the candidate
[[nodiscard]] ResolvedPlan resolve(const Plan& plan, const Environment& environment);

/// Whether the plan's `//@valid` holds; true without one. Nothing else of the plan is looked at, so
/// that shapes can be drawn before anything is compiled.
/// @throws Error invalid_argument with position, where the condition itself cannot be evaluated
[[nodiscard]] bool is_valid_for(const Plan& plan, const Environment& environment);

/// The least alignment in bytes of `tensor` for which `//@valid` holds, a power of two from 1 to
/// 256, while all other tensors are as `environment` says; 256 when none does. Nothing when
/// `//@valid` does not ask `align(tensor)`, itself or through a let.
[[nodiscard]] std::optional<std::int64_t> demanded_alignment(const Plan& plan,
                                                             const Environment& environment,
                                                             const std::string& tensor);

/// The compile request of a candidate for the given axis values: options, defines (constant axes,
/// tunables, specialised axes, in that order) and kernels. Equal requests need one build. A plan
/// that launches nothing (library steps only) has no kernels and needs no build.
/// @throws Error invalid_argument (a binding that the plan does not list)
[[nodiscard]] CompileRequest compile_request(const Plan& plan, const Candidate& candidate,
                                             const Definition& definition,
                                             const std::map<std::string, std::int64_t>& axes,
                                             const std::string& arch);

/// Checks the plan against what was compiled: every launched kernel exists, its parameter count and
/// sizes agree with the arguments, launch bounds are not exceeded, static plus dynamic shared
/// memory fits. @throws Error invalid_argument with position
void check_build(const Plan& plan, const ResolvedPlan& resolved, const CompileResult& build,
                 const DeviceInfo& device);

/// Rewrites a pasted host launcher: when the text has no `//@launch` line but host code with
/// `kernel<<<grid, block, …>>>(args…)` lines that can be understood without ambiguity, returns the
/// text with the host functions and host-only includes removed and `//@launch` lines added; nothing
/// otherwise, with the reason in `why_not`.
[[nodiscard]] std::optional<std::string> lift_host_launcher(std::string_view source,
                                                            const Definition& definition,
                                                            std::string& why_not);

}  // namespace kernelforge::plan
