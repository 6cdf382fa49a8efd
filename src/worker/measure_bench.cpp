// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "referee/comparison.hpp"

namespace kernelforge::worker {

namespace {

/// How far from their guards tensors may lie, in the trials that put them elsewhere.
constexpr std::size_t placement_spread = std::size_t{64} << 10;
constexpr std::size_t tensor_alignment = 256;
constexpr std::size_t result_slot_bytes = 128;
static_assert(sizeof(referee::CompareResult) <= result_slot_bytes);

std::size_t bytes_of(const TensorSpec& tensor, const std::vector<std::int64_t>& shape) {
    std::size_t bytes = referee::element_bytes(tensor.dtype);
    for (const std::int64_t extent : shape) {
        if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
            throw Error(ErrorCode::invalid_argument,
                        "tensor " + tensor.name + " has an impossible size");
        }
    }
    return bytes;
}

/// Space for a tensor that may move by up to the spread.
std::size_t with_spread(std::size_t bytes) {
    return bytes + placement_spread + tensor_alignment;
}

CUdeviceptr place_in(const MemoryPool::Lease& lease, std::size_t bytes, std::uint64_t placement) {
    const Region& region = lease.region();
    return region.base() + place(region.capacity(), bytes, placement, placement_spread);
}

bool starts_poisoned(const plan::ResolvedWorkspace& workspace) {
    return workspace.init != plan::Workspace::Init::selfzero;
}

}  // namespace

Bench::Bench(Device& device, const Task& task, const Workload& workload) : device_(device) {
    const std::map<std::string, std::int64_t> axes = axis_values(task.definition, workload);
    add_inputs(task, axes);
    add_outputs(task, axes);
    const std::size_t selfzero_slot = 1;
    if ((outputs_.size() + selfzero_slot) * result_slot_bytes + Device::sink_bytes >
        Device::host_page_bytes) {
        throw Error(ErrorCode::unsupported, "the definition has too many outputs");
    }
    device_.driver().check(device_.driver().cuMemsetD8Async(selfzero_counter(), 0,
                                                            result_slot_bytes, device_.stream()),
                           "clearing the count of selfzero workspaces");
}

void Bench::add_inputs(const Task& task, const std::map<std::string, std::int64_t>& axes) {
    std::uint32_t ordinal = 0;
    for (const TensorSpec& tensor : task.definition.inputs) {
        const std::uint32_t own = ordinal++;
        if (tensor.scalar) continue;
        Input input;
        input.spec = &tensor;
        input.shape = shape_of(tensor, axes);
        input.bytes = bytes_of(tensor, input.shape);
        input.ordinal = own;
        input.init = referee::init_of(task, tensor);
        input.inplace = std::any_of(task.inplace.begin(), task.inplace.end(),
                                    [&](const auto& pair) { return pair.second == tensor.name; });
        if (!input.inplace) input.lease = device_.pool().acquire(with_spread(input.bytes));
        inputs_.push_back(std::move(input));
    }
}

void Bench::add_outputs(const Task& task, const std::map<std::string, std::int64_t>& axes) {
    for (const TensorSpec& tensor : task.definition.outputs) {
        Output output;
        output.spec = &tensor;
        output.shape = shape_of(tensor, axes);
        output.bytes = bytes_of(tensor, output.shape);
        output.compare = referee::compare_of(task, tensor);
        output.parameters = referee::compare_parameters(output.compare, tensor.dtype, output.shape);
        output.partials = device_.pool().acquire(referee::tile_count(output.parameters) *
                                                 sizeof(referee::TilePartial));
        const auto shared = task.inplace.find(tensor.name);
        if (shared != task.inplace.end()) {
            const auto input = std::find_if(
                inputs_.begin(), inputs_.end(),
                [&](const Input& candidate) { return candidate.spec->name == shared->second; });
            if (input == inputs_.end()) {
                throw Error(
                    ErrorCode::invalid_argument,
                    "output " + tensor.name + " shares the unknown input " + shared->second);
            }
            output.shares = &*input;
            output.bytes = std::max(output.bytes, input->bytes);
        }
        output_bytes_ += output.bytes;
        outputs_.push_back(std::move(output));
    }
}

OutputSet Bench::make_outputs() {
    OutputSet outputs;
    for (const Output& output : outputs_) {
        outputs.leases.push_back(device_.pool().acquire(with_spread(output.bytes)));
    }
    move_outputs(outputs, 0);
    return outputs;
}

WorkspaceSet Bench::make_workspaces(const Program& program) {
    WorkspaceSet workspaces;
    for (const plan::ResolvedWorkspace& workspace : program.workspaces()) {
        try {
            workspaces.leases.push_back(
                device_.pool().acquire(with_spread(static_cast<std::size_t>(workspace.bytes)) +
                                       static_cast<std::size_t>(workspace.align)));
        } catch (const DriverError& error) {
            if (error.result() != CUDA_ERROR_OUT_OF_MEMORY) throw;
            throw Verdict(EvaluationStatus::launch_error,
                          fmt::format("workspace {} of {} bytes does not fit in the device's "
                                      "memory",
                                      workspace.name, workspace.bytes));
        }
    }
    move_workspaces(program, workspaces, 0);
    return workspaces;
}

void Bench::describe_buffers(Program& program) const {
    for (const Output& output : outputs_) program.set_buffer_bytes(output.spec->name, output.bytes);
    for (const plan::ResolvedWorkspace& workspace : program.workspaces()) {
        program.set_buffer_bytes(workspace.name, static_cast<std::size_t>(workspace.bytes));
    }
}

void Bench::set_inputs_access(Region::Access access) {
    for (const Input& input : inputs_) {
        if (!input.inplace) input.lease.region().set_access(access);
    }
}

void Bench::fill_inputs(referee::Distribution distribution, std::uint64_t seed,
                        std::uint64_t placement, Clock::time_point deadline) {
    device_.wait(deadline);
    set_inputs_access(Region::Access::read_write);
    for (Input& input : inputs_) {
        input.fill = referee::fill_parameters(input.init, input.spec->dtype, input.shape,
                                              distribution, seed, input.ordinal);
        if (input.inplace || input.bytes == 0) continue;
        input.fill.data = place_in(input.lease, input.bytes, placement);
        device_.launch("kf_fill", referee::fill_shape(input.fill, device_.info().multiprocessors),
                       &input.fill);
    }
    device_.wait(deadline);
    set_inputs_access(Region::Access::read_only);
}

void Bench::move_outputs(OutputSet& outputs, std::uint64_t placement) const {
    outputs.addresses.resize(outputs_.size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        outputs.addresses[i] = place_in(outputs.leases[i], outputs_[i].bytes, placement);
    }
}

void Bench::move_workspaces(const Program& program, WorkspaceSet& workspaces,
                            std::uint64_t placement) const {
    workspaces.addresses.resize(program.workspaces().size());
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        const plan::ResolvedWorkspace& workspace = program.workspaces()[i];
        const auto align = static_cast<CUdeviceptr>(std::max<std::int64_t>(workspace.align, 1));
        workspaces.addresses[i] =
            place_in(workspaces.leases[i], static_cast<std::size_t>(workspace.bytes), placement) /
            align * align;
    }
}

/// Regions are whole pages: what lies around a buffer must not carry anything to the next call.
void Bench::poison_around(const Region& region, CUdeviceptr begin, std::size_t bytes) {
    const CUdeviceptr end = begin + bytes;
    const CUdeviceptr region_end = region.base() + region.capacity();
    if (begin > region.base()) device_.poison(region.base(), begin - region.base());
    if (region_end > end) device_.poison(end, region_end - end);
}

void Bench::prepare(const Program& program, const OutputSet& outputs,
                    const WorkspaceSet& workspaces) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Output& output = outputs_[i];
        poison_around(outputs.leases[i].region(), outputs.addresses[i], output.bytes);
        device_.poison(outputs.addresses[i], output.bytes);
        if (output.shares == nullptr || output.shares->bytes == 0) continue;
        referee::FillParameters fill = output.shares->fill;
        fill.data = outputs.addresses[i];
        device_.launch("kf_fill", referee::fill_shape(fill, device_.info().multiprocessors), &fill);
    }
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        const plan::ResolvedWorkspace& workspace = program.workspaces()[i];
        const auto bytes = static_cast<std::size_t>(workspace.bytes);
        poison_around(workspaces.leases[i].region(), workspaces.addresses[i], bytes);
        if (starts_poisoned(workspace)) device_.poison(workspaces.addresses[i], bytes);
    }
}

void Bench::zero_selfzero(const Program& program, const WorkspaceSet& workspaces) {
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        const plan::ResolvedWorkspace& workspace = program.workspaces()[i];
        if (starts_poisoned(workspace)) continue;
        device_.driver().check(device_.driver().cuMemsetD8Async(
                                   workspaces.addresses[i], 0,
                                   static_cast<std::size_t>(workspace.bytes), device_.stream()),
                               "zeroing workspace " + workspace.name);
    }
}

Addresses Bench::addresses(const Program& program, const OutputSet& outputs,
                           const WorkspaceSet& workspaces) const {
    Addresses addresses;
    for (const Input& input : inputs_) {
        if (!input.inplace) addresses[input.spec->name] = input.fill.data;
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        addresses[outputs_[i].spec->name] = outputs.addresses[i];
        if (outputs_[i].shares != nullptr) {
            addresses[outputs_[i].shares->spec->name] = outputs.addresses[i];
        }
    }
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        addresses[program.workspaces()[i].name] = workspaces.addresses[i];
    }
    return addresses;
}

void Bench::enqueue_comparison(Output& output, CUdeviceptr found, CUdeviceptr expected,
                               std::size_t slot) {
    referee::CompareParameters& parameters = output.parameters;
    parameters.found = found;
    parameters.expected = expected;
    parameters.partials = output.partials.region().base();
    parameters.result = device_.result_page() + Device::sink_bytes + slot * result_slot_bytes;
    const int multiprocessors = device_.info().multiprocessors;
    const referee::LaunchShape tiles = referee::tiles_shape(parameters, multiprocessors);
    device_.launch("kf_compare_tiles", tiles, &parameters);
    device_.launch("kf_compare_reduce", referee::reduce_shape(), &parameters);
    device_.launch("kf_compare_elements", tiles, &parameters);
    device_.launch("kf_compare_finish", referee::finish_shape(), &parameters);
}

CUdeviceptr Bench::selfzero_counter() const {
    return device_.result_page() + Device::sink_bytes + outputs_.size() * result_slot_bytes;
}

void Bench::count_selfzero(const Program& program, const WorkspaceSet& workspaces) {
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        if (starts_poisoned(program.workspaces()[i])) continue;
        referee::CountNonzeroParameters count;
        count.data = workspaces.addresses[i];
        count.bytes = static_cast<std::size_t>(program.workspaces()[i].bytes);
        count.counter = selfzero_counter();
        device_.launch("kf_count_nonzero",
                       referee::bytes_shape(count.bytes, device_.info().multiprocessors), &count);
    }
}

void Bench::compare(const OutputSet& found, const OutputSet& expected,
                    std::string_view distribution, std::vector<OutputError>& kept,
                    Clock::time_point deadline) {
    const Driver& driver = device_.driver();
    const std::size_t counter_slot = outputs_.size();
    const CUdeviceptr results = device_.result_page() + Device::sink_bytes;
    const std::size_t results_bytes = (counter_slot + 1) * result_slot_bytes;
    // Not the counter, which holds what the calls since the last comparison left.
    driver.check(
        driver.cuMemsetD8Async(results, 0, counter_slot * result_slot_bytes, device_.stream()),
        "clearing comparison results");
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        enqueue_comparison(outputs_[i], found.addresses[i], expected.addresses[i], i);
    }
    driver.check(
        driver.cuMemcpyDtoHAsync(device_.host_page(), results, results_bytes, device_.stream()),
        "reading comparison results");
    device_.wait(deadline);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        referee::CompareResult result;
        std::memcpy(&result, device_.host_page() + i * result_slot_bytes, sizeof(result));
        OutputError error =
            referee::judge(outputs_[i].spec->name, outputs_[i].compare, result, distribution);
        if (kept.size() <= i) {
            kept.push_back(std::move(error));
        } else {
            referee::keep_worse(kept[i], error);
        }
    }
    std::uint64_t nonzero = 0;
    std::memcpy(&nonzero, device_.host_page() + counter_slot * result_slot_bytes, sizeof(nonzero));
    if (nonzero != 0) {
        throw Verdict(
            EvaluationStatus::wrong_result,
            fmt::format("it leaves {} bytes of its selfzero workspaces not zero", nonzero));
    }
}

std::string Bench::describe_wrong(const std::vector<OutputError>& errors) const {
    for (std::size_t i = 0; i < errors.size(); ++i) {
        if (!errors[i].ok) return referee::describe(errors[i], outputs_[i].shape);
    }
    return "";
}

}  // namespace kernelforge::worker
