// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernelforge/registry.hpp"
#include "referee/comparison.hpp"
#include "referee/distributions.hpp"

namespace kernelforge::worker {

namespace {

/// Of the process: plugins stay loaded until it ends in any case.
Registry& comparators() {
    static Registry registry;
    return registry;
}

/// The bytes of an input, drawn again: nothing that ran on the device can have changed them.
std::vector<std::byte> drawn(const referee::FillParameters* fill) {
    if (fill == nullptr) return {};
    std::vector<std::byte> bytes(static_cast<std::size_t>(fill->count) *
                                 referee::element_bytes(static_cast<DType>(fill->dtype)));
    referee::fill_on_host(*fill, 0, bytes);
    return bytes;
}

}  // namespace

OutputError asked(const Comparator& comparator, const std::string& name,
                  const ComparisonInput& input) {
    try {
        return comparator.compare(input);
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw Error(ErrorCode::internal,
                    fmt::format("comparator {}: it threw {}", name, error.what()));
    } catch (...) {
        throw Error(ErrorCode::internal,
                    fmt::format("comparator {}: it threw what is no exception", name));
    }
}

void load_comparator_plugin(const std::string& path) {
    comparators().load(path);
}

OutputJudge::OutputJudge(Device& device, const Task& task, const Workload& workload)
    : device_(device), task_(task), workload_(workload) {
    static_assert(sizeof(referee::CompareResult) <= slot_bytes);
    const std::map<std::string, std::int64_t> axes = axis_values(task.definition, workload);
    for (const TensorSpec& output : task.definition.outputs) add(output, axes);
    if (result_bytes() + Device::sink_bytes > Device::host_page_bytes) {
        throw Error(ErrorCode::unsupported, "the definition has too many outputs");
    }
}

void OutputJudge::add(const TensorSpec& output, const std::map<std::string, std::int64_t>& axes) {
    Entry& entry = comparisons_.emplace_back();
    const referee::OutputComparison& comparison = entry.comparison.emplace(task_, output, axes);
    entry.bytes = referee::element_bytes(output.dtype);
    for (const std::int64_t extent : comparison.shape()) {
        entry.bytes *= static_cast<std::size_t>(extent);
    }
    const CompareSpec& spec = comparison.spec();
    if (comparison.uses_kernels()) {
        const std::uint64_t tiles = std::max<std::uint64_t>(
            spec.kind == CompareSpec::Kind::ragged ? comparison.parameters().tiles
                                                   : referee::tile_count(comparison.parameters()),
            1);
        entry.partials = device_.pool().acquire(tiles * sizeof(referee::TilePartial));
        if (spec.kind == CompareSpec::Kind::ragged) {
            entry.starts = device_.pool().acquire((tiles + 1) * sizeof(std::uint64_t));
        }
    }
    if (spec.kind == CompareSpec::Kind::custom) {
        entry.comparator = comparators().make<Comparator>(spec.custom);
    }
    if (spec.kind == CompareSpec::Kind::by_index) {
        const auto& outputs = task_.definition.outputs;
        const auto index = std::find_if(outputs.begin(), outputs.end(), [&](const auto& other) {
            return other.name == spec.index;
        });
        entry.index = static_cast<std::size_t>(index - outputs.begin());
    }
}

/// Uploads where the tiles of a ragged output start.
void OutputJudge::set_starts(Entry& entry, const JudgedCall& call,
                             referee::CompareParameters& parameters) {
    const std::vector<std::byte> offsets = drawn(call.fill(entry.comparison->spec().offsets));
    const std::vector<std::uint64_t> starts = entry.comparison->tile_starts(offsets);
    parameters.starts = entry.starts.region().base();
    parameters.tiles = starts.size() - 1;
    // From pageable memory: staged before the driver returns.
    device_.driver().check(
        device_.driver().cuMemcpyHtoDAsync(parameters.starts, starts.data(),
                                           starts.size() * sizeof(std::uint64_t), device_.stream()),
        "writing the tiles of a ragged output");
}

void OutputJudge::enqueue(const JudgedCall& call) {
    const CUdeviceptr results = device_.result_page() + Device::sink_bytes;
    device_.driver().check(
        device_.driver().cuMemsetD8Async(results, 0, result_bytes(), device_.stream()),
        "clearing comparison results");
    for (std::size_t slot = 0; slot < comparisons_.size(); ++slot) {
        Entry& entry = comparisons_[slot];
        if (!entry.comparison->uses_kernels()) continue;
        referee::CompareParameters parameters = entry.comparison->parameters();
        parameters.found = call.found[slot];
        parameters.expected = call.expected[slot];
        parameters.partials = entry.partials.region().base();
        parameters.result = results + slot * slot_bytes;
        if (entry.comparison->spec().kind == CompareSpec::Kind::ragged) {
            set_starts(entry, call, parameters);
        }
        const int multiprocessors = device_.info().multiprocessors;
        const referee::LaunchShape tiles = referee::tiles_shape(parameters, multiprocessors);
        device_.launch("kf_compare_tiles", tiles, &parameters);
        device_.launch("kf_compare_reduce", referee::reduce_shape(), &parameters);
        device_.launch("kf_compare_elements", tiles, &parameters);
        device_.launch("kf_compare_finish", referee::finish_shape(), &parameters);
    }
}

void OutputJudge::finish(const JudgedCall& call, std::string_view distribution,
                         std::vector<OutputError>& kept, Clock::time_point deadline) {
    std::vector<OutputError> errors;
    // First the results of the kernels: reading outputs may use the host page.
    for (std::size_t slot = 0; slot < comparisons_.size(); ++slot) {
        const bool kernels = comparisons_[slot].comparison->uses_kernels();
        errors.push_back(kernels ? kernels_verdict(slot, distribution) : OutputError{});
    }
    for (std::size_t slot = 0; slot < comparisons_.size(); ++slot) {
        const Entry& entry = comparisons_[slot];
        if (entry.comparator != nullptr) {
            errors[slot] = plugin_verdict(slot, call, deadline);
            errors[slot].output = entry.comparison->output().name;
            errors[slot].distribution = distribution;
        } else if (!entry.comparison->uses_kernels()) {
            errors[slot] = host_verdict(slot, call, distribution, deadline);
        }
        if (kept.size() <= slot) {
            kept.push_back(errors[slot]);
        } else {
            referee::keep_worse(kept[slot], errors[slot]);
        }
    }
}

OutputError OutputJudge::kernels_verdict(std::size_t slot, std::string_view distribution) const {
    referee::CompareResult result;
    std::memcpy(&result, device_.host_page() + slot * slot_bytes, sizeof(result));
    return comparisons_[slot].comparison->judge(result, distribution);
}

OutputError OutputJudge::host_verdict(std::size_t slot, const JudgedCall& call,
                                      std::string_view distribution, Clock::time_point deadline) {
    Entry& entry = comparisons_[slot];
    const std::string& workspace = entry.comparison->workspace();
    DeviceBuffer marks;
    if (!workspace.empty()) {
        const auto found = call.workspaces.find(workspace);
        if (found == call.workspaces.end()) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("output {} is compared by workspace {} of the reference, which "
                                    "has none of that name",
                                    entry.comparison->output().name, workspace));
        }
        marks = found->second;
    }
    const auto found = read({call.found[slot], entry.bytes}, deadline);
    const auto expected = read({call.expected[slot], entry.bytes}, deadline);
    const auto workspace_bytes = read(marks, deadline);
    std::vector<std::byte> found_index;
    std::vector<std::byte> expected_index;
    if (entry.index) {
        const std::size_t bytes = comparisons_.at(*entry.index).bytes;
        found_index = read({call.found.at(*entry.index), bytes}, deadline);
        expected_index = read({call.expected.at(*entry.index), bytes}, deadline);
    }
    return entry.comparison->compare({.found = found,
                                      .expected = expected,
                                      .found_index = found_index,
                                      .expected_index = expected_index,
                                      .offsets = {},
                                      .workspace = workspace_bytes},
                                     distribution);
}

OutputError OutputJudge::plugin_verdict(std::size_t slot, const JudgedCall& call,
                                        Clock::time_point deadline) {
    const Entry& entry = comparisons_[slot];
    const auto found = read({call.found[slot], entry.bytes}, deadline);
    const auto expected = read({call.expected[slot], entry.bytes}, deadline);
    std::map<std::string, std::vector<std::byte>, std::less<>> inputs;
    const ComparisonInput input{
        .task = task_,
        .workload = workload_,
        .output = entry.comparison->output().name,
        .dtype = entry.comparison->output().dtype,
        .shape = entry.comparison->shape(),
        .found = found,
        .expected = expected,
        .input =
            [&](std::string_view name) {
                auto known = inputs.find(name);
                if (known == inputs.end()) {
                    known = inputs.emplace(std::string(name), drawn(call.fill(name))).first;
                }
                return std::span<const std::byte>(known->second);
            },
    };
    return asked(*entry.comparator, entry.comparison->spec().custom, input);
}

std::vector<std::byte> OutputJudge::read(DeviceBuffer buffer, Clock::time_point deadline) {
    std::vector<std::byte> bytes(buffer.bytes);
    if (bytes.empty()) return bytes;
    device_.driver().check(device_.driver().cuMemcpyDtoHAsync(bytes.data(), buffer.address,
                                                              bytes.size(), device_.stream()),
                           "reading what is compared");
    device_.wait(deadline);
    return bytes;
}

std::string OutputJudge::describe_wrong(const std::vector<OutputError>& errors) const {
    for (std::size_t i = 0; i < errors.size(); ++i) {
        if (!errors[i].ok) return comparisons_[i].comparison->describe(errors[i]);
    }
    return "";
}

}  // namespace kernelforge::worker
