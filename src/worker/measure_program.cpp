// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kernelforge::worker {

namespace {

CUlaunchConfig launch_config(const plan::ResolvedLaunch& launch, CUstream stream,
                             std::array<CUlaunchAttribute, 2>& attributes) {
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(launch.grid[0]);
    config.gridDimY = static_cast<unsigned>(launch.grid[1]);
    config.gridDimZ = static_cast<unsigned>(launch.grid[2]);
    config.blockDimX = static_cast<unsigned>(launch.block[0]);
    config.blockDimY = static_cast<unsigned>(launch.block[1]);
    config.blockDimZ = static_cast<unsigned>(launch.block[2]);
    config.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
    config.hStream = stream;
    config.attrs = attributes.data();
    if (launch.has_cluster) {
        CUlaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim = {static_cast<unsigned>(launch.cluster[0]),
                                      static_cast<unsigned>(launch.cluster[1]),
                                      static_cast<unsigned>(launch.cluster[2])};
    }
    if (launch.cooperative) {
        CUlaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attribute.value.cooperative = 1;
    }
    return config;
}

std::string describe(const plan::ResolvedLaunch& launch) {
    std::string text =
        fmt::format("kernel {} with grid ({},{},{}), block ({},{},{}), {} bytes of shared memory",
                    launch.kernel, launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0],
                    launch.block[1], launch.block[2], launch.shared_bytes);
    if (launch.has_cluster) {
        text += fmt::format(", cluster ({},{},{})", launch.cluster[0], launch.cluster[1],
                            launch.cluster[2]);
    }
    if (launch.cooperative) text += ", cooperative";
    return text;
}

/// Dynamic shared memory as the driver takes it; sizes that do not fit an int are refused
/// elsewhere.
int as_int(std::int64_t bytes) {
    return static_cast<int>(std::min<std::int64_t>(bytes, INT32_MAX));
}

}  // namespace

std::string describe_axes(const Workload& workload) {
    std::string text;
    for (const auto& [name, value] : workload.axes) {
        if (!text.empty()) text += ' ';
        text += fmt::format("{}={}", name, value);
    }
    return text.empty() ? "the only workload" : text;
}

std::vector<std::int64_t> shape_of(const TensorSpec& tensor,
                                   const std::map<std::string, std::int64_t>& axes) {
    std::vector<std::int64_t> shape;
    for (const std::string& axis : tensor.shape) {
        const auto found = axes.find(axis);
        if (found == axes.end()) {
            throw Error(ErrorCode::invalid_argument,
                        "tensor " + tensor.name + " has the unknown axis " + axis);
        }
        shape.push_back(found->second);
    }
    return shape;
}

LoadedBuild::LoadedBuild(Device& device, const CompileResult& build)
    : device_(device), build_(build) {
    if (build.status != CompileStatus::ok) {
        throw Verdict(EvaluationStatus::compile_error,
                      build.message.empty() ? "it did not compile" : build.message);
    }
    const Driver& driver = device.driver();
    const CUresult loaded = build.cubin.empty()
                                ? CUDA_ERROR_INVALID_IMAGE
                                : driver.cuModuleLoadData(&module_, build.cubin.data());
    if (loaded != CUDA_SUCCESS) {
        if (is_sticky(loaded)) driver.check(loaded, "cuModuleLoadData");
        throw Verdict(EvaluationStatus::launch_error,
                      fmt::format("the cubin for {} cannot be loaded on {}: {}", build.arch,
                                  device.info().name, driver.describe(loaded)));
    }
    try {
        for (const KernelFacts& kernel : build.kernels) {
            CUfunction function = nullptr;
            const std::string& symbol =
                kernel.lowered_name.empty() ? kernel.name : kernel.lowered_name;
            if (driver.cuModuleGetFunction(&function, module_, symbol.c_str()) == CUDA_SUCCESS) {
                functions_.emplace(kernel.name, function);
            }
        }
        save_globals();
    } catch (...) {
        driver.cuModuleUnload(module_);
        throw;
    }
}

LoadedBuild::~LoadedBuild() {
    device_.driver().cuModuleUnload(module_);
}

void LoadedBuild::save_globals() {
    constexpr std::size_t alignment = 256;
    std::size_t total = 0;
    for (const auto& [name, bytes] : build_.writable_globals) {
        Global global;
        std::size_t size = 0;
        // A global that the driver does not know was optimised away.
        if (device_.driver().cuModuleGetGlobal(&global.address, &size, module_, name.c_str()) !=
            CUDA_SUCCESS) {
            continue;
        }
        global.bytes = size;
        global.initial = total;
        total += (size + alignment - 1) / alignment * alignment;
        globals_.push_back(global);
    }
    if (total == 0) return;
    try {
        initial_ = device_.pool().acquire(total);
    } catch (const DriverError& error) {
        if (error.result() != CUDA_ERROR_OUT_OF_MEMORY) throw;
        throw Verdict(
            EvaluationStatus::launch_error,
            fmt::format("its globals take {} bytes, and a copy of them to restore does not "
                        "fit in the device's memory",
                        total));
    }
    for (Global& global : globals_) {
        global.initial += initial_.region().base();
        device_.driver().check(device_.driver().cuMemcpyDtoDAsync(global.initial, global.address,
                                                                  global.bytes, device_.stream()),
                               "saving a module's globals");
    }
}

void LoadedBuild::restore_globals() {
    for (const Global& global : globals_) {
        device_.driver().check(device_.driver().cuMemcpyDtoDAsync(global.address, global.initial,
                                                                  global.bytes, device_.stream()),
                               "restoring a module's globals");
    }
}

CUfunction LoadedBuild::function(const std::string& kernel) const {
    const auto found = functions_.find(kernel);
    if (found == functions_.end()) {
        throw Verdict(EvaluationStatus::plan_error, "the compiled module has no kernel " + kernel);
    }
    return found->second;
}

void LoadedBuild::allow_shared(const std::string& kernel, std::int64_t bytes) {
    // Also below 48 KB: the limit without this is for static and dynamic shared memory together.
    std::int64_t& allowed = allowed_shared_[kernel];
    if (bytes <= allowed) return;
    const CUresult result = device_.driver().cuFuncSetAttribute(
        function(kernel), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, as_int(bytes));
    if (result == CUDA_SUCCESS) allowed = bytes;
}

int LoadedBuild::occupancy(const std::string& kernel, int threads, std::int64_t shared_bytes) {
    allow_shared(kernel, shared_bytes);
    int blocks = 0;
    const CUresult result = device_.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, function(kernel), threads, static_cast<std::size_t>(shared_bytes));
    return result == CUDA_SUCCESS ? blocks : 0;
}

int LoadedBuild::clusters(const std::string& kernel, int threads, std::int64_t shared_bytes,
                          int cluster) {
    allow_shared(kernel, shared_bytes);
    plan::ResolvedLaunch launch;
    launch.grid = {cluster, 1, 1};
    launch.block = {threads, 1, 1};
    launch.cluster = {cluster, 1, 1};
    launch.has_cluster = true;
    launch.shared_bytes = shared_bytes;
    std::array<CUlaunchAttribute, 2> attributes{};
    const CUlaunchConfig config = launch_config(launch, device_.stream(), attributes);
    int count = 0;
    const CUresult result =
        device_.driver().cuOccupancyMaxActiveClusters(&count, function(kernel), &config);
    return result == CUDA_SUCCESS ? count : 0;
}

Program::Program(Device& device, LoadedBuild& build, const plan::Plan& plan, const Task& task,
                 const Workload& workload, const Bindings& bindings)
    : device_(device), build_(build) {
    try {
        plan::Environment environment;
        environment.axes = axis_values(task.definition, workload);
        environment.scalars = workload.scalars;
        environment.bindings = bindings;
        environment.device = device.info();
        environment.occupancy = [&](const std::string& kernel, int threads, std::int64_t shared) {
            return build.occupancy(kernel, threads, shared);
        };
        environment.clusters = [&](const std::string& kernel, int threads, std::int64_t shared,
                                   int cluster) {
            return build.clusters(kernel, threads, shared, cluster);
        };
        for (const auto* tensors : {&task.definition.inputs, &task.definition.outputs}) {
            for (const TensorSpec& tensor : *tensors) {
                if (tensor.scalar) continue;
                environment.tensors[tensor.name] = {shape_of(tensor, environment.axes), 0};
            }
        }
        resolved_ = plan::resolve(plan, environment);
        if (resolved_.valid) plan::check_build(plan, resolved_, build.build(), device.info());
    } catch (const Verdict&) {
        throw;
    } catch (const DriverError&) {
        throw;
    } catch (const Error& error) {
        throw Verdict(EvaluationStatus::plan_error, error.what());
    }
    if (!resolved_.valid) {
        throw Verdict(EvaluationStatus::plan_error,
                      "its //@valid condition is false for this workload");
    }
    for (const auto& step : resolved_.steps) {
        if (const auto* launch = std::get_if<plan::ResolvedLaunch>(&step)) {
            check_parameters(*launch);
            build.allow_shared(launch->kernel, launch->shared_bytes);
        }
    }
}

void Program::check_parameters(const plan::ResolvedLaunch& launch) {
    // The driver reads as many arguments as the kernel has parameters: fewer would be read past.
    if (device_.driver().function_parameter == nullptr) return;
    CUfunction function = build_.function(launch.kernel);
    std::size_t count = 0;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    while (device_.driver().function_parameter(function, count, &offset, &bytes) == CUDA_SUCCESS) {
        ++count;
        if (bytes > sizeof(launch.arguments[0].value)) {
            throw Verdict(EvaluationStatus::plan_error,
                          fmt::format("{}: parameter {} of kernel {} has {} bytes, a plan passes "
                                      "at most 8",
                                      to_string(launch.position), count, launch.kernel, bytes));
        }
    }
    if (count != launch.arguments.size()) {
        throw Verdict(
            EvaluationStatus::plan_error,
            fmt::format("{}: kernel {} has {} parameters, the launch passes {} arguments",
                        to_string(launch.position), launch.kernel, count, launch.arguments.size()));
    }
}

void Program::launch(const plan::ResolvedLaunch& launch, const Addresses& addresses) {
    PackedArguments packed = pack_arguments(launch.arguments, addresses);
    std::array<CUlaunchAttribute, 2> attributes{};
    const CUlaunchConfig config = launch_config(launch, device_.stream(), attributes);
    const CUresult result = device_.driver().cuLaunchKernelEx(
        &config, build_.function(launch.kernel), packed.pointers.data(), nullptr);
    if (result == CUDA_SUCCESS) return;
    if (is_sticky(result)) device_.driver().check(result, describe(launch));
    throw Verdict(EvaluationStatus::launch_error,
                  fmt::format("{} cannot be launched: {}", describe(launch),
                              device_.driver().describe(result)));
}

void Program::set(const plan::ResolvedMemset& memset, const Addresses& addresses) {
    const auto bytes = bytes_.find(memset.buffer);
    const auto address = addresses.find(memset.buffer);
    if (bytes == bytes_.end() || address == addresses.end()) {
        throw Error(ErrorCode::internal, "memset of unknown buffer " + memset.buffer);
    }
    device_.driver().check(device_.driver().cuMemsetD8Async(address->second, memset.value,
                                                            bytes->second, device_.stream()),
                           "cuMemsetD8Async of " + memset.buffer);
}

void Program::enqueue(const Addresses& addresses, CallTimer* timer) {
    for (const auto& step : resolved_.steps) {
        if (const auto* kernel = std::get_if<plan::ResolvedLaunch>(&step)) {
            launch(*kernel, addresses);
        } else {
            set(std::get<plan::ResolvedMemset>(step), addresses);
        }
        if (timer != nullptr) timer->after_step();
    }
}

std::vector<LaunchFacts> Program::launch_facts() {
    std::vector<LaunchFacts> facts;
    for (const auto& step : resolved_.steps) {
        const auto* launch = std::get_if<plan::ResolvedLaunch>(&step);
        if (launch == nullptr) continue;
        LaunchFacts fact;
        fact.kernel = launch->kernel;
        std::copy(launch->grid.begin(), launch->grid.end(), fact.grid);
        std::copy(launch->block.begin(), launch->block.end(), fact.block);
        std::copy(launch->cluster.begin(), launch->cluster.end(), fact.cluster);
        fact.dynamic_shared_bytes = launch->shared_bytes;
        const std::int64_t threads = launch->block[0] * launch->block[1] * launch->block[2];
        const int blocks =
            build_.occupancy(launch->kernel, static_cast<int>(threads), launch->shared_bytes);
        if (blocks > 0) fact.blocks_per_multiprocessor = blocks;
        facts.push_back(std::move(fact));
    }
    return facts;
}

std::vector<std::size_t> Program::launch_steps() const {
    std::vector<std::size_t> steps;
    for (std::size_t i = 0; i < resolved_.steps.size(); ++i) {
        if (std::holds_alternative<plan::ResolvedLaunch>(resolved_.steps[i])) steps.push_back(i);
    }
    return steps;
}

}  // namespace kernelforge::worker
