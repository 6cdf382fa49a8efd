// SPDX-License-Identifier: Apache-2.0
#include "roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/expression.hpp"

namespace kernelforge {
namespace {

using Axes = std::map<std::string, std::int64_t>;

/// Share of a roof from which on a launch counts as limited by it.
constexpr double limited_share = 0.6;
/// An input of fewer elements than the largest one's over this is no operand of the products: a
/// scale for a block of 128 elements, a bias.
constexpr double operand_share = 64.0;
/// Matrix units do twice the operations on operands of 8 bits (data sheets of sm_89 to sm_100).
constexpr double narrow_gain = 2.0;

double tensor_bytes(const TensorSpec& tensor, const Axes& axes) {
    if (tensor.scalar) return 0.0;
    double elements = 1.0;
    for (const std::string& axis : tensor.shape) {
        const auto found = axes.find(axis);
        if (found == axes.end()) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("tensor {}: axis {} is not defined", tensor.name, axis));
        }
        elements *= static_cast<double>(found->second);
    }
    return elements * static_cast<double>(bits_of(tensor.dtype)) / 8.0;
}

double evaluate(const std::string& text, const char* what, const Axes& axes) {
    plan::Names names;
    names.integer = [&](const std::string& name, std::int64_t& value) {
        const auto found = axes.find(name);
        if (found == axes.end()) return false;
        value = found->second;
        return true;
    };
    const std::int64_t value = plan::Expression::parse(text, {what, 1, 1}).evaluate(names);
    if (value < 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: expected a count, found {} from {}", what, value, text));
    }
    return static_cast<double>(value);
}

bool is_floating(DType dtype) {
    return dtype <= DType::float4_e2m1;
}

std::string percent(double share) {
    return fmt::format("{:.0f} %", 100.0 * share);
}

std::string sentence(const Bottleneck& b, double time_s) {
    switch (b.kind) {
        case BottleneckKind::launch:
            return fmt::format(
                "{:.2f} us is within twice the time of an empty kernel: only fewer or "
                "shorter launches help",
                1e6 * time_s);
        case BottleneckKind::memory:
            return fmt::format(
                "limited by memory: compulsory bytes move at {} of the measured roof, "
                "{:.2f} times the bound",
                percent(b.memory_fraction), b.headroom);
        case BottleneckKind::compute:
            return fmt::format(
                "limited by arithmetic: {} of the measured roof, {:.2f} times the bound",
                percent(b.compute_fraction), b.headroom);
        case BottleneckKind::balanced:
            return fmt::format("near both roofs: memory {}, arithmetic {}, {:.2f} times the bound",
                               percent(b.memory_fraction), percent(b.compute_fraction), b.headroom);
        case BottleneckKind::latency:
            return fmt::format(
                "limited by neither roof (memory {}, arithmetic {}): waiting, redundant "
                "traffic or too little parallelism; {:.2f} times the bound",
                percent(b.memory_fraction), percent(b.compute_fraction), b.headroom);
        case BottleneckKind::unknown:
            break;
    }
    return "position unknown: this device's roofs were not measured";
}

}  // namespace

WorkloadCost workload_cost(const Task& task, std::size_t workload) {
    const Axes axes = axis_values(task.definition, task.workloads.at(workload));
    double read = 0.0;
    double written = 0.0;
    for (const TensorSpec& input : task.definition.inputs) read += tensor_bytes(input, axes);
    for (const TensorSpec& output : task.definition.outputs) written += tensor_bytes(output, axes);
    WorkloadCost cost;
    cost.bytes = task.bytes.empty() ? read + written : evaluate(task.bytes, "bytes", axes);
    if (read + written > 0.0) cost.write_share = written / (read + written);
    if (!task.flops.empty()) cost.operations = evaluate(task.flops, "flops", axes);
    return cost;
}

std::optional<double> memory_roof(const Roofs& roofs, double write_share) {
    const auto first_of = [](std::optional<double> a, std::optional<double> b,
                             std::optional<double> c) {
        return a ? a : b ? b : c;
    };
    const auto read =
        first_of(roofs.read_bytes_per_s, roofs.copy_bytes_per_s, roofs.write_bytes_per_s);
    const auto copy =
        first_of(roofs.copy_bytes_per_s, roofs.read_bytes_per_s, roofs.write_bytes_per_s);
    const auto write =
        first_of(roofs.write_bytes_per_s, roofs.copy_bytes_per_s, roofs.read_bytes_per_s);
    if (!copy) return std::nullopt;
    const double low = write_share <= 0.5 ? *read : *copy;
    const double high = write_share <= 0.5 ? *copy : *write;
    const double position = write_share <= 0.5 ? 2.0 * write_share : 2.0 * write_share - 1.0;
    return 1.0 / ((1.0 - position) / low + position / high);
}

std::optional<double> compute_roof(const Task& task, const Roofs& roofs) {
    const Axes axes =
        task.workloads.empty() ? Axes{} : axis_values(task.definition, task.workloads.front());
    std::vector<std::pair<double, std::size_t>> operands;  // elements, bits of one
    double largest = 0.0;
    for (const TensorSpec& input : task.definition.inputs) {
        if (input.scalar || !is_floating(input.dtype)) continue;
        if (input.dtype == DType::float64) return std::nullopt;
        const std::size_t bits = bits_of(input.dtype);
        const double elements =
            axes.empty() ? 1.0 : tensor_bytes(input, axes) * 8.0 / static_cast<double>(bits);
        operands.emplace_back(elements, bits);
        largest = std::max(largest, elements);
    }
    std::size_t widest = 0;
    for (const auto& [elements, bits] : operands) {
        if (elements * operand_share >= largest) widest = std::max(widest, bits);
    }
    if (widest == 0 || widest > 16 || task.policy.vector_fp32_only) return roofs.fp32_flop_per_s;
    if (widest > 8 || !roofs.bf16_flop_per_s) return roofs.bf16_flop_per_s;
    return narrow_gain * *roofs.bf16_flop_per_s;
}

std::optional<double> bound_s(const Task& task, std::size_t workload, const Roofs& roofs) {
    const WorkloadCost cost = workload_cost(task, workload);
    std::optional<double> bound = roofs.empty_kernel_s;
    const auto raise = [&](double seconds) { bound = std::max(bound.value_or(0.0), seconds); };
    if (const auto roof = memory_roof(roofs, cost.write_share)) raise(cost.bytes / *roof);
    const auto compute = compute_roof(task, roofs);
    if (compute && cost.operations) raise(*cost.operations / *compute);
    return bound;
}

Bottleneck bottleneck(const Task& task, LaunchKey key, double time_s, const Roofs& roofs) {
    Bottleneck result;
    result.key = key;
    const WorkloadCost cost = workload_cost(task, key.workload);
    const auto memory = memory_roof(roofs, cost.write_share);
    const auto compute = compute_roof(task, roofs);
    const auto bound = bound_s(task, key.workload, roofs);
    if (bound && *bound > 0.0 && time_s > 0.0) {
        result.bound_s = *bound;
        result.headroom = time_s / *bound;
        if (memory) result.memory_fraction = std::min(1.0, cost.bytes / time_s / *memory);
        if (compute && cost.operations) {
            result.compute_fraction = std::min(1.0, *cost.operations / time_s / *compute);
        }
        const bool by_memory = result.memory_fraction >= limited_share;
        const bool by_compute = result.compute_fraction >= limited_share;
        if (by_memory && by_compute) {
            result.kind = BottleneckKind::balanced;
        } else if (by_memory) {
            result.kind = BottleneckKind::memory;
        } else if (by_compute) {
            result.kind = BottleneckKind::compute;
        } else if (roofs.empty_kernel_s && time_s <= 2.0 * *roofs.empty_kernel_s) {
            result.kind = BottleneckKind::launch;
        } else if (memory || compute) {
            result.kind = BottleneckKind::latency;
        }
    }
    result.sentence = sentence(result, time_s);
    return result;
}

}  // namespace kernelforge
