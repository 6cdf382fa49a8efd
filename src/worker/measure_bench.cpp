// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "referee/comparison.hpp"

namespace kernelforge::worker {

namespace {

/// Room for an input to move in. It is never poisoned (nothing can be written there), so it may be
/// larger than any L2: no call finds the lines of the one before in its place. Inputs that do not
/// fit in an L2 anyway need no such room.
constexpr std::size_t input_spread = std::size_t{64} << 20;
constexpr std::size_t large_input_bytes = std::size_t{256} << 20;
/// Room for outputs and workspaces, which is poisoned before every call: 8,192 places.
constexpr std::size_t usual_written_spread = std::size_t{2} << 20;
/// Largest waste of a region for what is written: all of it is poisoned before every call. A
/// quarter of the tensor, or this.
constexpr std::size_t least_slack = std::size_t{8} << 20;
/// On an emulated device memory is the host's, there are no caches, and the checker sees every
/// access beside a tensor: 256 places are enough. The slack is one page of the device.
constexpr std::size_t emulated_spread = std::size_t{64} << 10;
constexpr std::size_t emulated_slack = std::size_t{2} << 20;
constexpr std::size_t tensor_alignment = 256;
constexpr std::size_t counter_bytes = 128;

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

/// Tensors of a bench for `placement_step`: inputs by ordinal, then outputs, then workspaces.
enum TensorRole : std::uint64_t { role_input, role_output, role_workspace };
std::uint64_t tensor_key(TensorRole role, std::size_t position) {
    return (static_cast<std::uint64_t>(role) << 32U) + position;
}

/// An offset near `offset`, a multiple of 256, of which `alignment` is the largest power of two
/// that divides it (up to 256). There is room for 256 bytes more than the tensor.
std::size_t aligned_exactly(std::size_t offset, std::size_t alignment, std::size_t bytes,
                            std::size_t capacity) {
    if (alignment >= tensor_alignment) return offset;
    if (offset + alignment + bytes <= capacity) return offset + alignment;
    return offset - tensor_alignment + alignment;
}

bool starts_poisoned(const plan::ResolvedWorkspace& workspace) {
    return workspace.init != plan::Workspace::Init::selfzero;
}

}  // namespace

Bench::Bench(Device& device, const Task& task, const Workload& workload, std::uint64_t secret)
    : device_(device), task_(task), axes_(axis_values(task.definition, workload)), secret_(secret) {
    add_inputs(task, axes_);
    add_outputs(task, axes_);
    judge_.emplace(device, task, workload);
    if (judge_->result_bytes() + counter_bytes + Device::sink_bytes > Device::host_page_bytes) {
        throw Error(ErrorCode::unsupported, "the definition has too many outputs");
    }
    device_.driver().check(
        device_.driver().cuMemsetD8Async(selfzero_counter(), 0, counter_bytes, device_.stream()),
        "clearing the count of selfzero workspaces");
}

Bench::~Bench() = default;

bool Bench::is_constant(const Input& input) const {
    const auto& constant = task_.constant_inputs;
    return std::find(constant.begin(), constant.end(), input.spec->name) != constant.end();
}

std::size_t Bench::written_spread() const {
    return device_.emulated() != nullptr ? emulated_spread : usual_written_spread;
}

MemoryPool::Lease Bench::acquire_written(std::size_t bytes) {
    const std::size_t wanted = bytes + written_spread() + tensor_alignment;
    const std::size_t slack = device_.emulated() != nullptr ? emulated_slack : least_slack;
    return device_.pool().acquire(wanted, wanted + std::max(slack, bytes / 4));
}

MemoryPool::Lease Bench::acquire_input(std::size_t bytes) {
    MemoryPool& pool = device_.pool();
    const std::size_t least = bytes + written_spread() + tensor_alignment;
    if (bytes >= large_input_bytes || device_.emulated() != nullptr) return pool.acquire(least);
    try {
        return pool.acquire(bytes + input_spread + tensor_alignment);
    } catch (const DriverError& error) {
        if (error.result() != CUDA_ERROR_OUT_OF_MEMORY) throw;
        return pool.acquire(least);
    }
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
        input.inplace = std::any_of(task.inplace.begin(), task.inplace.end(),
                                    [&](const auto& pair) { return pair.second == tensor.name; });
        if (!input.inplace) input.lease = acquire_input(input.bytes);
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
        outputs.leases.push_back(acquire_written(output.bytes));
    }
    move_outputs(outputs, 0);
    return outputs;
}

WorkspaceSet Bench::make_workspaces(const Program& program) {
    WorkspaceSet workspaces;
    for (const plan::ResolvedWorkspace& workspace : program.workspaces()) {
        try {
            workspaces.leases.push_back(acquire_written(static_cast<std::size_t>(workspace.bytes) +
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

std::size_t Bench::offset_in(const Region& region, std::size_t bytes, std::uint64_t tensor,
                             std::uint64_t call) const {
    return place(region.capacity(), bytes, placement_step(secret_, tensor, call));
}

std::size_t Bench::alignment_of(const std::string& tensor) const {
    const auto found = alignments_.find(tensor);
    return found != alignments_.end() ? found->second : tensor_alignment;
}

void Bench::enqueue_fill(referee::FillParameters fill) {
    if (fill.count == 0) return;
    device_.launch("kf_fill", referee::fill_shape(fill, device_.info().multiprocessors), &fill);
}

void Bench::fill_inputs(referee::Distribution distribution, std::uint64_t seed, std::uint64_t call,
                        Clock::time_point deadline, Which which) {
    device_.wait(deadline);
    for (Input& input : inputs_) {
        if (which != Which::all && is_constant(input) != (which == Which::constant)) continue;
        input.fill =
            referee::fill_parameters(task_, axes_, *input.spec, input.ordinal, distribution, seed);
        if (input.inplace) continue;
        Region& region = input.lease.region();
        const std::size_t offset = aligned_exactly(
            offset_in(region, input.bytes, tensor_key(role_input, input.ordinal), call),
            alignment_of(input.spec->name), input.bytes, region.capacity());
        input.address = region.read_only_base() + offset;
        input.fill.data = region.base() + offset;
        enqueue_fill(input.fill);
    }
}

void Bench::move_outputs(OutputSet& outputs, std::uint64_t call) const {
    outputs.addresses.resize(outputs_.size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Output& output = outputs_[i];
        const Region& region = outputs.leases[i].region();
        std::size_t alignment = alignment_of(output.spec->name);
        if (output.shares != nullptr) {
            alignment = std::max(alignment, alignment_of(output.shares->spec->name));
        }
        outputs.addresses[i] =
            region.base() +
            aligned_exactly(offset_in(region, output.bytes, tensor_key(role_output, i), call),
                            alignment, output.bytes, region.capacity());
    }
}

void Bench::move_workspaces(const Program& program, WorkspaceSet& workspaces,
                            std::uint64_t call) const {
    workspaces.addresses.resize(program.workspaces().size());
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        const plan::ResolvedWorkspace& workspace = program.workspaces()[i];
        const Region& region = workspaces.leases[i].region();
        const auto align = static_cast<std::size_t>(std::max<std::int64_t>(workspace.align, 1));
        const std::size_t offset = offset_in(region, static_cast<std::size_t>(workspace.bytes),
                                             tensor_key(role_workspace, i), call);
        workspaces.addresses[i] = region.base() + offset / align * align;
    }
}

/// Regions are larger than their buffers: what lies around one must not carry anything to the next
/// call.
void Bench::poison_around(const Region& region, CUdeviceptr begin, std::size_t bytes) {
    const CUdeviceptr end = begin + bytes;
    const CUdeviceptr region_end = region.base() + region.capacity();
    if (begin > region.base()) device_.poison(region.base(), begin - region.base());
    if (region_end > end) device_.poison(end, region_end - end);
}

void Bench::prepare(const Program& program, const OutputSet& outputs,
                    const WorkspaceSet& workspaces, Prepared prepared) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Region& region = outputs.leases[i].region();
        device_.poison(region.base(), region.capacity());
        if (outputs_[i].shares == nullptr) continue;
        referee::FillParameters fill = outputs_[i].shares->fill;
        fill.data = outputs.addresses[i];
        enqueue_fill(fill);
    }
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        const plan::ResolvedWorkspace& workspace = program.workspaces()[i];
        if (workspace.prepared && prepared == Prepared::kept) continue;
        const Region& region = workspaces.leases[i].region();
        if (starts_poisoned(workspace)) {
            device_.poison(region.base(), region.capacity());
        } else {
            poison_around(region, workspaces.addresses[i],
                          static_cast<std::size_t>(workspace.bytes));
        }
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
        if (!input.inplace) addresses[input.spec->name] = input.address;
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

std::vector<emulator::View> Bench::views(const Program& program, const OutputSet& outputs,
                                         const WorkspaceSet& workspaces, Which which) const {
    std::vector<emulator::View> views = program.variables();
    const auto add = [&](std::uint64_t address, std::size_t bytes, std::string name, bool writable,
                         bool initialised) {
        if (bytes != 0) views.push_back({address, bytes, std::move(name), writable, initialised});
    };
    const bool preparing = which == Which::constant;
    for (const Input& input : inputs_) {
        if (input.inplace || (preparing && !is_constant(input))) continue;
        add(input.address, input.bytes, input.spec->name, false, true);
    }
    for (std::size_t i = 0; i < outputs_.size() && !preparing; ++i) {
        const Output& output = outputs_[i];
        add(outputs.addresses[i], output.bytes, output.spec->name, true, output.shares != nullptr);
    }
    for (std::size_t i = 0; i < workspaces.addresses.size(); ++i) {
        const plan::ResolvedWorkspace& workspace = program.workspaces()[i];
        // Those that start as zero are written by a memset of the plan.
        const bool initialised = !preparing && (workspace.prepared || !starts_poisoned(workspace));
        add(workspaces.addresses[i], static_cast<std::size_t>(workspace.bytes),
            "workspace " + workspace.name, true, initialised);
    }
    return views;
}

CUdeviceptr Bench::selfzero_counter() const {
    return device_.result_page() + Device::sink_bytes + judge_->result_bytes();
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

void Bench::compare(const OutputSet& found, const ReferenceCall& reference,
                    std::string_view distribution, std::vector<OutputError>& kept,
                    Clock::time_point deadline) {
    JudgedCall call;
    call.found = found.addresses;
    call.expected = reference.outputs.addresses;
    for (std::size_t i = 0; i < reference.workspaces.addresses.size(); ++i) {
        const plan::ResolvedWorkspace& workspace = reference.program.workspaces()[i];
        call.workspaces[workspace.name] = {reference.workspaces.addresses[i],
                                           static_cast<std::size_t>(workspace.bytes)};
    }
    call.fill = [this](std::string_view name) -> const referee::FillParameters* {
        for (const Input& input : inputs_) {
            if (input.spec->name == name) return &input.fill;
        }
        return nullptr;
    };
    judge_->enqueue(call);
    // With the counter behind the results, which holds what the calls since the last comparison
    // left.
    const Driver& driver = device_.driver();
    driver.check(
        driver.cuMemcpyDtoHAsync(device_.host_page(), device_.result_page() + Device::sink_bytes,
                                 judge_->result_bytes() + counter_bytes, device_.stream()),
        "reading comparison results");
    device_.wait(deadline);
    std::uint64_t nonzero = 0;
    std::memcpy(&nonzero, device_.host_page() + judge_->result_bytes(), sizeof(nonzero));
    judge_->finish(call, distribution, kept, deadline);
    refuse_nonzero(nonzero);
}

void Bench::check_selfzero(Clock::time_point deadline) {
    std::uint64_t nonzero = 0;
    device_.driver().check(
        device_.driver().cuMemcpyDtoHAsync(device_.host_page(), selfzero_counter(), sizeof(nonzero),
                                           device_.stream()),
        "reading the count of selfzero workspaces");
    device_.wait(deadline);
    std::memcpy(&nonzero, device_.host_page(), sizeof(nonzero));
    refuse_nonzero(nonzero);
}

void Bench::refuse_nonzero(std::uint64_t bytes) {
    if (bytes == 0) return;
    throw Verdict(EvaluationStatus::wrong_result,
                  fmt::format("it leaves {} bytes of its selfzero workspaces not zero", bytes));
}

}  // namespace kernelforge::worker
