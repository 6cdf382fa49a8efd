// SPDX-License-Identifier: Apache-2.0
#include "prompt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "plan/plan.hpp"
#include "referee/comparison.hpp"
#include "reply.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_line = 280;   // of a lesson, characters
constexpr std::size_t max_quote = 200;  // of a quoted source line, characters

std::string clipped(std::string_view text, std::size_t most) {
    std::string line(text.substr(0, text.find('\n')));
    if (line.size() <= most) return line;
    std::size_t end = most;
    // Not within a UTF-8 sequence.
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
    return line.substr(0, end) + "...";
}

std::string_view line_of(std::string_view text, std::size_t number) {
    std::size_t begin = 0;
    for (std::size_t line = 1; line < number; ++line) {
        begin = text.find('\n', begin);
        if (begin == std::string_view::npos) return {};
        ++begin;
    }
    return text.substr(begin, text.find('\n', begin) - begin);
}

std::string microseconds(const std::optional<double>& seconds) {
    return seconds ? fmt::format("{:.2f}", 1e6 * *seconds) : "-";
}

std::string code_block(std::string_view source) {
    std::string text = "```cuda\n" + std::string(source);
    if (!text.ends_with('\n')) text += '\n';
    return text + "```\n";
}

// ---- the operation ----

std::string axis_line(const Axis& axis) {
    std::string text = "- " + axis.name;
    if (axis.kind == Axis::Kind::constant) text += fmt::format(" = {} (constant)", axis.value);
    if (axis.kind == Axis::Kind::variable) text += " (variable)";
    if (axis.kind == Axis::Kind::expression) text += " = " + axis.expression;
    if (!axis.description.empty()) text += ": " + axis.description;
    return text + "\n";
}

std::string tensor_line(const TensorSpec& tensor) {
    std::string text = tensor.scalar
                           ? fmt::format("- {}: scalar {}", tensor.name, to_string(tensor.dtype))
                           : fmt::format("- {}: {} [{}]", tensor.name, to_string(tensor.dtype),
                                         fmt::join(tensor.shape, ", "));
    if (!tensor.description.empty()) text += ": " + tensor.description;
    return text + "\n";
}

std::string compare_line(const Task& task, const TensorSpec& output) {
    const auto found = task.compare.find(output.name);
    if (found == task.compare.end()) {
        return fmt::format("- {} must match the reference at the precision of its type\n",
                           output.name);
    }
    const CompareSpec& compare = found->second;
    switch (compare.kind) {
        case CompareSpec::Kind::exact:
            return fmt::format("- {} must match the reference exactly\n", output.name);
        case CompareSpec::Kind::set:
            return fmt::format(
                "- each run of the last axis of {} must hold the reference's values, in any "
                "order\n",
                output.name);
        case CompareSpec::Kind::by_index:
            return fmt::format(
                "- each element of {} must match the reference's of the same {} at {} precision\n",
                output.name, compare.index, to_string(compare.tier));
        case CompareSpec::Kind::samples:
            return fmt::format("- {} must be drawn from the reference's distributions\n",
                               output.name);
        case CompareSpec::Kind::custom:
            return fmt::format("- {} is judged by the comparator {}\n", output.name,
                               compare.custom);
        case CompareSpec::Kind::rms:
        case CompareSpec::Kind::lse:
        case CompareSpec::Kind::ragged:
            break;
    }
    return fmt::format("- {} must match the reference at {} precision\n", output.name,
                       to_string(compare.tier));
}

std::string operation_text(const Task& task) {
    const Definition& definition = task.definition;
    std::string text = "# Operation: " + definition.name + "\n";
    if (!definition.description.empty()) text += definition.description + "\n";
    text += "\nAxes:\n";
    for (const Axis& axis : definition.axes) text += axis_line(axis);
    text += "\nInputs (dense, row-major):\n";
    for (const TensorSpec& input : definition.inputs) text += tensor_line(input);
    text += "\nOutputs:\n";
    for (const TensorSpec& output : definition.outputs) text += tensor_line(output);
    for (const auto& [output, input] : task.inplace) {
        text += fmt::format("- {} shares the buffer of {}\n", output, input);
    }
    text += "\nRequirements:\n";
    for (const TensorSpec& output : definition.outputs) text += compare_line(task, output);
    for (const std::string& constraint : definition.constraints) text += "- " + constraint + "\n";
    if (task.policy.vector_fp32_only)
        text += "- matrix instructions (mma, wgmma) are not allowed\n";
    if (!definition.reference.empty()) {
        text += "\nReference (PyTorch, defines what is right):\n```python\n" + definition.reference;
        if (!text.ends_with('\n')) text += '\n';
        text += "```\n";
    }
    return text;
}

std::string roof_text(const char* name, const std::optional<double>& value, const char* unit) {
    return value ? fmt::format("- measured {}: {:.2f} {}\n", name, *value / 1e12, unit) : "";
}

std::string device_text(const DeviceInfo& device) {
    std::string text = fmt::format("# Device: {} ({})\n", device.name, device.arch);
    text += fmt::format(
        "- {} multiprocessors, {} threads and {} registers each, {} KiB shared memory each, "
        "{} KiB at most for a block\n- L2 cache {:.1f} MiB\n",
        device.multiprocessors, device.max_threads_per_multiprocessor,
        device.registers_per_multiprocessor, device.shared_bytes_per_multiprocessor / 1024,
        device.max_shared_bytes_per_block / 1024, static_cast<double>(device.l2_bytes) / (1 << 20));
    const Roofs& roofs = device.roofs;
    text += roof_text("read bandwidth", roofs.read_bytes_per_s, "TB/s");
    text += roof_text("copy bandwidth", roofs.copy_bytes_per_s, "TB/s");
    text += roof_text("write bandwidth", roofs.write_bytes_per_s, "TB/s");
    text += roof_text("fp32 rate", roofs.fp32_flop_per_s, "TFLOP/s");
    text += roof_text("bf16 matrix rate", roofs.bf16_flop_per_s, "TFLOP/s");
    if (roofs.empty_kernel_s) {
        text += fmt::format("- an empty kernel takes {:.2f} us\n", 1e6 * *roofs.empty_kernel_s);
    }
    return text;
}

std::string axes_text(const Workload& workload) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : workload.axes)
        parts.push_back(fmt::format("{}={}", name, value));
    for (const auto& [name, value] : workload.scalars)
        parts.push_back(fmt::format("{}={:g}", name, value));
    return fmt::format("{}", fmt::join(parts, " "));
}

std::optional<double> baseline_of(const WorkloadSummary& summary) {
    if (summary.baselines_s.empty()) return std::nullopt;
    return summary.baselines_s.front().second;
}

/// Without roofs there is no bound, and what the times are must be known to who optimises for them.
std::string modelled_workloads_text(const PromptInput& input) {
    const std::string label(to_string(Provenance::modelled_static));
    std::string text = fmt::format(
        "# Workloads\nThere is no GPU: candidates are executed and checked by an emulator on small "
        "shapes. Times are {}, in microseconds: issue cycles of the machine code, each instruction "
        "counted once, plus a fixed cost a launch. They rank candidates and predict no time.\n"
        "| workload | axes | baseline, {} | leader, {} |\n|---|---|---|---|\n",
        label, label, label);
    for (std::size_t i = 0; i < input.workloads.size(); ++i) {
        const WorkloadSummary& summary = input.workloads[i];
        text += fmt::format("| {} | {} | {} | {} |\n", i, axes_text(input.task.workloads.at(i)),
                            microseconds(baseline_of(summary)), microseconds(summary.best_s));
    }
    return text;
}

std::string workloads_text(const PromptInput& input) {
    if (input.device.emulated) return modelled_workloads_text(input);
    std::string text =
        "# Workloads\nTimes in microseconds, caches cold. The bound is what the device can do at "
        "best.\n"
        "| workload | axes | baseline | leader | bound |\n|---|---|---|---|---|\n";
    for (std::size_t i = 0; i < input.workloads.size(); ++i) {
        const WorkloadSummary& summary = input.workloads[i];
        text +=
            fmt::format("| {} | {} | {} | {} | {} |\n", i, axes_text(input.task.workloads.at(i)),
                        microseconds(baseline_of(summary)), microseconds(summary.best_s),
                        microseconds(summary.bound_s));
    }
    return text;
}

// ---- nodes ----

std::string times_text(const NodeRecord& node) {
    const auto& evaluation = node.promotion ? node.promotion : node.evaluation;
    if (!evaluation) return "";
    std::string text;
    for (const WorkloadResult& result : evaluation->workloads) {
        if (!result.timing) continue;
        const bool measured = result.timing->provenance == Provenance::measured;
        text += fmt::format(
            "- workload {}: {:.2f} us{}\n", result.workload, 1e6 * result.timing->median_s,
            measured ? "" : fmt::format(", {}", to_string(result.timing->provenance)));
    }
    return text;
}

std::string known(const std::optional<int>& value) {
    return value ? std::to_string(*value) : "?";
}

std::string raw_text(const NodeRecord& node) {
    std::string text = times_text(node);
    if (node.compile) {
        for (const KernelFacts& kernel : node.compile->kernels) {
            text += fmt::format(
                "- kernel {}: registers {}, spill stores {} bytes, static shared {} bytes\n",
                kernel.name, known(kernel.registers_per_thread), known(kernel.spill_store_bytes),
                known(kernel.static_shared_bytes));
        }
    }
    if (!node.diagnosis) return text;
    for (const Finding& finding : node.diagnosis->findings) {
        if (finding.tool == "raw")
            text += fmt::format("- launch {}: {}\n", finding.key.launch, finding.cause);
    }
    return text;
}

std::string finding_text(const Finding& finding) {
    std::string text =
        fmt::format("- [{}] {}{}", finding.tool,
                    finding.kernel.empty() ? "" : "kernel " + finding.kernel + ": ", finding.cause);
    if (finding.position.line != 0) text += fmt::format(" (line {})", finding.position.line);
    if (finding.gain_limit)
        text += fmt::format("; at most {:.2f} times faster", *finding.gain_limit);
    text += '\n';
    for (const Action& action : finding.actions) {
        text += "  try: " + action.edit + "\n";
        if (!action.example.empty()) text += code_block(action.example);
    }
    for (const std::string& forbidden : finding.forbidden) text += "  do not: " + forbidden + "\n";
    return text;
}

std::string findings_text(const NodeRecord& node) {
    std::string text = times_text(node);
    if (!node.diagnosis) return text;
    for (const Bottleneck& b : node.diagnosis->bottlenecks) {
        text += fmt::format("- workload {}: {}\n", b.key.workload, b.sentence);
    }
    for (const Finding& finding : node.diagnosis->findings) {
        if (finding.tool != "raw") text += finding_text(finding);
    }
    for (const MissingDatum& missing : node.diagnosis->missing) {
        text += fmt::format("- not measurable here: {} ({})\n", missing.what, missing.why);
    }
    return text;
}

std::string parent_text(const PromptInput& input) {
    const NodeRecord& parent = *input.parent;
    std::string text = "# Parent candidate\n";
    if (parent.speedup)
        text += fmt::format("It runs at {:.3f} times the baseline's speed.\n", *parent.speedup);
    if (parent.outcome != ExpansionOutcome::evaluated || parent.status != EvaluationStatus::ok) {
        text += "It failed: " + clipped(parent.message, max_line) + "\n";
    }
    text += code_block(parent.candidate ? parent.candidate->source : "");
    if (input.feedback == Feedback::none) return text;
    const std::string facts =
        input.feedback == Feedback::raw ? raw_text(parent) : findings_text(parent);
    if (!facts.empty()) text += "\n# What was measured of the parent\n" + facts;
    return text;
}

std::string task_text(const PromptInput& input) {
    std::string text = "# Your task\n";
    if (input.parent == nullptr) {
        text += "Write a candidate for this operation from scratch.\n";
    } else if (input.expansion.action == ExpansionAction::repair) {
        text += "Repair the parent candidate: keep its idea, make it right.\n";
    } else if (input.expansion.action == ExpansionAction::draft) {
        text += "Write a candidate that takes another approach than the parent.\n";
    } else {
        text +=
            "Change the parent candidate so that it is faster. One idea, carried out completely.\n";
    }
    if (!input.expansion.directive.empty()) text += input.expansion.directive + "\n";
    return text;
}

std::string inspirations_text(const PromptInput& input) {
    std::string text;
    for (const NodeRecord* node : input.inspirations) {
        if (!node->candidate) continue;
        text += "# Another candidate, for inspiration\n";
        if (node->speedup)
            text += fmt::format("{:.3f} times the baseline's speed.\n", *node->speedup);
        text += code_block(node->candidate->source);
    }
    return text;
}

std::string lessons_text(const PromptInput& input) {
    if (input.attempts.empty()) return "";
    std::string text = "# Attempts that did not help\n";
    const std::size_t skip = input.attempts.size() - std::min(input.attempts.size(), max_lessons);
    for (std::size_t i = skip; i < input.attempts.size(); ++i) {
        text += "- " + lesson_line(*input.attempts[i]) + "\n";
    }
    return text;
}

// ---- repairs ----

std::string diagnostics_text(const NodeRecord& failed) {
    std::string text;
    std::size_t quoted = 0;
    for (const CompileDiagnostic& diagnostic : failed.compile->diagnostics) {
        if (diagnostic.severity != CompileDiagnostic::Severity::error) continue;
        if (quoted++ == max_quoted_diagnostics) return text + "- and more\n";
        text += fmt::format("- line {}: {}\n", diagnostic.position.line,
                            clipped(diagnostic.message, max_line));
        const std::string_view line = line_of(failed.candidate->source, diagnostic.position.line);
        if (diagnostic.position.line != 0 && !line.empty()) {
            text +=
                fmt::format("    {} | {}\n", diagnostic.position.line, clipped(line, max_quote));
        }
    }
    return text;
}

/// The line that a message `FILE:LINE:…` names, quoted; empty when it names none.
std::string quoted_line(const NodeRecord& failed) {
    const std::size_t colon = failed.message.find(':');
    if (colon == std::string::npos || !failed.candidate) return "";
    std::size_t number = 0;
    const char* begin = failed.message.data() + colon + 1;
    const auto parsed =
        std::from_chars(begin, failed.message.data() + failed.message.size(), number);
    if (parsed.ec != std::errc{} || number == 0) return "";
    const std::string_view line = line_of(failed.candidate->source, number);
    return line.empty() ? "" : fmt::format("    {} | {}\n", number, clipped(line, max_quote));
}

std::vector<std::int64_t> shape_of(const Task& task, std::size_t workload,
                                   const std::string& output) {
    const auto axes = axis_values(task.definition, task.workloads.at(workload));
    std::vector<std::int64_t> shape;
    for (const TensorSpec& tensor : task.definition.outputs) {
        if (tensor.name != output) continue;
        for (const std::string& axis : tensor.shape) shape.push_back(axes.at(axis));
    }
    return shape;
}

/// The first wrong output, or nothing.
std::string wrong_output_text(const Task& task, const NodeRecord& failed) {
    for (const auto* evaluation : {&failed.evaluation, &failed.promotion}) {
        if (!*evaluation) continue;
        for (const WorkloadResult& result : (*evaluation)->workloads) {
            for (const OutputError& error : result.outputs) {
                if (error.ok) continue;
                return fmt::format(
                    "- workload {} ({}): {}\n", result.workload,
                    axes_text(task.workloads.at(result.workload)),
                    referee::describe(error, shape_of(task, result.workload, error.output)));
            }
        }
    }
    return "";
}

}  // namespace

std::string system_text() {
    std::string text =
        "You write fast CUDA device code for one operation on one device. A referee compiles it, "
        "runs it on "
        "inputs that you do not see, compares every output with a trusted reference, and times it "
        "with cold "
        "caches. Only what is right counts; among what is right, the fastest wins.\n\n"
        "# Candidate format\n";
    text += plan::format_summary();
    text +=
        "\n# Rules\n"
        "- Device code and launch lines only: no host code, no main, no CUDA runtime or driver "
        "calls.\n"
        "- Every output element must be written on every call; buffers hold garbage before it. "
        "Inputs are "
        "read-only. Nothing may be kept from one call to the next.\n"
        "- Right for every workload listed, and for every shape that the //@valid line admits.\n"
        "- No printf, no device-side allocation, no launches from kernels, no clocks, no inline "
        "assembly that "
        "calls functions or discards cache lines.\n"
        "- Do not lower precision below what the requirements allow.\n\n"
        "# Reply format\n"
        "plan: what you change and why, a few sentences\n"
        "change-class: one of ";
    text += fmt::format("{}\n", fmt::join(change_classes(), ", "));
    text +=
        "expect: metrics that should move and in which direction, such as `duration down`\n"
        "lesson-of-parent: one sentence on what the parent's result teaches\n"
        "Then the complete candidate in one ```cuda block. Always the whole file, never a "
        "fragment.\n";
    return text;
}

std::vector<ChatMessage> first_messages(const PromptInput& input) {
    std::vector<std::string> parts = {operation_text(input.task), device_text(input.device)};
    if (!input.task.constant_inputs.empty()) {
        parts.push_back(fmt::format("Constant inputs, which //@prepare may use: {}\n",
                                    fmt::join(input.task.constant_inputs, ", ")));
    }
    if (input.task.policy.library_calls) {
        parts.push_back("# Library steps\n" + std::string(plan::call_summary()));
    }
    if (!input.guide.empty()) parts.push_back("# Guide\n" + std::string(input.guide) + "\n");
    parts.push_back(workloads_text(input));
    if (input.parent != nullptr) parts.push_back(parent_text(input));
    parts.push_back(task_text(input));
    for (std::string& part : parts) {
        if (!part.ends_with('\n')) part += '\n';
    }
    std::string user = fmt::format("{}", fmt::join(parts, "\n"));
    for (const std::string& part : {inspirations_text(input), lessons_text(input)}) {
        if (!part.empty()) user += "\n" + part;
    }
    return {{ChatRole::system, system_text(), {}, {}}, {ChatRole::user, std::move(user), {}, {}}};
}

std::string repair_text(const Task& task, const NodeRecord& failed) {
    std::string text = fmt::format("That candidate was refused ({}).\n", to_string(failed.status));
    std::string details;
    if (failed.compile && failed.candidate) details = diagnostics_text(failed);
    if (details.empty()) details = wrong_output_text(task, failed);
    if (details.empty()) {
        details = "- " + clipped(failed.message, 2 * max_line) + "\n" + quoted_line(failed);
    }
    return text + details +
           "Find the cause, then answer in the same format with the complete corrected "
           "candidate.\n";
}

std::string lesson_line(const NodeRecord& attempt) {
    std::string text = attempt.change_class.empty() ? "" : attempt.change_class + ": ";
    if (!attempt.plan.empty()) text += clipped(attempt.plan, max_line) + " -> ";
    if (attempt.outcome != ExpansionOutcome::evaluated) {
        text += fmt::format("{}: ", to_string(attempt.outcome));
    } else if (attempt.status != EvaluationStatus::ok) {
        text += fmt::format("{}: ", to_string(attempt.status));
    }
    if (attempt.speedup)
        text += fmt::format("right, {:.3f} times the baseline's speed; ", *attempt.speedup);
    return text + clipped(attempt.message, max_line);
}

}  // namespace kernelforge
