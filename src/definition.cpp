// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/definition.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "definition_rules.hpp"
#include "referee/limits.hpp"
#include "task_text.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_definition_bytes = std::size_t{16} << 20;
constexpr std::size_t max_workload_bytes = std::size_t{64} << 20;
constexpr std::size_t max_source_bytes = std::size_t{4} << 20;

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

constexpr std::array<Named<InitSpec::Kind>, 8> init_kinds{{
    {"normal", InitSpec::Kind::normal},
    {"uniform", InitSpec::Kind::uniform},
    {"integers", InitSpec::Kind::integers},
    {"constant", InitSpec::Kind::constant},
    {"permutation", InitSpec::Kind::permutation},
    {"heavy_tail", InitSpec::Kind::heavy_tail},
    {"offsets", InitSpec::Kind::offsets},
    {"distinct", InitSpec::Kind::distinct},
}};

constexpr std::array tiers{
    PrecisionTier::float64, PrecisionTier::float32,  PrecisionTier::tensor_float32,
    PrecisionTier::float16, PrecisionTier::bfloat16, PrecisionTier::float8,
};

constexpr std::array<Named<BaselineSpec::Kind>, 5> baseline_kinds{{
    {"cuda", BaselineSpec::Kind::cuda},
    {"cublaslt", BaselineSpec::Kind::cublaslt},
    {"cudnn", BaselineSpec::Kind::cudnn},
    {"cub", BaselineSpec::Kind::cub},
    {"command", BaselineSpec::Kind::command},
}};

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
    workload.weight = node.number_or("weight", 1.0);
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
            if (is_integer(output.dtype) && !task_.compare.contains(output.name))
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
                       "unused", "axis_ranges", "flops", "bytes", "policy", "emulator",
                       "emulator_axes"});
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
    const auto read_names = [&](const char* member, std::vector<std::string>& names) {
        const auto list = node.find(member);
        for (std::size_t i = 0; list && i < list->array_size(); ++i) {
            names.push_back(list->at(i).as_string());
        }
    };
    read_names("constant", task_.constant_inputs);
    read_names("unused", task_.unused_inputs);
    if (const auto ranges = node.find("axis_ranges")) {
        ranges->for_each_member([&](const std::string& axis, const JsonNode& range) {
            if (!range.json().is_array() || range.array_size() != 2) range.expected("[low, high]");
            task_.axis_ranges[axis] = {range.at(0).as_integer(), range.at(1).as_integer()};
        });
    }
    if (const auto axes = node.find("emulator_axes")) {
        axes->for_each_member([&](const std::string& axis, const JsonNode& value) {
            task_.emulator_axes[axis] = value.as_integer();
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
        if (baseline.kind == BaselineSpec::Kind::command) {
            entry.only_members({"name", "kind", "command", "script"});
            if (const auto script = entry.find("script")) {
                baseline.source = read_named_file(*script, baseline.source_path);
            }
            const JsonNode command = entry.at("command");
            for (std::size_t j = 0; j < command.array_size(); ++j) {
                baseline.command.push_back(command.at(j).as_string());
            }
        } else {
            entry.only_members({"name", "kind", "file"});
            baseline.source = read_named_file(entry.at("file"), baseline.source_path);
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
                entry.only_members({"kind", "mean", "stddev", "used_by", "varied"});
                break;
            case InitSpec::Kind::uniform:
                entry.only_members({"kind", "low", "high", "used_by", "varied"});
                break;
            case InitSpec::Kind::integers:
                entry.only_members({"kind", "low", "high", "used_by"});
                (void)entry.at("low");
                (void)entry.at("high");
                break;
            case InitSpec::Kind::constant:
                entry.only_members({"kind", "low", "used_by"});
                (void)entry.at("low");
                break;
            case InitSpec::Kind::permutation:
                entry.only_members({"kind", "used_by"});
                break;
            case InitSpec::Kind::offsets:
            case InitSpec::Kind::distinct:
                entry.only_members({"kind", "bound", "used_by"});
                init.bound = entry.at("bound").as_string();
                break;
        }
        if (const auto used_by = entry.find("used_by")) {
            init.used_by = used_by->as_string();
            if (init.used_by.empty()) used_by->expected("the name of an input of kind distinct");
        }
        init.mean = entry.number_or("mean", init.mean);
        init.stddev = entry.number_or("stddev", init.stddev);
        init.low = entry.number_or("low", init.low);
        init.high = entry.number_or("high", init.high);
        init.varied = entry.boolean_or("varied", init.varied);
        task_.init[input] = init;
    });
}

void TaskReader::read_compare(const JsonNode& node) {
    node.for_each_member([&](const std::string& output, const JsonNode& entry) {
        CompareSpec compare;
        for (const TensorSpec& spec : task_.definition.outputs) {
            if (spec.name == output && spec.dtype != DType::float4_e2m1) {
                compare = referee::default_compare(spec.dtype);
            }
        }
        if (const auto kind = entry.find("kind")) compare.kind = one_of(*kind, compare_kinds);
        switch (compare.kind) {
            case CompareSpec::Kind::rms:
            case CompareSpec::Kind::lse:
                entry.only_members({"kind", "tier", "slack"});
                break;
            case CompareSpec::Kind::exact:
                entry.only_members({"kind"});
                break;
            case CompareSpec::Kind::set:
                entry.only_members({"kind", "ties"});
                break;
            case CompareSpec::Kind::by_index:
                entry.only_members({"kind", "tier", "slack", "index"});
                compare.index = entry.at("index").as_string();
                break;
            case CompareSpec::Kind::ragged:
                entry.only_members({"kind", "tier", "slack", "offsets"});
                compare.offsets = entry.at("offsets").as_string();
                break;
            case CompareSpec::Kind::samples:
                entry.only_members({"kind", "probabilities"});
                compare.probabilities = entry.at("probabilities").as_string();
                break;
            case CompareSpec::Kind::custom:
                entry.only_members({"kind", "custom"});
                compare.custom = entry.at("custom").as_string();
                break;
        }
        if (const auto tier = entry.find("tier")) compare.tier = one_of(*tier, tiers);
        compare.slack = entry.number_or("slack", 1.0);
        compare.ties = entry.string_or("ties", "");
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

}  // namespace kernelforge
