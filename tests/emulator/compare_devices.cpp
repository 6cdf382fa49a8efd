// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "builds.hpp"
#include "emulator/driver.hpp"
#include "hidden_shapes.hpp"
#include "kernelforge/plugin.hpp"
#include "kernelforge/registry.hpp"
#include "referee/comparison.hpp"
#include "referee/distributions.hpp"
#include "support/support.hpp"
#include "worker/measure_device.hpp"
#include "worker/measure_program.hpp"
#include "worker/measure_workload.hpp"

// usage: kernelforge_emulator_compare [--against cuda|portable] TASK_FOLDER|CANDIDATE.cu...
//
// Runs every candidate of the folders (a file: that one, of the task two folders up) once on the
// emulator and once on another device, on the same inputs, and compares what they write, bit by
// bit: `cuda` (default) is the first GPU, `portable` the emulator on one thread without vector
// instructions. What `wrong_race` candidates write depends on chance: those are left out.
// Candidates are compiled with --fmad=false, so that arithmetic that IEEE 754 defines is the same
// on both. Prints a table in Markdown; ends with 1 when a kernel differs that uses exact arithmetic
// alone, with 77 when there is no such device.

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);

namespace {

using namespace kernelforge;
using namespace std::chrono_literals;
using worker::Clock;
using Bytes = std::vector<std::byte>;
using Tensors = std::map<std::string, Bytes>;

constexpr std::uint64_t seed = 20261201;
constexpr int exit_no_device = 77;

struct Kernel {
    std::string name;  ///< task and candidate
    std::shared_ptr<const Task> task;
    Built built;
    Tensors inputs;
    std::map<std::string, Tensors> outputs;       ///< by device
    std::map<std::string, std::string> failures;  ///< by device
    std::string refusal;                          ///< why the emulator does not execute it
};

/// Instructions of the PTX whose results another device may round otherwise.
std::set<std::string> inexact_instructions(const std::string& ptx) {
    static const std::regex form(
        R"((ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt|div)\.(approx|full)|\b(mma|wgmma)\.[^;]*\.(f32|f16)\b|(atom|red)\.[^;]*\.add\.[^;]*f(16|32|64))");
    std::set<std::string> found;
    for (std::sregex_iterator match(ptx.begin(), ptx.end(), form), end; match != end; ++match) {
        const std::string text = match->str();
        found.insert(text.substr(0, text.find('.')));
    }
    return found;
}

/// Memory of one run, given back at its end.
class Memory {
  public:
    explicit Memory(worker::Device& device) : device_(device) {}
    ~Memory() {
        for (const CUdeviceptr address : addresses_) device_.driver().cuMemFree(address);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    /// Filled with `fill`.
    CUdeviceptr make(std::size_t bytes, unsigned char fill) {
        CUdeviceptr address = 0;
        const worker::Driver& driver = device_.driver();
        driver.check(driver.cuMemAlloc(&address, std::max<std::size_t>(bytes, 16)), "cuMemAlloc");
        addresses_.push_back(address);
        driver.check(driver.cuMemsetD8Async(address, fill, bytes, device_.stream()),
                     "cuMemsetD8Async");
        return address;
    }

  private:
    worker::Device& device_;
    std::vector<CUdeviceptr> addresses_;
};

std::size_t bytes_of(const TensorSpec& tensor, const std::map<std::string, std::int64_t>& axes) {
    std::size_t bytes = referee::element_bytes(tensor.dtype);
    for (const std::int64_t extent : worker::shape_of(tensor, axes))
        bytes *= static_cast<std::size_t>(extent);
    return bytes;
}

Tensors draw_inputs(const Task& task) {
    const auto axes = axis_values(task.definition, task.workloads.at(0));
    Tensors inputs;
    std::uint32_t ordinal = 0;
    for (const TensorSpec& tensor : task.definition.inputs) {
        const std::uint32_t own = ordinal++;
        if (tensor.scalar) continue;
        Bytes bytes(bytes_of(tensor, axes));
        referee::fill_on_host(
            referee::fill_parameters(task, axes, tensor, own, referee::Distribution::natural, seed),
            0, bytes);
        inputs[tensor.name] = std::move(bytes);
    }
    return inputs;
}

Tensors run(worker::Device& device, const Kernel& kernel) {
    const Task& task = *kernel.task;
    const Workload& workload = task.workloads.at(0);
    const auto axes = axis_values(task.definition, workload);
    const worker::Driver& driver = device.driver();
    worker::Contender contender(device, kernel.built.compiled, task, "candidate");
    const std::unique_ptr<worker::Program> program = contender.program(task, workload, 0);
    Memory memory(device);
    worker::Addresses addresses;
    for (const auto& [name, bytes] : kernel.inputs) {
        addresses[name] = memory.make(bytes.size(), 0);
        driver.check(
            driver.cuMemcpyHtoDAsync(addresses[name], bytes.data(), bytes.size(), device.stream()),
            "cuMemcpyHtoDAsync");
    }
    for (const TensorSpec& tensor : task.definition.outputs) {
        const std::size_t bytes = bytes_of(tensor, axes);
        program->set_buffer_bytes(tensor.name, bytes);
        const auto shared = task.inplace.find(tensor.name);
        addresses[tensor.name] =
            shared != task.inplace.end() ? addresses.at(shared->second) : memory.make(bytes, 0xff);
    }
    for (const plan::ResolvedWorkspace& workspace : program->workspaces()) {
        const auto bytes = static_cast<std::size_t>(workspace.bytes);
        program->set_buffer_bytes(workspace.name, bytes);
        addresses[workspace.name] =
            memory.make(bytes, workspace.init == plan::Workspace::Init::selfzero ? 0 : 0xff);
    }
    if (program->has_prepare()) program->enqueue_prepare(addresses, nullptr);
    program->enqueue(addresses, nullptr);
    Tensors outputs;
    for (const TensorSpec& tensor : task.definition.outputs) {
        Bytes bytes(bytes_of(tensor, axes));
        driver.check(driver.cuMemcpyDtoHAsync(bytes.data(), addresses.at(tensor.name), bytes.size(),
                                              device.stream()),
                     "cuMemcpyDtoHAsync");
        device.wait(Clock::now() + 60s);
        outputs[tensor.name] = std::move(bytes);
    }
    return outputs;
}

void run_all(worker::Device& device, const std::string& name, std::vector<Kernel>& kernels) {
    for (Kernel& kernel : kernels) {
        if (!kernel.failures.empty() || !kernel.refusal.empty()) continue;
        try {
            if (device.emulated() != nullptr) device.emulated()->set_deadline(Clock::now() + 60s);
            kernel.outputs[name] = run(device, kernel);
        } catch (const worker::DriverError& error) {
            kernel.failures[name] = error.what();
            const std::string why = device.explain(error);
            if (!why.empty()) kernel.failures[name] = why;
            if (device.emulated() == nullptr) throw;  // the context is lost
        } catch (const worker::Rejected& refusal) {
            kernel.refusal = refusal.what();
        } catch (const Error& error) {
            kernel.failures[name] = error.what();
        }
    }
}

void run_emulated(const std::string& name, const emulator::DriverOptions& options,
                  std::vector<Kernel>& kernels) {
    emulator::EmulatedDevice emulated(options);
    worker::Device device(emulated.driver(), emulated.info(), nullptr, "nothing is timed",
                          &emulated);
    run_all(device, name, kernels);
}

/// How far two tensors of one type are apart.
struct Difference {
    std::uint64_t elements = 0;
    std::uint64_t equal = 0;
    double worst_ulp = 0.0;       ///< of the type, at the larger magnitude
    double worst_relative = 0.0;  ///< to the largest magnitude of the tensor
};

int mantissa_bits(DType dtype) {
    switch (dtype) {
        case DType::float64:
            return 52;
        case DType::float32:
            return 23;
        case DType::float16:
            return 10;
        case DType::bfloat16:
            return 7;
        case DType::float8_e4m3fn:
            return 3;
        case DType::float8_e5m2:
            return 2;
        default:
            return -1;
    }
}

void compare(DType dtype, const Bytes& one, const Bytes& other, Difference& into) {
    const std::size_t size = referee::element_bytes(dtype);
    const int bits = mantissa_bits(dtype);
    double largest = 0.0, furthest = 0.0;
    for (std::size_t at = 0; at < one.size(); at += size) {
        ++into.elements;
        const std::span<const std::byte> p(&one[at], size), q(&other[at], size);
        const double x = referee::element_value(dtype, p), z = referee::element_value(dtype, q);
        if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
        if (std::equal(p.begin(), p.end(), q.begin()) || (std::isnan(x) && std::isnan(z))) {
            ++into.equal;
            continue;
        }
        const double apart = std::fabs(x - z);
        if (bits < 0 || !std::isfinite(apart)) {
            into.worst_ulp = furthest = INFINITY;
            continue;
        }
        const double unit =
            std::ldexp(1.0, std::ilogb(std::max(std::fabs(x), std::fabs(z))) - bits);
        into.worst_ulp = std::max(into.worst_ulp, apart / unit);
        furthest = std::max(furthest, apart);
    }
    if (furthest > 0.0) into.worst_relative = std::max(into.worst_relative, furthest / largest);
}

/// A row of the table. False: the kernel differs although its arithmetic is exact, or failed.
bool print_row(const Kernel& kernel, const std::string& other) {
    if (!kernel.built.ok()) {
        std::printf("| %s | not compiled: %s | | | |\n", kernel.name.c_str(),
                    kernel.built.message.c_str());
        return false;
    }
    if (!kernel.refusal.empty()) {
        std::printf("| %s | refused: %s | | | |\n", kernel.name.c_str(), kernel.refusal.c_str());
        return true;
    }
    if (!kernel.failures.empty()) {
        const auto& [device, why] = *kernel.failures.begin();
        std::printf("| %s | %s: %s | | | |\n", kernel.name.c_str(), device.c_str(), why.c_str());
        return false;
    }
    Difference difference;
    for (const TensorSpec& tensor : kernel.task->definition.outputs) {
        compare(tensor.dtype, kernel.outputs.at("emulator").at(tensor.name),
                kernel.outputs.at(other).at(tensor.name), difference);
    }
    std::string inexact;
    for (const std::string& each : inexact_instructions(kernel.built.compiled.builds.at(0).ptx)) {
        inexact += (inexact.empty() ? "" : " ") + each;
    }
    const bool equal = difference.equal == difference.elements;
    std::printf(
        "| %s | %s | %llu | %.4f %% | %s |\n", kernel.name.c_str(),
        inexact.empty() ? "exact" : inexact.c_str(),
        static_cast<unsigned long long>(difference.elements),
        100.0 * static_cast<double>(difference.equal) / static_cast<double>(difference.elements),
        equal ? "0"
              : (std::to_string(difference.worst_ulp) + " ulp, " +
                 std::to_string(difference.worst_relative) + " of the largest")
                    .c_str());
    return equal || !inexact.empty();
}

struct Subject {
    std::filesystem::path task;
    std::filesystem::path candidate;
};

std::vector<Subject> subjects_of(const std::vector<std::string>& words) {
    std::vector<Subject> subjects;
    for (const std::string& word : words) {
        const std::filesystem::path path =
            std::filesystem::path(word + "/").lexically_normal().parent_path();
        if (!std::filesystem::is_directory(path)) {
            subjects.push_back({path.parent_path().parent_path(), path});
            continue;
        }
        std::vector<std::filesystem::path> files = {path / "reference.cu"};
        for (const auto& entry : std::filesystem::directory_iterator(path / "candidates")) {
            if (entry.path().stem() != "wrong_race") files.push_back(entry.path());
        }
        std::sort(files.begin() + 1, files.end());
        for (const auto& file : files) subjects.push_back({path, file});
    }
    return subjects;
}

std::vector<Kernel> build_all(const std::vector<Subject>& subjects) {
    Registry registry;
    registry.add(kernelforge_plugin_compiler_nvrtc);
    PluginContext context;
    context.worker_path = test::worker_path();
    const std::unique_ptr<Compiler> compiler = registry.make<Compiler>("nvrtc", "{}", context);
    DeviceInfo device;
    {
        const emulator::EmulatedDevice emulated{emulator::DriverOptions{}};
        device = emulated.info();
    }
    std::vector<Kernel> kernels;
    for (const Subject& subject : subjects) {
        Kernel kernel;
        kernel.name = subject.task.filename().string() + "/" + subject.candidate.stem().string();
        auto task = std::make_shared<Task>(emulator_task(load_task(subject.task.string())).task);
        task->workloads.resize(1);
        kernel.task = task;
        std::string source = read_file(subject.candidate);
        if (source.find("--fmad") == std::string::npos) source += "\n//@option --fmad=false\n";
        const std::vector<std::size_t> workloads = {0};
        kernel.built =
            build_candidate(*compiler, *task, {source, {}}, subject.candidate.filename().string(),
                            workloads, device, {}, {});
        if (!kernel.built.ok()) kernel.failures["compiler"] = kernel.built.message;
        kernel.inputs = draw_inputs(*task);
        kernels.push_back(std::move(kernel));
    }
    return kernels;
}

int compare_all(const std::string& against, const std::vector<std::string>& words) {
    std::unique_ptr<const worker::Driver> driver;
    std::vector<DeviceInfo> gpus;
    if (against == "cuda") {
        driver = worker::load_driver();
        if (driver != nullptr) gpus = worker::list_devices(*driver);
        if (gpus.empty()) {
            std::printf("there is no GPU here\n");
            return exit_no_device;
        }
    }
    std::vector<Kernel> kernels = build_all(subjects_of(words));
    run_emulated("emulator", {}, kernels);
    if (against == "portable") {
        run_emulated(against, {.threads = 1, .check = false, .isa = emulator::Isa::portable},
                     kernels);
    } else {
        worker::Device device(*driver, gpus[0], nullptr, "nothing is timed");
        run_all(device, against, kernels);
        std::printf("%s\n\n", gpus[0].name.c_str());
    }
    std::printf(
        "| kernel | arithmetic | elements | equal bits | furthest apart "
        "|\n|---|---|--:|--:|---|\n");
    bool right = true;
    for (const Kernel& kernel : kernels) right = print_row(kernel, against) && right;
    return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    std::string against = "cuda";
    if (words.size() >= 2 && words[0] == "--against") {
        against = words[1];
        words.erase(words.begin(), words.begin() + 2);
    }
    if (words.empty() || (against != "cuda" && against != "portable")) {
        std::fprintf(stderr,
                     "usage: kernelforge_emulator_compare [--against cuda|portable] "
                     "TASK_FOLDER|CANDIDATE.cu...\n");
        return 2;
    }
    try {
        return compare_all(against, words);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
