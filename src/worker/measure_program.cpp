// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kernelforge::worker {

namespace {

using Attributes = std::array<CUlaunchAttribute, 3>;

CUlaunchConfig launch_config(const plan::ResolvedLaunch& launch, CUstream stream,
                             Attributes& attributes) {
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
    if (launch.pdl) {
        CUlaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
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
    if (launch.pdl) text += ", pdl";
    return text;
}

/// Dynamic shared memory as the driver takes it; sizes that do not fit an int are refused
/// elsewhere.
int as_int(std::int64_t bytes) {
    return static_cast<int>(std::min<std::int64_t>(bytes, INT32_MAX));
}

/// Integers are copied as they are, so that only their size matters where there is no signed type.
CUtensorMapDataType data_type(const std::string& type) {
    static const std::map<std::string, CUtensorMapDataType> types = {
        {"i8", CU_TENSOR_MAP_DATA_TYPE_UINT8},    {"u8", CU_TENSOR_MAP_DATA_TYPE_UINT8},
        {"i16", CU_TENSOR_MAP_DATA_TYPE_UINT16},  {"u16", CU_TENSOR_MAP_DATA_TYPE_UINT16},
        {"i32", CU_TENSOR_MAP_DATA_TYPE_INT32},   {"u32", CU_TENSOR_MAP_DATA_TYPE_UINT32},
        {"i64", CU_TENSOR_MAP_DATA_TYPE_INT64},   {"u64", CU_TENSOR_MAP_DATA_TYPE_UINT64},
        {"f16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16}, {"bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
        {"f32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32}, {"f64", CU_TENSOR_MAP_DATA_TYPE_FLOAT64}};
    return types.at(type);
}

CUtensorMapSwizzle swizzle(plan::TensorMap::Swizzle swizzle) {
    switch (swizzle) {
        case plan::TensorMap::Swizzle::none:
            return CU_TENSOR_MAP_SWIZZLE_NONE;
        case plan::TensorMap::Swizzle::bytes32:
            return CU_TENSOR_MAP_SWIZZLE_32B;
        case plan::TensorMap::Swizzle::bytes64:
            return CU_TENSOR_MAP_SWIZZLE_64B;
        case plan::TensorMap::Swizzle::bytes128:
            return CU_TENSOR_MAP_SWIZZLE_128B;
    }
    return CU_TENSOR_MAP_SWIZZLE_NONE;
}

CUtensorMapL2promotion l2_promotion(plan::TensorMap::L2Promotion promotion) {
    switch (promotion) {
        case plan::TensorMap::L2Promotion::none:
            return CU_TENSOR_MAP_L2_PROMOTION_NONE;
        case plan::TensorMap::L2Promotion::bytes64:
            return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
        case plan::TensorMap::L2Promotion::bytes128:
            return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
        case plan::TensorMap::L2Promotion::bytes256:
            return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    }
    return CU_TENSOR_MAP_L2_PROMOTION_NONE;
}

/// @throws Verdict plan_error when the buffer is not aligned as a map needs
CUtensorMap encode_map(const Device& device, const plan::ResolvedTensorMap& map,
                       std::uint64_t buffer) {
    const Driver& driver = device.driver();
    constexpr std::uint64_t alignment = 16;
    const std::uint64_t address = buffer + static_cast<std::uint64_t>(map.offset);
    if (address % alignment != 0) {
        throw Verdict(EvaluationStatus::plan_error,
                      fmt::format("{}: tensor map {} begins at an address that is no multiple of "
                                  "{}: {} is aligned to less, as //@valid allows",
                                  to_string(map.position), map.name, alignment, map.buffer));
    }
    const std::vector<cuuint64_t> dims(map.dims.begin(), map.dims.end());
    // One dimension has no stride, but the driver wants an address.
    std::vector<cuuint64_t> strides(map.strides.begin(), map.strides.end());
    if (strides.empty()) strides.push_back(alignment);
    const std::vector<cuuint32_t> box(map.box.begin(), map.box.end());
    const std::vector<cuuint32_t> steps(map.steps.begin(), map.steps.end());
    CUtensorMap encoded{};
    const CUresult result = driver.cuTensorMapEncodeTiled(
        &encoded, data_type(map.dtype), static_cast<cuuint32_t>(dims.size()),
        reinterpret_cast<void*>(address), dims.data(), strides.data(), box.data(), steps.data(),
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(map.swizzle), l2_promotion(map.l2),
        map.nan_fill ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                     : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return encoded;
    if (is_sticky(result)) driver.check(result, "cuTensorMapEncodeTiled of " + map.name);
    std::string why = driver.describe(result);
    if (device.emulated() != nullptr) why = device.emulated()->take_refusal();
    throw Verdict(EvaluationStatus::plan_error,
                  fmt::format("{}: the driver refuses tensor map {}: {}", to_string(map.position),
                              map.name, why));
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
    load();
}

void LoadedBuild::load() {
    if (build_.cubin.empty() && build_.kernels.empty()) return;
    load_module();
    try {
        find_functions();
        save_globals();
    } catch (...) {
        unload();
        throw;
    }
}

void LoadedBuild::load_module() {
    const Driver& driver = device_.driver();
    const bool emulated = device_.emulated() != nullptr;
    const std::string& image = emulated ? build_.ptx : build_.cubin;
    const CUresult loaded =
        image.empty() ? CUDA_ERROR_INVALID_IMAGE : driver.cuModuleLoadData(&module_, image.c_str());
    if (loaded == CUDA_SUCCESS) return;
    module_ = nullptr;
    if (emulated && loaded == CUDA_ERROR_INVALID_PTX) {
        throw Rejected(not_emulated_rule,
                       "the emulator cannot execute it: " + device_.emulated()->take_refusal());
    }
    if (is_sticky(loaded)) driver.check(loaded, "cuModuleLoadData");
    throw Verdict(
        EvaluationStatus::launch_error,
        fmt::format("the {} for {} cannot be loaded on {}: {}", emulated ? "PTX" : "cubin",
                    build_.arch, device_.info().name, driver.describe(loaded)));
}

std::vector<emulator::View> LoadedBuild::variables() const {
    if (device_.emulated() == nullptr || module_ == nullptr) return {};
    return device_.emulated()->variables(module_);
}

void LoadedBuild::unload() noexcept {
    if (module_ != nullptr) device_.driver().cuModuleUnload(module_);
    module_ = nullptr;
    functions_.clear();
    globals_.clear();
}

LoadedBuild::~LoadedBuild() {
    unload();
}

void LoadedBuild::reload(LoadedBuild& first, LoadedBuild& second) {
    first.unload();
    second.unload();
    first.load();
    second.load();
}

void LoadedBuild::find_functions() {
    const Driver& driver = device_.driver();
    for (const KernelFacts& kernel : build_.kernels) {
        CUfunction function = nullptr;
        const std::string& symbol = kernel.lowered_name.empty() ? kernel.name : kernel.lowered_name;
        if (driver.cuModuleGetFunction(&function, module_, symbol.c_str()) != CUDA_SUCCESS) {
            continue;
        }
        functions_.emplace(kernel.name, function);
        if (device_.emulated() != nullptr && kernel.registers_per_thread) {
            device_.emulated()->set_registers(function, *kernel.registers_per_thread);
        }
    }
    // What was allowed before a reload.
    for (auto& [kernel, bytes] : std::exchange(allowed_shared_, {})) allow_shared(kernel, bytes);
    for (const std::string& kernel : allowed_clusters_) allow_large_clusters(kernel);
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

void LoadedBuild::allow_cluster(const std::string& kernel, std::int64_t blocks) {
    constexpr std::int64_t portable = 8;
    if (blocks <= portable) return;
    allow_large_clusters(kernel);
    allowed_clusters_.insert(kernel);
}

void LoadedBuild::allow_large_clusters(const std::string& kernel) {
    // Where it is refused, the launch says so.
    static_cast<void>(device_.driver().cuFuncSetAttribute(
        function(kernel), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
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
    allow_cluster(kernel, cluster);
    plan::ResolvedLaunch launch;
    launch.grid = {cluster, 1, 1};
    launch.block = {threads, 1, 1};
    launch.cluster = {cluster, 1, 1};
    launch.has_cluster = true;
    launch.shared_bytes = shared_bytes;
    Attributes attributes{};
    const CUlaunchConfig config = launch_config(launch, device_.stream(), attributes);
    int count = 0;
    const CUresult result =
        device_.driver().cuOccupancyMaxActiveClusters(&count, function(kernel), &config);
    return result == CUDA_SUCCESS ? count : 0;
}

Program::Program(Device& device, LoadedBuild& build, const plan::Plan& plan, const Task& task,
                 const Workload& workload, const Bindings& bindings, const Alignments& alignments,
                 Libraries* libraries)
    : device_(device), build_(build) {
    try {
        resolve(plan, task, workload, bindings, alignments);
    } catch (const Verdict&) {
        throw;
    } catch (const DriverError&) {
        throw;
    } catch (const Error& error) {
        throw Verdict(EvaluationStatus::plan_error, error.what());
    }
    if (!resolved_.valid) throw ExcludedShape();
    prepare_launches(resolved_.prepare);
    prepare_launches(resolved_.steps);
    make_library_calls(libraries);
}

void Program::resolve(const plan::Plan& plan, const Task& task, const Workload& workload,
                      const Bindings& bindings, const Alignments& alignments) {
    plan::Environment environment;
    environment.axes = axis_values(task.definition, workload);
    environment.scalars = workload.scalars;
    environment.bindings = bindings;
    environment.device = device_.info();
    environment.occupancy = [this](const std::string& kernel, int threads, std::int64_t shared) {
        return build_.occupancy(kernel, threads, shared);
    };
    environment.clusters = [this](const std::string& kernel, int threads, std::int64_t shared,
                                  int cluster) {
        return build_.clusters(kernel, threads, shared, cluster);
    };
    for (const auto* tensors : {&task.definition.inputs, &task.definition.outputs}) {
        for (const TensorSpec& tensor : *tensors) {
            if (tensor.scalar) continue;
            const auto alignment = alignments.find(tensor.name);
            environment.tensors[tensor.name] = {
                shape_of(tensor, environment.axes),
                alignment != alignments.end() ? alignment->second : 0, tensor.dtype};
        }
    }
    resolved_ = plan::resolve(plan, environment);
    if (resolved_.valid) plan::check_build(plan, resolved_, build_.build(), device_.info());
}

void Program::prepare_launches(const std::vector<plan::ResolvedStep>& steps) {
    for (const plan::ResolvedStep& step : steps) {
        const auto* launch = std::get_if<plan::ResolvedLaunch>(&step);
        if (launch == nullptr) continue;
        check_parameters(*launch);
        build_.allow_shared(launch->kernel, launch->shared_bytes);
        build_.allow_cluster(launch->kernel,
                             launch->cluster[0] * launch->cluster[1] * launch->cluster[2]);
    }
}

void Program::make_library_calls(Libraries* libraries) {
    for (const plan::ResolvedStep& step : resolved_.steps) {
        const auto* call = std::get_if<plan::ResolvedCall>(&step);
        if (call == nullptr) continue;
        if (device_.emulated() != nullptr) {
            throw Rejected(not_emulated_rule,
                           fmt::format("{}: library step {} cannot run: the emulator executes PTX, "
                                       "and libraries bring none",
                                       to_string(call->position), call->function));
        }
        if (libraries == nullptr) {
            throw Verdict(
                EvaluationStatus::plan_error,
                fmt::format("{}: library steps are not available here", to_string(call->position)));
        }
        LibraryCall made;
        try {
            made.step = libraries->make(*call);
        } catch (const DriverError&) {
            throw;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported &&
                error.code() != ErrorCode::invalid_argument) {
                throw;
            }
            const bool placed = error.position().line != 0;
            throw Verdict(EvaluationStatus::plan_error,
                          placed ? error.what()
                                 : fmt::format("{}: {}: {}", to_string(call->position),
                                               call->function, error.what()));
        }
        const auto bytes = static_cast<std::int64_t>(made.step->workspace_bytes());
        if (bytes > 0) {
            plan::ResolvedWorkspace scratch;
            scratch.name = fmt::format("@call{}", library_calls_.size());
            scratch.bytes = bytes;
            scratch.element = "u8";
            scratch.shape = {bytes};
            made.workspace = scratch.name;
            resolved_.workspaces.push_back(std::move(scratch));
        }
        library_calls_.push_back(std::move(made));
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
        if (count > launch.arguments.size()) continue;
        const std::size_t passed = launch.arguments[count - 1].size;
        if (bytes > passed) {
            throw Verdict(
                EvaluationStatus::plan_error,
                fmt::format("{}: parameter {} of kernel {} has {} bytes, the plan passes "
                            "{}",
                            to_string(launch.position), count, launch.kernel, bytes, passed));
        }
    }
    if (count != launch.arguments.size()) {
        throw Verdict(
            EvaluationStatus::plan_error,
            fmt::format("{}: kernel {} has {} parameters, the launch passes {} arguments",
                        to_string(launch.position), launch.kernel, count, launch.arguments.size()));
    }
}

void Program::launch(const plan::ResolvedLaunch& launch, const Addresses& addresses,
                     const EncodedMaps& maps) {
    PackedArguments packed = pack_arguments(launch.arguments, addresses, maps);
    Attributes attributes{};
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

void Program::run(LibraryCall& call, const Addresses& addresses) {
    const auto scratch = addresses.find(call.workspace);
    if (!call.workspace.empty() && scratch == addresses.end()) {
        throw Error(ErrorCode::internal, "workspace " + call.workspace + " has no address");
    }
    try {
        call.step->enqueue(device_.stream(), addresses,
                           call.workspace.empty() ? 0 : scratch->second);
    } catch (const DriverError&) {
        throw;
    } catch (const Error&) {
        // A kernel's fault before this step shows in the library's status first.
        const CUresult result = device_.driver().cuStreamQuery(device_.stream());
        if (is_sticky(result)) device_.driver().check(result, "a step before a library step");
        throw;
    }
}

std::map<std::string, CUtensorMap> Program::encode(const std::vector<plan::ResolvedStep>& steps,
                                                   const Addresses& addresses) const {
    std::map<std::string, CUtensorMap> encoded;
    for (const plan::ResolvedStep& step : steps) {
        const auto* launch = std::get_if<plan::ResolvedLaunch>(&step);
        if (launch == nullptr) continue;
        for (const plan::ResolvedArgument& argument : launch->arguments) {
            const bool map = argument.kind == plan::Argument::Kind::tensor_map;
            if (!map || encoded.count(argument.name) != 0) continue;
            const auto found = std::find_if(
                resolved_.tensor_maps.begin(), resolved_.tensor_maps.end(),
                [&](const plan::ResolvedTensorMap& each) { return each.name == argument.name; });
            const auto buffer = found == resolved_.tensor_maps.end()
                                    ? addresses.end()
                                    : addresses.find(found->buffer);
            if (buffer == addresses.end()) {
                throw Error(ErrorCode::internal,
                            "the buffer of tensor map " + argument.name + " has no address");
            }
            encoded.emplace(argument.name, encode_map(device_, *found, buffer->second));
        }
    }
    return encoded;
}

void Program::enqueue_steps(const std::vector<plan::ResolvedStep>& steps,
                            const Addresses& addresses, CallTimer* timer) {
    // Buffers move between calls. All maps first, so that no encoding is between two launches.
    const std::map<std::string, CUtensorMap> encoded = encode(steps, addresses);
    EncodedMaps maps;
    for (const auto& [name, map] : encoded) maps.emplace(name, &map);
    std::size_t calls = 0;
    for (const plan::ResolvedStep& step : steps) {
        StepKind kind = StepKind::one;
        if (const auto* kernel = std::get_if<plan::ResolvedLaunch>(&step)) {
            launch(*kernel, addresses, maps);
        } else if (const auto* memset = std::get_if<plan::ResolvedMemset>(&step)) {
            set(*memset, addresses);
        } else {
            run(library_calls_.at(calls++), addresses);
            kind = StepKind::many;
        }
        if (timer != nullptr) timer->after_step(kind);
    }
}

void Program::enqueue(const Addresses& addresses, CallTimer* timer) {
    enqueue_steps(resolved_.steps, addresses, timer);
}

void Program::enqueue_prepare(const Addresses& addresses, CallTimer* timer) {
    enqueue_steps(resolved_.prepare, addresses, timer);
}

int Program::local_bytes() const {
    int bytes = 0;
    for (const KernelFacts& kernel : build_.build().kernels) {
        bytes = std::max(bytes, kernel.stack_bytes.value_or(0));
    }
    // Recursion and calls through pointers use stack that the compiler does not count, up to the
    // driver's limit.
    return bytes + Device::stack_limit_bytes;
}

std::vector<std::string> Program::library_steps() const {
    std::vector<std::string> lines;
    for (const LibraryCall& call : library_calls_) lines.push_back(call.step->describe());
    return lines;
}

std::int64_t Program::library_workspaces() const noexcept {
    std::int64_t bytes = 0;
    for (const plan::ResolvedWorkspace& workspace : resolved_.workspaces) {
        if (workspace.name.starts_with("@")) bytes += workspace.bytes;
    }
    return bytes;
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

std::vector<KernelFacts> Program::kernel_facts() const {
    std::vector<KernelFacts> facts;
    for (const auto& step : resolved_.steps) {
        const auto* launch = std::get_if<plan::ResolvedLaunch>(&step);
        if (launch == nullptr) continue;
        const std::vector<KernelFacts>& kernels = build_.build().kernels;
        const auto found =
            std::find_if(kernels.begin(), kernels.end(),
                         [&](const KernelFacts& each) { return each.name == launch->kernel; });
        facts.push_back(found != kernels.end() ? *found : KernelFacts{});
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
