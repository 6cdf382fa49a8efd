// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/definition.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <span>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "plan/expression.hpp"
#include "referee/limits.hpp"
#include "task_text.hpp"

namespace kernelforge {
namespace {

// Far above any real task; they keep hostile files from costing time that is quadratic in their
// size.
constexpr std::size_t max_axes = 256;
constexpr std::size_t max_tensors = 256;
constexpr std::size_t max_rank = 16;
constexpr std::size_t max_workloads = 10'000;
constexpr std::size_t max_definition_bytes = std::size_t{16} << 20;
constexpr std::size_t max_workload_bytes = std::size_t{64} << 20;
constexpr std::size_t max_source_bytes = std::size_t{4} << 20;
/// Integers up to here are exact in a double.
constexpr std::int64_t max_exact = std::int64_t{1} << 53;

template <class Enum>
struct Named {
    std::string_view name;
    Enum value;
};

constexpr std::array dtypes{
    DType::float64,     DType::float32,     DType::float16, DType::bfloat16, DType::float8_e4m3fn,
    DType::float8_e5m2, DType::float4_e2m1, DType::int64,   DType::int32,    DType::int16,
    DType::int8,        DType::uint8,       DType::boolean,
};

constexpr std::array<Named<Axis::Kind>, 3> axis_kinds{{
    {"const", Axis::Kind::constant},
    {"var", Axis::Kind::variable},
    {"expr", Axis::Kind::expression},
}};

constexpr std::array<Named<InitSpec::Kind>, 6> init_kinds{{
    {"normal", InitSpec::Kind::normal},
    {"uniform", InitSpec::Kind::uniform},
    {"integers", InitSpec::Kind::integers},
    {"constant", InitSpec::Kind::constant},
    {"permutation", InitSpec::Kind::permutation},
    {"heavy_tail", InitSpec::Kind::heavy_tail},
}};

constexpr std::array<Named<CompareSpec::Kind>, 6> compare_kinds{{
    {"rms", CompareSpec::Kind::rms},
    {"exact", CompareSpec::Kind::exact},
    {"set", CompareSpec::Kind::set},
    {"by_index", CompareSpec::Kind::by_index},
    {"lse", CompareSpec::Kind::lse},
    {"custom", CompareSpec::Kind::custom},
}};

constexpr std::array tiers{
    PrecisionTier::float64, PrecisionTier::float32,  PrecisionTier::tensor_float32,
    PrecisionTier::float16, PrecisionTier::bfloat16, PrecisionTier::float8,
};

constexpr std::array<Named<BaselineSpec::Kind>, 4> baseline_kinds{{
    {"cuda", BaselineSpec::Kind::cuda},
    {"cublaslt", BaselineSpec::Kind::cublaslt},
    {"cudnn", BaselineSpec::Kind::cudnn},
    {"command", BaselineSpec::Kind::command},
}};

/// Words that cannot name an axis or a tensor: keywords of C++20, names of CUDA, and what launch
/// plans give a meaning of their own (docs/candidate_format.md).
constexpr auto reserved_words = std::to_array<std::string_view>(
    {"alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
     "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return",
     "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
     "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
     "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
     "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
     "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
     "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
     "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef",
     "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
     "while", "xor", "xor_eq",
     // CUDA
     "__global__", "__device__", "__host__", "__shared__", "__constant__", "__managed__",
     "__grid_constant__", "__launch_bounds__", "__restrict__", "__forceinline__", "__noinline__",
     "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "dim3", "half", "nv_bfloat16",
     // launch plans
     "SMS", "L2", "SMEM_MAX", "OCC", "CLUSTERS", "align", "stride", "numel", "min", "max", "cdiv",
     "sqrt", "rsqrt", "exp", "log", "log2", "pow", "i8", "i16", "i32", "i64", "u8", "f32", "f64",
     "coop", "pdl", "cluster"});

bool is_identifier(std::string_view name) {
    const auto letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    if (name.empty() || name.size() > 64 || !letter(name[0])) return false;
    return std::all_of(name.begin(), name.end(),
                       [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_integer(DType dtype) {
    switch (dtype) {
        case DType::int64:
        case DType::int32:
        case DType::int16:
        case DType::int8:
        case DType::uint8:
        case DType::boolean:
            return true;
        default:
            return false;
    }
}

/// Smallest and largest value of an integer type, as far as a double is exact.
std::pair<double, double> integer_range(DType dtype) {
    switch (dtype) {
        case DType::int32:
            return {-2147483648.0, 2147483647.0};
        case DType::int16:
            return {-32768.0, 32767.0};
        case DType::int8:
            return {-128.0, 127.0};
        case DType::uint8:
            return {0.0, 255.0};
        case DType::boolean:
            return {0.0, 1.0};
        default:
            return {-static_cast<double>(max_exact), static_cast<double>(max_exact)};
    }
}

std::string in_quotes(std::string_view text) {
    std::string shown(text.substr(0, 60));
    if (text.size() > shown.size()) shown += "...";
    return "\"" + shown + "\"";
}

std::string number_text(double value) {
    return dump_json(Json(value));
}

// ---------------------------------------------------------------------------------------------
// Rules, for tasks from files and from memory.

/// What a rule is about: a value of the definition or of a workload, by RFC 6901 pointer.
struct Place {
    enum class Part { definition, workload, emulator };
    Part part = Part::definition;
    std::size_t index = 0;  ///< of the workload
    std::string pointer;
};

/// How a broken rule becomes an Error, and where a text stands.
struct Reporter {
    std::function<void(ErrorCode, const Place&, const std::string&)> fail;  ///< always throws
    std::function<SourcePosition(const Place&)> position;
};

/// A computed axis.
struct ComputedAxis {
    std::string name;
    plan::Expression expression;
};

plan::Names names_of(const std::map<std::string, std::int64_t>& axes) {
    plan::Names names;
    names.integer = [&axes](const std::string& name, std::int64_t& value) {
        const auto found = axes.find(name);
        if (found == axes.end()) return false;
        value = found->second;
        return true;
    };
    return names;
}

/// Expression axes in an order in which each one needs only axes before it.
/// `position` tells where the text of an axis' expression starts.
std::vector<ComputedAxis> order_expressions(
    const Definition& definition, const std::function<SourcePosition(const Axis&)>& position) {
    std::set<std::string> known;
    std::set<std::string> all;
    std::vector<ComputedAxis> waiting;
    for (const Axis& axis : definition.axes) {
        all.insert(axis.name);
        if (axis.kind != Axis::Kind::expression) {
            known.insert(axis.name);
        } else {
            waiting.push_back(
                {axis.name, plan::Expression::parse(axis.expression, position(axis))});
        }
    }
    for (const ComputedAxis& axis : waiting) {
        if (!axis.expression.queried().empty()) {
            throw Error(ErrorCode::parse, axis.expression.position(),
                        "axis " + in_quotes(axis.name) + ": expected arithmetic over axes, found " +
                            axis.expression.queried().front().first + "(...)");
        }
        for (const std::string& name : axis.expression.names()) {
            if (all.contains(name)) continue;
            throw Error(ErrorCode::parse, axis.expression.position(),
                        "axis " + in_quotes(axis.name) + ": expected names of axes, found " +
                            in_quotes(name));
        }
    }
    std::vector<ComputedAxis> ordered;
    while (!waiting.empty()) {
        const auto ready = std::find_if(waiting.begin(), waiting.end(), [&](const auto& axis) {
            const auto& names = axis.expression.names();
            return std::all_of(names.begin(), names.end(),
                               [&](const auto& name) { return known.contains(name); });
        });
        if (ready == waiting.end()) {
            throw Error(ErrorCode::parse, waiting.front().expression.position(),
                        "axis " + in_quotes(waiting.front().name) +
                            ": expected an expression that does not need its own value, found a "
                            "cycle");
        }
        known.insert(ready->name);
        ordered.push_back(std::move(*ready));
        waiting.erase(ready);
    }
    return ordered;
}

/// All axes of one workload. Variable axes must have been checked to be there.
std::map<std::string, std::int64_t> compute_axes(const Definition& definition,
                                                 const std::vector<ComputedAxis>& computed,
                                                 const Workload& workload) {
    std::map<std::string, std::int64_t> values;
    for (const Axis& axis : definition.axes) {
        if (axis.kind == Axis::Kind::constant) values[axis.name] = axis.value;
        if (axis.kind == Axis::Kind::variable) values[axis.name] = workload.axes.at(axis.name);
    }
    for (const ComputedAxis& axis : computed) {
        values[axis.name] = axis.expression.evaluate(names_of(values));
    }
    return values;
}

/// Checks a whole task; every broken rule goes to the reporter, which throws.
class TaskRules {
  public:
    TaskRules(const Task& task, const Reporter& reporter) : task_(task), reporter_(reporter) {}

    /// Everything but the workloads.
    void check_operation() {
        check_definition();
        computed_ = order_expressions(task_.definition, [this](const Axis& axis) {
            return expression_position(axis_pointer(axis.name) + "/expression");
        });
        check_init();
        check_compare();
        check_inplace();
        check_constants();
        check_axis_ranges();
        check_baselines();
        flops_ = cost_expression("flops", task_.flops);
        bytes_ = cost_expression("bytes", task_.bytes);
    }
    /// After `check_operation`.
    void check_workloads() const {
        check_workloads(Place::Part::workload, task_.workloads);
        check_workloads(Place::Part::emulator, task_.emulator_workloads);
    }

  private:
    void fail(const std::string& pointer, const std::string& message,
              ErrorCode code = ErrorCode::parse) const {
        reporter_.fail(code, Place{Place::Part::definition, 0, pointer}, message);
    }
    static std::string axis_pointer(const std::string& name) {
        return "/axes/" + JsonNode::escape(name);
    }
    /// Where the characters of a JSON string start: one column after its quote.
    SourcePosition expression_position(const std::string& pointer) const {
        return reporter_.position(Place{Place::Part::definition, 0, pointer});
    }
    const Axis* find_axis(const std::string& name) const {
        for (const Axis& axis : task_.definition.axes) {
            if (axis.name == name) return &axis;
        }
        return nullptr;
    }
    static const TensorSpec* find_tensor(const std::vector<TensorSpec>& tensors,
                                         const std::string& name) {
        for (const TensorSpec& tensor : tensors) {
            if (tensor.name == name) return &tensor;
        }
        return nullptr;
    }
    const TensorSpec* find_input(const std::string& name) const {
        return find_tensor(task_.definition.inputs, name);
    }
    const TensorSpec* find_output(const std::string& name) const {
        return find_tensor(task_.definition.outputs, name);
    }

    void check_definition();
    void check_name(const std::string& name, const std::string& pointer, std::string_view what);
    void check_axis(const Axis& axis);
    void check_tensors(const std::vector<TensorSpec>& tensors, bool outputs);
    void check_init() const;
    void check_init_values(const TensorSpec& input, const InitSpec& init,
                           const std::string& pointer) const;
    void check_compare() const;
    void check_inplace() const;
    void check_constants() const;
    void check_axis_ranges() const;
    void check_baselines() const;
    plan::Expression cost_expression(const char* member, const std::string& text) const;
    void check_workloads(Place::Part part, const std::vector<Workload>& workloads) const;
    void check_workload(const Place& place, const Workload& workload) const;
    void check_scalars(const Place& place, const Workload& workload) const;
    void check_extents(const Place& place, const std::map<std::string, std::int64_t>& axes) const;
    void check_costs(const Place& place, const std::map<std::string, std::int64_t>& axes) const;

    const Task& task_;
    const Reporter& reporter_;
    std::set<std::string> names_;
    std::vector<ComputedAxis> computed_;
    plan::Expression flops_;
    plan::Expression bytes_;
};

void TaskRules::check_definition() {
    const Definition& definition = task_.definition;
    if (definition.name.empty() || definition.name.size() > 256) {
        fail("/name", "expected a name of 1 to 256 bytes, found " + in_quotes(definition.name));
    }
    if (definition.axes.size() > max_axes) {
        fail("/axes", "expected at most " + std::to_string(max_axes) + " axes, found " +
                          std::to_string(definition.axes.size()));
    }
    for (const Axis& axis : definition.axes) check_axis(axis);
    check_tensors(definition.inputs, false);
    if (definition.outputs.empty()) fail("/outputs", "expected at least one output, found none");
    check_tensors(definition.outputs, true);
    if (definition.reference.empty() && task_.reference_cuda.empty()) {
        fail("",
             "expected a member \"reference\", or \"reference_cuda\" in \"kernelforge\", found "
             "neither");
    }
}

void TaskRules::check_name(const std::string& name, const std::string& pointer,
                           std::string_view what) {
    const std::string subject = std::string(what) + " " + in_quotes(name) + ": ";
    if (!is_identifier(name)) {
        fail(pointer, subject + "expected a C identifier of at most 64 characters as its name");
    }
    if (std::find(reserved_words.begin(), reserved_words.end(), name) != reserved_words.end()) {
        fail(pointer, subject + "expected a name that is no word of C++, CUDA or of launch plans");
    }
    if (!names_.insert(name).second) {
        fail(pointer, subject + "expected a name that no other axis, input or output has");
    }
}

void TaskRules::check_axis(const Axis& axis) {
    const std::string pointer = axis_pointer(axis.name);
    check_name(axis.name, pointer, "axis");
    // A constant or specialised axis is a macro in a candidate; these would hit threadIdx.x.
    if (axis.name == "x" || axis.name == "y" || axis.name == "z" || axis.name == "w") {
        fail(pointer, "axis " + in_quotes(axis.name) +
                          ": expected a name that is no component of a CUDA vector (x, y, z, w)");
    }
    if (axis.kind == Axis::Kind::constant && axis.value <= 0) {
        fail(pointer + "/value", "axis " + in_quotes(axis.name) +
                                     ": expected a value above 0, found " +
                                     std::to_string(axis.value));
    }
    if (axis.kind == Axis::Kind::expression && axis.expression.empty()) {
        fail(pointer + "/expression",
             "axis " + in_quotes(axis.name) + ": expected an expression, found an empty text");
    }
}

void TaskRules::check_tensors(const std::vector<TensorSpec>& tensors, bool outputs) {
    const std::string group = outputs ? "/outputs" : "/inputs";
    if (tensors.size() > max_tensors) {
        fail(group, "expected at most " + std::to_string(max_tensors) + " tensors, found " +
                        std::to_string(tensors.size()));
    }
    for (const TensorSpec& tensor : tensors) {
        const std::string pointer = group + "/" + JsonNode::escape(tensor.name);
        const std::string subject =
            (outputs ? "output " : "input ") + in_quotes(tensor.name) + ": ";
        check_name(tensor.name, pointer, outputs ? "output" : "input");
        if (tensor.scalar && outputs) {
            fail(pointer + "/shape",
                 subject + "expected a list of axis names, found null: an output is a tensor");
        }
        if (tensor.shape.size() > max_rank) {
            fail(pointer + "/shape", subject + "expected at most " + std::to_string(max_rank) +
                                         " axes, found " + std::to_string(tensor.shape.size()));
        }
        if (tensor.scalar && !tensor.shape.empty()) {
            fail(pointer + "/shape", subject + "expected no axes of a scalar");
        }
        if (tensor.scalar && bits_of(tensor.dtype) < 8) {
            fail(pointer + "/dtype", subject + "expected a scalar type of whole bytes, found " +
                                         std::string(to_string(tensor.dtype)));
        }
        for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
            const std::string& axis = tensor.shape[i];
            if (find_axis(axis) != nullptr) continue;
            const std::string place = pointer + "/shape/" + std::to_string(i);
            if (!axis.empty() && axis.find_first_not_of("0123456789") == std::string::npos) {
                fail(place,
                     subject +
                         "an extent that is a number is not yet supported: name a "
                         "constant axis of value " +
                         axis,
                     ErrorCode::unsupported);
            }
            fail(place, subject + "expected the name of an axis, found " + in_quotes(axis));
        }
    }
}

void TaskRules::check_init() const {
    for (const auto& [name, init] : task_.init) {
        const std::string pointer = "/kernelforge/init/" + JsonNode::escape(name);
        const TensorSpec* input = find_input(name);
        if (input == nullptr)
            fail(pointer, "expected the name of an input, found " + in_quotes(name));
        if (input->scalar) {
            fail(pointer, "input " + in_quotes(name) +
                              ": expected no init, the values of a scalar are in the workloads");
        }
        check_init_values(*input, init, pointer);
    }
    for (const TensorSpec& input : task_.definition.inputs) {
        if (input.scalar || !is_integer(input.dtype) || task_.init.contains(input.name)) continue;
        fail("/inputs/" + JsonNode::escape(input.name),
             "input " + in_quotes(input.name) + " of type " + std::string(to_string(input.dtype)) +
                 ": expected its bounds in \"init\" of \"kernelforge\", found none");
    }
}

void TaskRules::check_init_values(const TensorSpec& input, const InitSpec& init,
                                  const std::string& pointer) const {
    const std::string subject = "input " + in_quotes(input.name) + ": ";
    const bool integer = is_integer(input.dtype);
    for (const double value : {init.mean, init.stddev, init.low, init.high}) {
        if (!std::isfinite(value)) fail(pointer, subject + "expected finite numbers");
    }
    switch (init.kind) {
        case InitSpec::Kind::normal:
        case InitSpec::Kind::heavy_tail:
            if (init.stddev <= 0) {
                fail(pointer + "/stddev",
                     subject + "expected a stddev above 0, found " + number_text(init.stddev));
            }
            break;
        case InitSpec::Kind::uniform:
            if (init.low >= init.high) {
                fail(pointer + "/high", subject + "expected high above low (" +
                                            number_text(init.low) + "), found " +
                                            number_text(init.high));
            }
            break;
        case InitSpec::Kind::integers:
            if (init.low != std::floor(init.low)) {
                fail(pointer + "/low",
                     subject + "expected an integer, found " + number_text(init.low));
            }
            if (init.high != std::floor(init.high)) {
                fail(pointer + "/high",
                     subject + "expected an integer, found " + number_text(init.high));
            }
            if (init.low > init.high) {
                fail(pointer + "/high", subject + "expected high not below low (" +
                                            number_text(init.low) + "), found " +
                                            number_text(init.high));
            }
            break;
        case InitSpec::Kind::constant:
            break;
        case InitSpec::Kind::permutation:
            if (!integer || input.dtype == DType::boolean || input.shape.empty()) {
                fail(pointer + "/kind", subject +
                                            "expected an integer tensor with at least one axis for "
                                            "a permutation");
            }
            return;
    }
    if (!integer) return;
    if (init.kind != InitSpec::Kind::integers && init.kind != InitSpec::Kind::constant) {
        fail(pointer + "/kind", subject + "expected integers, constant or permutation for type " +
                                    std::string(to_string(input.dtype)));
    }
    const auto [smallest, largest] = integer_range(input.dtype);
    const double high = init.kind == InitSpec::Kind::constant ? init.low : init.high;
    if (init.low != std::floor(init.low) || init.low < smallest) {
        fail(pointer + "/low", subject + "expected an integer from " + number_text(smallest) +
                                   ", found " + number_text(init.low));
    }
    if (high > largest) {
        fail(pointer + (init.kind == InitSpec::Kind::constant ? "/low" : "/high"),
             subject + "expected an integer up to " + number_text(largest) + ", found " +
                 number_text(high));
    }
}

void TaskRules::check_compare() const {
    for (const auto& [name, compare] : task_.compare) {
        const std::string pointer = "/kernelforge/compare/" + JsonNode::escape(name);
        const TensorSpec* output = find_output(name);
        if (output == nullptr) {
            fail(pointer, "expected the name of an output, found " + in_quotes(name));
        }
        const std::string subject = "output " + in_quotes(name) + ": ";
        if (compare.kind != CompareSpec::Kind::rms && compare.kind != CompareSpec::Kind::exact) {
            fail(pointer + "/kind",
                 subject + "expected rms or exact, other comparisons are not yet supported",
                 ErrorCode::unsupported);
        }
        if (compare.kind == CompareSpec::Kind::rms && is_integer(output->dtype)) {
            fail(pointer + "/kind", subject + "expected exact for type " +
                                        std::string(to_string(output->dtype)) + ", found rms");
        }
        if (!(compare.slack > 0) || !std::isfinite(compare.slack)) {
            fail(pointer + "/slack",
                 subject + "expected a slack above 0, found " + number_text(compare.slack));
        }
    }
}

void TaskRules::check_inplace() const {
    std::map<std::string, std::string> taken;
    for (const auto& [output_name, input_name] : task_.inplace) {
        const std::string pointer = "/kernelforge/inplace/" + JsonNode::escape(output_name);
        const TensorSpec* output = find_output(output_name);
        if (output == nullptr) {
            fail(pointer, "expected the name of an output, found " + in_quotes(output_name));
        }
        const std::string subject = "output " + in_quotes(output_name) + ": ";
        const TensorSpec* input = find_input(input_name);
        if (input == nullptr || input->scalar) {
            fail(pointer,
                 subject + "expected the name of an input tensor, found " + in_quotes(input_name));
        }
        if (input->shape != output->shape || input->dtype != output->dtype) {
            fail(pointer, subject + "expected an input of the same shape and type, found " +
                              in_quotes(input_name));
        }
        const auto [other, is_new] = taken.emplace(input_name, output_name);
        if (!is_new) {
            fail(pointer, subject + "expected an input that no other output shares, found " +
                              in_quotes(input_name) + " of output " + in_quotes(other->second));
        }
        const auto& constants = task_.constant_inputs;
        if (std::find(constants.begin(), constants.end(), input_name) != constants.end()) {
            fail(pointer, subject + "expected an input that is not constant, found " +
                              in_quotes(input_name));
        }
    }
}

void TaskRules::check_constants() const {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < task_.constant_inputs.size(); ++i) {
        const std::string& name = task_.constant_inputs[i];
        const std::string pointer = "/kernelforge/constant/" + std::to_string(i);
        const TensorSpec* input = find_input(name);
        if (input == nullptr || input->scalar) {
            fail(pointer, "expected the name of an input tensor, found " + in_quotes(name));
        }
        if (!seen.insert(name).second) {
            fail(pointer, "expected each constant input once, found " + in_quotes(name) + " again");
        }
    }
}

void TaskRules::check_axis_ranges() const {
    for (const auto& [name, range] : task_.axis_ranges) {
        const std::string pointer = "/kernelforge/axis_ranges/" + JsonNode::escape(name);
        const Axis* axis = find_axis(name);
        if (axis == nullptr || axis->kind != Axis::Kind::variable) {
            fail(pointer, "expected the name of a variable axis, found " + in_quotes(name));
        }
        if (range.first < 1 || range.second < range.first) {
            fail(pointer, "axis " + in_quotes(name) + ": expected 1 <= low <= high, found [" +
                              std::to_string(range.first) + ", " + std::to_string(range.second) +
                              "]");
        }
    }
}

void TaskRules::check_baselines() const {
    std::set<std::string> seen;
    bool portable = task_.baselines.empty();
    for (std::size_t i = 0; i < task_.baselines.size(); ++i) {
        const BaselineSpec& baseline = task_.baselines[i];
        const std::string pointer = "/kernelforge/baselines/" + std::to_string(i);
        if (baseline.name.empty()) {
            fail(pointer + "/name", "expected the name of the baseline, found an empty text");
        }
        const std::string subject = "baseline " + in_quotes(baseline.name) + ": ";
        if (!seen.insert(baseline.name).second) {
            fail(pointer + "/name", subject + "expected a name that no other baseline has");
        }
        if (baseline.kind == BaselineSpec::Kind::cuda) {
            portable = true;
            if (baseline.source.empty()) {
                fail(pointer + "/file", subject + "expected a file that is not empty");
            }
        }
        if (baseline.kind != BaselineSpec::Kind::command) continue;
        if (baseline.command.empty() || baseline.command.front().empty()) {
            fail(pointer + "/command", subject + "expected a program and its arguments");
        }
        for (std::size_t j = 0; j < baseline.command.size(); ++j) {
            if (baseline.command[j].find('\0') == std::string::npos) continue;
            fail(pointer + "/command/" + std::to_string(j),
                 subject + "expected words without a zero byte");
        }
    }
    if (!portable) {
        fail("/kernelforge/baselines", "expected at least one baseline of kind cuda, found none");
    }
}

plan::Expression TaskRules::cost_expression(const char* member, const std::string& text) const {
    if (text.empty()) return {};
    const std::string pointer = std::string("/kernelforge/") + member;
    const auto expression = plan::Expression::parse(text, expression_position(pointer));
    if (!expression.queried().empty()) {
        fail(pointer, std::string(member) + ": expected arithmetic over axes, found " +
                          expression.queried().front().first + "(...)");
    }
    for (const std::string& name : expression.names()) {
        if (find_axis(name) == nullptr) {
            fail(pointer,
                 std::string(member) + ": expected names of axes, found " + in_quotes(name));
        }
    }
    return expression;
}

void TaskRules::check_workloads(Place::Part part, const std::vector<Workload>& workloads) const {
    if (part == Place::Part::workload && workloads.empty()) {
        reporter_.fail(ErrorCode::parse, Place{part, 0, ""},
                       "expected at least one workload, found none");
    }
    if (workloads.size() > max_workloads) {
        reporter_.fail(ErrorCode::parse, Place{part, max_workloads, ""},
                       "expected at most " + std::to_string(max_workloads) + " workloads");
    }
    std::set<std::string> seen;
    for (std::size_t i = 0; i < workloads.size(); ++i) {
        if (workloads[i].uuid.empty()) {
            reporter_.fail(ErrorCode::parse, Place{part, i, "/uuid"},
                           "expected a uuid, found an empty text");
        }
        if (!seen.insert(workloads[i].uuid).second) {
            reporter_.fail(ErrorCode::parse, Place{part, i, "/uuid"},
                           "expected a uuid that no other workload has, found " +
                               in_quotes(workloads[i].uuid) + " again");
        }
        check_workload(Place{part, i, ""}, workloads[i]);
    }
}

void TaskRules::check_workload(const Place& place, const Workload& workload) const {
    const auto fail_at = [&](const std::string& pointer, const std::string& message) {
        reporter_.fail(ErrorCode::parse, Place{place.part, place.index, pointer}, message);
    };
    for (const auto& [name, value] : workload.axes) {
        const std::string pointer = axis_pointer(name);
        const Axis* axis = find_axis(name);
        if (axis == nullptr || axis->kind != Axis::Kind::variable) {
            fail_at(pointer, "expected the name of a variable axis, found " + in_quotes(name));
        }
        if (value <= 0) {
            fail_at(pointer, "axis " + in_quotes(name) + ": expected a value above 0, found " +
                                 std::to_string(value));
        }
    }
    for (const Axis& axis : task_.definition.axes) {
        if (axis.kind == Axis::Kind::variable && !workload.axes.contains(axis.name)) {
            fail_at("/axes", "expected a value of axis " + in_quotes(axis.name) + ", found none");
        }
    }
    check_scalars(place, workload);
    std::map<std::string, std::int64_t> axes;
    try {
        axes = compute_axes(task_.definition, computed_, workload);
    } catch (const Error& error) {
        fail_at("/axes", std::string("computed axes have no value here: ") + error.what());
    }
    check_extents(place, axes);
    check_costs(place, axes);
}

void TaskRules::check_scalars(const Place& place, const Workload& workload) const {
    const auto fail_at = [&](const std::string& name, const std::string& message) {
        reporter_.fail(
            ErrorCode::parse,
            Place{place.part, place.index, "/inputs/" + JsonNode::escape(name) + "/value"},
            "input " + in_quotes(name) + ": " + message);
    };
    for (const auto& [name, value] : workload.scalars) {
        const TensorSpec* input = find_input(name);
        if (input == nullptr || !input->scalar)
            fail_at(name, "expected the name of a scalar input");
        if (!std::isfinite(value)) fail_at(name, "expected a finite number");
        if (!is_integer(input->dtype)) continue;
        const auto [smallest, largest] = integer_range(input->dtype);
        if (value != std::floor(value) || value < smallest || value > largest) {
            fail_at(name, "expected an integer from " + number_text(smallest) + " to " +
                              number_text(largest) + ", found " + number_text(value));
        }
    }
    for (const TensorSpec& input : task_.definition.inputs) {
        if (input.scalar && !workload.scalars.contains(input.name)) {
            fail_at(input.name, "expected a scalar value, found none");
        }
    }
}

void TaskRules::check_extents(const Place& place,
                              const std::map<std::string, std::int64_t>& axes) const {
    const auto fail_at = [&](const std::string& message) {
        reporter_.fail(ErrorCode::parse, Place{place.part, place.index, "/axes"}, message);
    };
    for (const ComputedAxis& axis : computed_) {
        if (axes.at(axis.name) <= 0) {
            fail_at("axis " + in_quotes(axis.name) + ": expected a computed value above 0, found " +
                    std::to_string(axes.at(axis.name)));
        }
    }
    for (const auto* tensors : {&task_.definition.inputs, &task_.definition.outputs}) {
        for (const TensorSpec& tensor : *tensors) {
            auto bits = static_cast<std::int64_t>(bits_of(tensor.dtype));
            for (const std::string& axis : tensor.shape) {
                if (__builtin_mul_overflow(bits, axes.at(axis), &bits)) {
                    fail_at("tensor " + in_quotes(tensor.name) +
                            ": expected a size in bits below 2^63, found more");
                }
            }
            if (bits % 8 != 0) {
                fail_at("tensor " + in_quotes(tensor.name) + " of type " +
                        std::string(to_string(tensor.dtype)) +
                        ": expected an even number of elements");
            }
            const auto init = task_.init.find(tensor.name);
            if (init == task_.init.end() || init->second.kind != InitSpec::Kind::permutation) {
                continue;
            }
            const std::int64_t extent = axes.at(tensor.shape.back());
            if (static_cast<double>(extent - 1) > integer_range(tensor.dtype).second) {
                fail_at("input " + in_quotes(tensor.name) + ": a permutation of " +
                        std::to_string(extent) + " values does not fit type " +
                        std::string(to_string(tensor.dtype)));
            }
        }
    }
}

void TaskRules::check_costs(const Place& place,
                            const std::map<std::string, std::int64_t>& axes) const {
    for (const auto* expression : {&flops_, &bytes_}) {
        if (expression->empty()) continue;
        const std::string name = expression == &flops_ ? "flops" : "bytes";
        std::int64_t value = 0;
        try {
            value = expression->evaluate(names_of(axes));
        } catch (const Error& error) {
            reporter_.fail(ErrorCode::parse, Place{place.part, place.index, "/axes"},
                           name + " has no value here: " + error.what());
        }
        if (value < 0) {
            reporter_.fail(
                ErrorCode::parse, Place{place.part, place.index, "/axes"},
                name + ": expected a value of at least 0 here, found " + std::to_string(value));
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Reading.

template <class Enum, std::size_t N>
Enum one_of(const JsonNode& node, const std::array<Named<Enum>, N>& names) {
    std::string list;
    const std::string text = node.json().is_string() ? node.as_string() : "";
    for (const auto& entry : names) {
        if (entry.name == text) return entry.value;
        if (!list.empty()) list += ", ";
        list += entry.name;
    }
    node.expected("one of: " + list);
}

template <class Enum, std::size_t N>
Enum one_of(const JsonNode& node, const std::array<Enum, N>& values) {
    std::array<Named<Enum>, N> names{};
    for (std::size_t i = 0; i < N; ++i) names[i] = {to_string(values[i]), values[i]};
    return one_of(node, names);
}

/// A text member that their tools write as null when there is none.
std::string optional_text(const JsonNode& node, std::string_view key) {
    const auto member = node.find(key);
    if (!member || member->is_null()) return {};
    return member->as_string();
}

/// Their axis expressions are Python's; `//` of positive integers is our `/`. Same length, so that
/// columns stay right.
std::string translate_expression(const JsonNode& node) {
    std::string text = node.as_string();
    if (text.find("**") != std::string::npos) {
        node.fail(ErrorCode::unsupported, "the operator ** is not yet supported in an expression");
    }
    for (std::size_t at = text.find("//"); at != std::string::npos; at = text.find("//", at + 2)) {
        text[at + 1] = ' ';
    }
    return text;
}

Axis read_axis(const std::string& name, const JsonNode& node) {
    Axis axis;
    axis.name = name;
    axis.kind = one_of(node.at("type"), axis_kinds);
    axis.description = optional_text(node, "description");
    if (axis.kind == Axis::Kind::constant) axis.value = node.at("value").as_integer();
    if (axis.kind == Axis::Kind::expression) {
        axis.expression = translate_expression(node.at("expression"));
    }
    return axis;
}

std::vector<TensorSpec> read_tensors(const JsonNode& node) {
    std::vector<TensorSpec> tensors;
    node.for_each_member([&](const std::string& name, const JsonNode& member) {
        TensorSpec tensor;
        tensor.name = name;
        const JsonNode shape = member.at("shape");
        tensor.scalar = shape.is_null();
        if (!tensor.scalar) {
            if (!shape.json().is_array()) shape.expected("a list of axis names, or null");
            for (std::size_t i = 0; i < shape.array_size(); ++i) {
                tensor.shape.push_back(shape.at(i).as_string());
            }
        }
        tensor.dtype = one_of(member.at("dtype"), dtypes);
        tensor.description = optional_text(member, "description");
        tensors.push_back(std::move(tensor));
    });
    return tensors;
}

Definition read_definition(const JsonNode& root) {
    Definition definition;
    definition.name = root.at("name").as_string();
    definition.op_type = optional_text(root, "op_type");
    definition.description = optional_text(root, "description");
    root.at("axes").for_each_member([&](const std::string& name, const JsonNode& node) {
        definition.axes.push_back(read_axis(name, node));
    });
    definition.inputs = read_tensors(root.at("inputs"));
    definition.outputs = read_tensors(root.at("outputs"));
    definition.reference = optional_text(root, "reference");
    if (const auto node = root.find("constraints"); node && !node->is_null()) {
        for (std::size_t i = 0; i < node->array_size(); ++i) {
            definition.constraints.push_back(node->at(i).as_string());
        }
    }
    return definition;
}

/// Reads one input of a workload; only scalars carry a value.
void read_workload_input(const std::string& name, const JsonNode& node,
                         const Definition& definition, Workload& workload) {
    const auto input = std::find_if(definition.inputs.begin(), definition.inputs.end(),
                                    [&](const TensorSpec& spec) { return spec.name == name; });
    if (input == definition.inputs.end()) {
        node.fail(ErrorCode::parse, "expected the name of an input, found " + in_quotes(name));
    }
    const JsonNode type = node.at("type");
    const std::string text = type.as_string();
    if (text == "safetensors" || text == "custom") {
        type.fail(ErrorCode::unsupported, "input " + in_quotes(name) + " of type " +
                                              in_quotes(text) +
                                              " is not yet supported, expected random or scalar");
    }
    if (text != "random" && text != "scalar") {
        type.expected("one of: random, scalar, safetensors, custom");
    }
    if ((text == "scalar") != input->scalar) {
        type.fail(ErrorCode::parse,
                  "input " + in_quotes(name) + ": expected " +
                      (input->scalar ? "scalar, its shape is null" : "random, it is a tensor") +
                      ", found " + text);
    }
    if (!input->scalar) return;
    const JsonNode value = node.at("value");
    if (value.json().is_boolean()) {
        workload.scalars[name] = value.as_boolean() ? 1.0 : 0.0;
        return;
    }
    // Above, a double would silently hold another integer.
    if (value.json().is_number_integer()) (void)value.as_integer(-max_exact, max_exact);
    workload.scalars[name] = value.as_number();
}

Workload read_workload(const JsonNode& node, const Definition& definition,
                       const std::string& default_uuid) {
    Workload workload;
    if (default_uuid.empty()) {
        workload.uuid = node.at("uuid").as_string();
    } else {
        workload.uuid = node.string_or("uuid", default_uuid);
    }
    node.at("axes").for_each_member([&](const std::string& name, const JsonNode& value) {
        workload.axes[name] = value.as_integer();
    });
    if (const auto inputs = node.find("inputs"); inputs && !inputs->is_null()) {
        inputs->for_each_member([&](const std::string& name, const JsonNode& input) {
            read_workload_input(name, input, definition, workload);
        });
    }
    return workload;
}

/// A file name that stays inside the task folder.
std::string read_file_name(const JsonNode& node) {
    const std::string name = node.as_string();
    const std::filesystem::path path(name);
    bool inside = !name.empty() && path.is_relative() && path.has_filename() &&
                  name.find('\0') == std::string::npos && name.find('\\') == std::string::npos;
    for (const auto& part : path) inside = inside && part != "..";
    if (!inside) node.expected("a file name inside the task folder, relative and without \"..\"");
    return name;
}

class TaskReader {
  public:
    TaskReader(const TaskText& text,
               const std::function<std::string(const std::string& name)>& read)
        : text_(text), read_(read), definition_(text.definition, text.definition_file) {}

    Task read() {
        task_.definition = read_definition(definition_.root());
        if (const auto ours = definition_.root().find("kernelforge")) read_ours(*ours);
        const Reporter reporter{
            [this](ErrorCode code, const Place& place, const std::string& message) {
                throw Error(code, position(place), message);
            },
            [this](const Place& place) {
                SourcePosition start = position(place);
                ++start.column;  // the characters start after the quote
                return start;
            }};
        TaskRules rules(task_, reporter);
        rules.check_operation();
        read_workloads();
        read_emulator_workloads();
        rules.check_workloads();
        for (const TensorSpec& output : task_.definition.outputs) {
            if (is_integer(output.dtype))
                task_.compare[output.name].kind = CompareSpec::Kind::exact;
        }
        return std::move(task_);
    }

  private:
    struct WorkloadLine {
        std::unique_ptr<JsonDocument> document;
        std::string prefix;  ///< pointer of the workload in its line
    };

    void read_ours(const JsonNode& node);
    void read_baselines(const JsonNode& node);
    void read_init(const JsonNode& node);
    void read_compare(const JsonNode& node);
    void read_workloads();
    void read_emulator_workloads();
    void read_workload_line(std::string line, std::size_t number);
    std::string read_named_file(const JsonNode& node, std::string& path) const;
    SourcePosition position(const Place& place) const;

    const TaskText& text_;
    const std::function<std::string(const std::string& name)>& read_;
    JsonDocument definition_;
    std::vector<WorkloadLine> lines_;
    Task task_;
};

/// Position of what a pointer names, or of the nearest thing around it that is there.
SourcePosition nearest(const JsonDocument& document, std::string pointer) {
    while (!pointer.empty() &&
           !document.value().contains(nlohmann::json_pointer<std::string>(pointer))) {
        pointer.resize(pointer.rfind('/'));
    }
    return document.position(pointer);
}

SourcePosition TaskReader::position(const Place& place) const {
    if (place.part == Place::Part::definition) return nearest(definition_, place.pointer);
    if (place.part == Place::Part::emulator) {
        return nearest(definition_,
                       "/kernelforge/emulator/" + std::to_string(place.index) + place.pointer);
    }
    if (place.index >= lines_.size()) return {text_.workloads_file, 1, 1};
    const WorkloadLine& line = lines_[place.index];
    return nearest(*line.document, line.prefix + place.pointer);
}

std::string TaskReader::read_named_file(const JsonNode& node, std::string& path) const {
    path = read_file_name(node);
    try {
        return read_(path);
    } catch (const Error& error) {
        node.fail(error.code(), error.what());
    }
}

void TaskReader::read_ours(const JsonNode& node) {
    node.only_members({"reference_cuda", "baselines", "init", "compare", "inplace", "constant",
                       "axis_ranges", "flops", "bytes", "policy", "emulator"});
    if (const auto file = node.find("reference_cuda")) {
        task_.reference_cuda = read_named_file(*file, task_.reference_cuda_path);
        if (task_.reference_cuda.empty()) file->expected("a file that is not empty");
    }
    if (const auto baselines = node.find("baselines")) read_baselines(*baselines);
    if (const auto init = node.find("init")) read_init(*init);
    if (const auto compare = node.find("compare")) read_compare(*compare);
    if (const auto inplace = node.find("inplace")) {
        inplace->for_each_member([&](const std::string& output, const JsonNode& input) {
            task_.inplace[output] = input.as_string();
        });
    }
    if (const auto constant = node.find("constant")) {
        for (std::size_t i = 0; i < constant->array_size(); ++i) {
            task_.constant_inputs.push_back(constant->at(i).as_string());
        }
    }
    if (const auto ranges = node.find("axis_ranges")) {
        ranges->for_each_member([&](const std::string& axis, const JsonNode& range) {
            if (!range.json().is_array() || range.array_size() != 2) range.expected("[low, high]");
            task_.axis_ranges[axis] = {range.at(0).as_integer(), range.at(1).as_integer()};
        });
    }
    task_.flops = node.string_or("flops", "");
    task_.bytes = node.string_or("bytes", "");
    if (const auto policy = node.find("policy")) {
        policy->only_members({"vector_fp32_only", "library_calls"});
        task_.policy.vector_fp32_only = policy->boolean_or("vector_fp32_only", false);
        task_.policy.library_calls = policy->boolean_or("library_calls", false);
    }
}

void TaskReader::read_emulator_workloads() {
    const auto ours = definition_.root().find("kernelforge");
    const auto list = ours ? ours->find("emulator") : std::nullopt;
    for (std::size_t i = 0; list && i < list->array_size(); ++i) {
        task_.emulator_workloads.push_back(
            read_workload(list->at(i), task_.definition, "emulator-" + std::to_string(i + 1)));
    }
}

void TaskReader::read_baselines(const JsonNode& node) {
    for (std::size_t i = 0; i < node.array_size(); ++i) {
        const JsonNode entry = node.at(i);
        BaselineSpec baseline;
        baseline.name = entry.at("name").as_string();
        baseline.kind = one_of(entry.at("kind"), baseline_kinds);
        switch (baseline.kind) {
            case BaselineSpec::Kind::cuda:
                entry.only_members({"name", "kind", "file"});
                baseline.source = read_named_file(entry.at("file"), baseline.source_path);
                break;
            case BaselineSpec::Kind::command: {
                entry.only_members({"name", "kind", "command", "script"});
                if (const auto script = entry.find("script")) {
                    baseline.source = read_named_file(*script, baseline.source_path);
                }
                const JsonNode command = entry.at("command");
                for (std::size_t j = 0; j < command.array_size(); ++j) {
                    baseline.command.push_back(command.at(j).as_string());
                }
                break;
            }
            default:
                entry.only_members({"name", "kind"});
                break;
        }
        task_.baselines.push_back(std::move(baseline));
    }
}

void TaskReader::read_init(const JsonNode& node) {
    node.for_each_member([&](const std::string& input, const JsonNode& entry) {
        InitSpec init;
        init.kind = one_of(entry.at("kind"), init_kinds);
        switch (init.kind) {
            case InitSpec::Kind::normal:
            case InitSpec::Kind::heavy_tail:
                entry.only_members({"kind", "mean", "stddev"});
                break;
            case InitSpec::Kind::uniform:
                entry.only_members({"kind", "low", "high"});
                break;
            case InitSpec::Kind::integers:
                entry.only_members({"kind", "low", "high"});
                (void)entry.at("low");
                (void)entry.at("high");
                break;
            case InitSpec::Kind::constant:
                entry.only_members({"kind", "low"});
                (void)entry.at("low");
                break;
            case InitSpec::Kind::permutation:
                entry.only_members({"kind"});
                break;
        }
        init.mean = entry.number_or("mean", init.mean);
        init.stddev = entry.number_or("stddev", init.stddev);
        init.low = entry.number_or("low", init.low);
        init.high = entry.number_or("high", init.high);
        task_.init[input] = init;
    });
}

void TaskReader::read_compare(const JsonNode& node) {
    node.for_each_member([&](const std::string& output, const JsonNode& entry) {
        entry.only_members({"kind", "tier", "slack", "custom"});
        CompareSpec compare;
        for (const TensorSpec& spec : task_.definition.outputs) {
            if (spec.name == output && spec.dtype != DType::float4_e2m1) {
                compare = referee::default_compare(spec.dtype);
            }
        }
        if (const auto kind = entry.find("kind")) compare.kind = one_of(*kind, compare_kinds);
        if (const auto tier = entry.find("tier")) compare.tier = one_of(*tier, tiers);
        compare.slack = entry.number_or("slack", 1.0);
        compare.custom = entry.string_or("custom", "");
        task_.compare[output] = compare;
    });
}

void TaskReader::read_workloads() {
    std::string_view rest = text_.workloads;
    for (std::size_t number = 1; !rest.empty(); ++number) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        std::string line(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        if (lines_.size() == max_workloads) {
            throw Error(ErrorCode::parse, SourcePosition{text_.workloads_file, number, 1},
                        "expected at most " + std::to_string(max_workloads) + " workloads");
        }
        read_workload_line(std::move(line), number);
    }
}

void TaskReader::read_workload_line(std::string line, std::size_t number) {
    lines_.push_back(
        {std::make_unique<JsonDocument>(std::move(line), text_.workloads_file, number), ""});
    const JsonNode root = lines_.back().document->root();
    const auto nested = root.find("workload");
    if (!nested) {
        task_.workloads.push_back(read_workload(root, task_.definition, ""));
        return;
    }
    lines_.back().prefix = "/workload";
    if (const auto name = root.find("definition");
        name && name->as_string() != task_.definition.name) {
        name->expected("the definition's name " + in_quotes(task_.definition.name));
    }
    task_.workloads.push_back(read_workload(*nested, task_.definition, ""));
}

/// The text of a file of the folder; a link is followed wherever it leads, since a task is trusted.
std::string read_inside(const std::filesystem::path& folder, const std::string& name) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(folder / name, error);
    if (error) {
        throw Error(ErrorCode::not_found,
                    "cannot open " + (folder / name).string() + ": " + error.message());
    }
    if (!std::filesystem::is_regular_file(path, error)) {
        throw Error(ErrorCode::parse, "expected a regular file, found " + path.string());
    }
    return read_file(path, max_source_bytes);
}

}  // namespace

Task parse_task(const TaskText& text,
                const std::function<std::string(const std::string& name)>& read) {
    return TaskReader(text, read).read();
}

Task load_task(const std::string& folder) {
    std::error_code error;
    const std::filesystem::path root = std::filesystem::canonical(folder, error);
    if (error) {
        throw Error(ErrorCode::not_found,
                    "cannot open task folder " + folder + ": " + error.message());
    }
    if (!std::filesystem::is_directory(root, error)) {
        throw Error(ErrorCode::not_found,
                    "cannot open task folder " + folder + ": expected a folder, found a file");
    }
    TaskText text;
    text.definition_file = (root / "definition.json").string();
    text.workloads_file = (root / "workload.jsonl").string();
    text.definition = read_file(text.definition_file, max_definition_bytes);
    text.workloads = read_file(text.workloads_file, max_workload_bytes);
    Task task = parse_task(text, [&](const std::string& name) { return read_inside(root, name); });
    task.folder = root.string();
    if (!task.reference_cuda_path.empty()) {
        task.reference_cuda_path = (root / task.reference_cuda_path).string();
    }
    for (BaselineSpec& baseline : task.baselines) {
        if (!baseline.source_path.empty()) {
            baseline.source_path = (root / baseline.source_path).string();
        }
    }
    return task;
}

void check_task(const Task& task) {
    const auto describe = [](const Place& place) {
        std::string text = place.pointer.empty() ? "" : place.pointer.substr(1);
        if (place.part == Place::Part::definition) return text;
        const std::string list =
            place.part == Place::Part::workload ? "workloads/" : "kernelforge/emulator/";
        return list + std::to_string(place.index) + (text.empty() ? "" : "/") + text;
    };
    const Reporter reporter{[&](ErrorCode, const Place& place, const std::string& message) {
                                const std::string where = describe(place);
                                throw Error(ErrorCode::invalid_argument,
                                            where.empty() ? message : where + ": " + message);
                            },
                            [&](const Place& place) {
                                return SourcePosition{describe(place), 1, 1};
                            }};
    try {
        TaskRules rules(task, reporter);
        rules.check_operation();
        rules.check_workloads();
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    "task " + in_quotes(task.definition.name) + ": " + error.what());
    }
}

std::map<std::string, std::int64_t> axis_values(const Definition& definition,
                                                const Workload& workload) {
    const std::string subject = "definition " + in_quotes(definition.name) + ", workload " +
                                in_quotes(workload.uuid) + ": ";
    for (const Axis& axis : definition.axes) {
        if (axis.kind == Axis::Kind::variable && !workload.axes.contains(axis.name)) {
            throw Error(ErrorCode::invalid_argument, subject + "expected a value of axis " +
                                                         in_quotes(axis.name) + ", found none");
        }
    }
    try {
        return compute_axes(definition,
                            order_expressions(definition,
                                              [](const Axis& axis) {
                                                  return SourcePosition{"axis " + axis.name, 1, 1};
                                              }),
                            workload);
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument, subject + error.what());
    }
}

}  // namespace kernelforge
