// SPDX-License-Identifier: Apache-2.0
#include "definition_rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/plan.hpp"

namespace kernelforge {
namespace {

// Far above any real task, as max_workloads.
constexpr std::size_t max_axes = 256;
constexpr std::size_t max_tensors = 256;
constexpr std::size_t max_rank = 16;

// Between them sums of weights, and of their squares, are far from overflow and from zero.
constexpr double least_weight = 1e-6;
constexpr double most_weight = 1e6;

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

std::string number_text(double value) {
    return dump_json(Json(value));
}

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

}  // namespace

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

std::string in_quotes(std::string_view text) {
    std::string shown(text.substr(0, 60));
    if (text.size() > shown.size()) shown += "...";
    return "\"" + shown + "\"";
}

void TaskRules::check_operation() {
    check_definition();
    computed_ = order_expressions(task_.definition, [this](const Axis& axis) {
        return expression_position(axis_pointer(axis.name) + "/expression");
    });
    check_init();
    check_compare();
    check_inplace();
    check_inputs_list("constant", task_.constant_inputs);
    check_inputs_list("unused", task_.unused_inputs);
    check_axis_ranges();
    check_emulator_axes();
    check_baselines();
    flops_ = cost_expression("flops", task_.flops);
    bytes_ = cost_expression("bytes", task_.bytes);
}

void TaskRules::check_workloads() const {
    check_workloads(Place::Part::workload, task_.workloads);
    check_workloads(Place::Part::emulator, task_.emulator_workloads);
    if (!task_.emulator_axes.empty()) check_emulator_task();
}

/// The emulator workloads once more, under the constants that hold there.
void TaskRules::check_emulator_task() const {
    Task small = task_;
    small.definition = emulator_definition(task_);
    small.emulator_axes.clear();
    const Reporter reporter{[this](ErrorCode code, const Place& place, const std::string& message) {
                                reporter_.fail(code, place, "with the emulator's axes: " + message);
                            },
                            reporter_.position};
    TaskRules rules(small, reporter);
    rules.check_operation();
    rules.check_workloads(Place::Part::emulator, small.emulator_workloads);
}

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
        const bool bounded =
            init.kind == InitSpec::Kind::offsets || init.kind == InitSpec::Kind::distinct;
        if (!bounded && !init.bound.empty()) {
            fail(pointer + "/bound",
                 "input " + in_quotes(name) + ": expected a bound for offsets and distinct only");
        }
        if (!init.used_by.empty()) check_used_by(*input, init, pointer);
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
            if (!std::isfinite(init.high - init.low)) {
                fail(pointer, subject + "expected low and high with a finite difference");
            }
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
        case InitSpec::Kind::offsets:
        case InitSpec::Kind::distinct:
            check_bound(input, init, pointer);
            return;
        case InitSpec::Kind::permutation:
            if (!integer || input.dtype == DType::boolean || input.shape.empty()) {
                fail(pointer + "/kind", subject +
                                            "expected an integer tensor with at least one axis for "
                                            "a permutation");
            }
            return;
    }
    if (integer) check_integer_bounds(input, init, pointer);
}

void TaskRules::check_integer_bounds(const TensorSpec& input, const InitSpec& init,
                                     const std::string& pointer) const {
    const std::string subject = "input " + in_quotes(input.name) + ": ";
    if (init.kind != InitSpec::Kind::integers && init.kind != InitSpec::Kind::constant) {
        fail(pointer + "/kind", subject +
                                    "expected integers, constant, permutation, offsets or distinct "
                                    "for type " +
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

/// Of the kinds offsets and distinct.
void TaskRules::check_bound(const TensorSpec& input, const InitSpec& init,
                            const std::string& pointer) const {
    const std::string subject = "input " + in_quotes(input.name) + ": ";
    const bool integer = is_integer(input.dtype) && input.dtype != DType::boolean;
    if (!integer || input.shape.size() != 1) {
        fail(pointer + "/kind",
             subject + "expected an integer tensor with one axis for " +
                 (init.kind == InitSpec::Kind::offsets ? "offsets" : "distinct"));
    }
    if (find_axis(init.bound) == nullptr) {
        fail(pointer + "/bound",
             subject + "expected the name of an axis, found " + in_quotes(init.bound));
    }
}

void TaskRules::check_used_by(const TensorSpec& input, const InitSpec& init,
                              const std::string& pointer) const {
    const std::string subject = "input " + in_quotes(input.name) + ": ";
    const std::string place = pointer + "/used_by";
    const auto other = task_.init.find(init.used_by);
    if (other == task_.init.end() || other->second.kind != InitSpec::Kind::distinct ||
        init.used_by == input.name) {
        fail(place, subject + "expected the name of another input of kind distinct, found " +
                        in_quotes(init.used_by));
    }
    // Their values say where something is: -1 in their place would be read as such.
    if (init.kind == InitSpec::Kind::offsets || init.kind == InitSpec::Kind::distinct ||
        init.kind == InitSpec::Kind::permutation) {
        fail(place, subject + "expected no used_by of offsets, distinct or permutation");
    }
    if (input.shape.empty() || input.shape.front() != other->second.bound) {
        fail(place, subject + "expected that its first axis is the bound " +
                        in_quotes(other->second.bound) + " of " + in_quotes(init.used_by));
    }
    for (const auto& [output, shared] : task_.inplace) {
        if (shared != input.name) continue;
        fail(place, subject + "expected an input that no output shares, found that of output " +
                        in_quotes(output));
    }
}

void TaskRules::check_compare() const {
    for (const auto& [name, compare] : task_.compare) {
        const std::string pointer = "/kernelforge/compare/" + JsonNode::escape(name);
        const TensorSpec* output = find_output(name);
        if (output == nullptr) {
            fail(pointer, "expected the name of an output, found " + in_quotes(name));
        }
        check_compare_type(*output, compare, pointer);
        check_compare_names(*output, compare, pointer);
        if (!(compare.slack > 0) || !std::isfinite(compare.slack)) {
            fail(pointer + "/slack", "output " + in_quotes(name) +
                                         ": expected a slack above 0, found " +
                                         number_text(compare.slack));
        }
    }
}

void TaskRules::check_compare_type(const TensorSpec& output, const CompareSpec& compare,
                                   const std::string& pointer) const {
    using Kind = CompareSpec::Kind;
    const std::string subject = "output " + in_quotes(output.name) + ": ";
    const std::string type(to_string(output.dtype));
    const std::string kind(name_of(compare.kind, compare_kinds));
    const bool counts = is_integer(output.dtype) && output.dtype != DType::boolean;
    switch (compare.kind) {
        case Kind::rms:
            if (is_integer(output.dtype)) {
                fail(pointer + "/kind",
                     subject + "expected exact for type " + type + ", found rms");
            }
            break;
        case Kind::by_index:
        case Kind::lse:
        case Kind::ragged:
            if (is_integer(output.dtype)) {
                fail(pointer + "/kind",
                     subject + "expected a floating-point type for " + kind + ", found " + type);
            }
            break;
        case Kind::set:
        case Kind::samples:
            if (!counts) {
                fail(pointer + "/kind",
                     subject + "expected an integer type for " + kind + ", found " + type);
            }
            break;
        case Kind::exact:
        case Kind::custom:
            break;
    }
    const bool runs =
        compare.kind == Kind::set || compare.kind == Kind::by_index || compare.kind == Kind::ragged;
    if (runs && output.shape.empty()) {
        fail(pointer + "/kind", subject + "expected at least one axis for " + kind);
    }
}

/// What a comparison needs by name is there, and it names nothing that it has no use for.
void TaskRules::check_compare_names(const TensorSpec& output, const CompareSpec& compare,
                                    const std::string& pointer) const {
    using Kind = CompareSpec::Kind;
    const std::string subject = "output " + in_quotes(output.name) + ": ";
    const std::string kind(name_of(compare.kind, compare_kinds));
    const auto belongs = [&](const char* member, const std::string& value, bool known) {
        if (value.empty() || known) return;
        fail(pointer + "/" + member, subject + "expected no " + member + " for " + kind);
    };
    belongs("custom", compare.custom, compare.kind == Kind::custom);
    belongs("index", compare.index, compare.kind == Kind::by_index);
    belongs("offsets", compare.offsets, compare.kind == Kind::ragged);
    belongs("ties", compare.ties, compare.kind == Kind::set);
    belongs("probabilities", compare.probabilities, compare.kind == Kind::samples);
    if (compare.kind == Kind::custom && compare.custom.empty()) {
        fail(pointer + "/custom",
             subject + "expected the name of a comparator, found an empty text");
    }
    if (compare.kind == Kind::by_index) {
        const TensorSpec* index = find_output(compare.index);
        const auto how = task_.compare.find(compare.index);
        if (index == nullptr || how == task_.compare.end() || how->second.kind != Kind::set) {
            fail(pointer + "/index", subject +
                                         "expected the name of an output of kind set, found " +
                                         in_quotes(compare.index));
        }
        if (index->shape != output.shape) {
            fail(pointer + "/index", subject + "expected an output of the same shape, found " +
                                         in_quotes(compare.index));
        }
    }
    if (compare.kind == Kind::ragged) {
        const auto init = task_.init.find(compare.offsets);
        if (init == task_.init.end() || init->second.kind != InitSpec::Kind::offsets) {
            fail(pointer + "/offsets", subject +
                                           "expected the name of an input of kind offsets, found " +
                                           in_quotes(compare.offsets));
        }
    }
    if (compare.kind == Kind::samples && !is_identifier(compare.probabilities)) {
        fail(pointer + "/probabilities",
             subject + "expected the name of a workspace of the reference, found " +
                 in_quotes(compare.probabilities));
    }
    if (!compare.ties.empty() && !is_identifier(compare.ties)) {
        fail(pointer + "/ties", subject +
                                    "expected the name of a workspace of the reference, found " +
                                    in_quotes(compare.ties));
    }
    if (compare.kind == Kind::samples) {
        check_workspace(pointer + "/probabilities", subject, compare.probabilities, "f32");
    }
    if (!compare.ties.empty()) check_workspace(pointer + "/ties", subject, compare.ties, "u8");
}

/// The reference's plan must have this workspace, a matrix of `element`. A reference whose plan
/// cannot be read is told so when it is compiled.
void TaskRules::check_workspace(const std::string& pointer, const std::string& subject,
                                const std::string& name, const std::string& element) const {
    if (task_.reference_cuda.empty()) return;
    plan::Plan plan;
    try {
        plan = plan::parse_plan(task_.reference_cuda, "reference", task_.definition,
                                task_.constant_inputs);
    } catch (const Error&) {
        return;
    }
    const auto found =
        std::find_if(plan.workspaces.begin(), plan.workspaces.end(),
                     [&](const plan::Workspace& space) { return space.name == name; });
    if (found == plan.workspaces.end()) {
        fail(pointer, subject + "expected a workspace of the reference, found none named " +
                          in_quotes(name));
    }
    if (found->element != element || found->extents.size() != 2) {
        fail(pointer, subject + "expected workspace " + in_quotes(name) +
                          " of the reference to be " + element + " [rows, n], found " +
                          found->element + " with " + std::to_string(found->extents.size()) +
                          (found->extents.size() == 1 ? " extent" : " extents"));
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

void TaskRules::check_inputs_list(const std::string& member,
                                  const std::vector<std::string>& names) const {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string pointer = "/kernelforge/" + member + "/" + std::to_string(i);
        const TensorSpec* input = find_input(names[i]);
        if (input == nullptr || input->scalar) {
            fail(pointer, "expected the name of an input tensor, found " + in_quotes(names[i]));
        }
        if (!seen.insert(names[i]).second) {
            fail(pointer, "expected each " + member + " input once, found " + in_quotes(names[i]) +
                              " again");
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

void TaskRules::check_emulator_axes() const {
    for (const auto& [name, value] : task_.emulator_axes) {
        const std::string pointer = "/kernelforge/emulator_axes/" + JsonNode::escape(name);
        const Axis* axis = find_axis(name);
        if (axis == nullptr || axis->kind != Axis::Kind::constant) {
            fail(pointer, "expected the name of a constant axis, found " + in_quotes(name));
        }
        if (value < 1) {
            fail(pointer, "axis " + in_quotes(name) + ": expected a value above 0, found " +
                              std::to_string(value));
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
        portable = portable || baseline.kind == BaselineSpec::Kind::cuda;
        if (baseline.kind != BaselineSpec::Kind::command) {
            if (baseline.source.empty()) {
                fail(pointer + "/file", subject + "expected a file that is not empty");
            }
            continue;
        }
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
    if (!(workload.weight >= least_weight) || !(workload.weight <= most_weight)) {
        fail_at("/weight", "expected a weight above 0 (" + number_text(least_weight) + " to " +
                               number_text(most_weight) + "), found " +
                               number_text(workload.weight));
    }
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
        }
    }
    for (const TensorSpec& input : task_.definition.inputs) check_init_extents(place, input, axes);
    check_ragged_extents(place, axes);
}

void TaskRules::check_init_extents(const Place& place, const TensorSpec& input,
                                   const std::map<std::string, std::int64_t>& axes) const {
    const auto found = task_.init.find(input.name);
    if (found == task_.init.end()) return;
    const InitSpec& init = found->second;
    const auto fail_at = [&](const std::string& message) {
        reporter_.fail(ErrorCode::parse, Place{place.part, place.index, "/axes"},
                       "input " + in_quotes(input.name) + ": " + message);
    };
    const double largest = integer_range(input.dtype).second;
    const std::string type(to_string(input.dtype));
    if (init.kind == InitSpec::Kind::permutation) {
        const std::int64_t extent = axes.at(input.shape.back());
        if (static_cast<double>(extent - 1) <= largest) return;
        fail_at("a permutation of " + std::to_string(extent) + " values does not fit type " + type);
    }
    if (init.kind != InitSpec::Kind::offsets && init.kind != InitSpec::Kind::distinct) return;
    const bool offsets = init.kind == InitSpec::Kind::offsets;
    const std::int64_t bound = axes.at(init.bound);
    const std::int64_t extent = axes.at(input.shape.front());
    if (static_cast<double>(offsets ? bound : bound - 1) > largest) {
        fail_at("values up to the bound " + std::to_string(bound) + " do not fit type " + type);
    }
    if (offsets && extent < 2) {
        fail_at("expected at least 2 offsets, found " + std::to_string(extent));
    }
    if (!offsets && extent > bound) {
        fail_at("expected at most " + std::to_string(bound) + " distinct values, found " +
                std::to_string(extent));
    }
}

/// A ragged output has room for all its segments.
void TaskRules::check_ragged_extents(const Place& place,
                                     const std::map<std::string, std::int64_t>& axes) const {
    for (const auto& [name, compare] : task_.compare) {
        if (compare.kind != CompareSpec::Kind::ragged) continue;
        const std::int64_t rows = axes.at(find_output(name)->shape.front());
        const std::int64_t needed = axes.at(task_.init.at(compare.offsets).bound);
        if (rows >= needed) continue;
        reporter_.fail(ErrorCode::parse, Place{place.part, place.index, "/axes"},
                       "output " + in_quotes(name) + ": expected at least " +
                           std::to_string(needed) + " rows, the bound of " +
                           in_quotes(compare.offsets) + ", found " + std::to_string(rows));
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

Definition emulator_definition(const Task& task) {
    Definition definition = task.definition;
    for (Axis& axis : definition.axes) {
        const auto found = task.emulator_axes.find(axis.name);
        if (found != task.emulator_axes.end() && axis.kind == Axis::Kind::constant) {
            axis.value = found->second;
        }
    }
    return definition;
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
