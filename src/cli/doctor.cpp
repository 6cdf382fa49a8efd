// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/files.hpp"
#include "base/worker_path.hpp"
#include "cli/context.hpp"
#include "cli/table.hpp"
#include "kernelforge/version.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cli {
namespace {

enum class State { good, missing, optional_missing };

struct Check {
    std::string name;
    State state = State::good;
    std::string finding;
    std::string remedy;  ///< when something is missing
};

Check check_worker(const PluginContext& context) {
    try {
        return {"worker program", State::good, find_worker(context.worker_path), ""};
    } catch (const Error& error) {
        return {"worker program", State::missing, error.what(),
                "install it beside this program, or give --worker-program"};
    }
}

Check check_cache(const PluginContext& context) {
    if (context.cache_folder.empty()) {
        return {"cache folder", State::optional_missing, "none: HOME is not set",
                "give --cache FOLDER"};
    }
    try {
        make_folder(context.cache_folder);
        const std::string probe = context.cache_folder + "/probe";
        write_file_atomically(probe, "probe");
        ::unlink(probe.c_str());
        return {"cache folder", State::good, context.cache_folder, ""};
    } catch (const Error& error) {
        return {"cache folder", State::missing, error.what(),
                "give --cache FOLDER that can be written"};
    }
}

Check check_compiler(Context& context, const PluginContext& plugin_context) {
    try {
        const auto compiler = context.registry.make<Compiler>("nvrtc", "{}", plugin_context);
        CompileRequest request;
        request.source =
            "extern \"C\" __global__ void probe(float* x) { x[threadIdx.x] = 1.0f; }\n";
        request.kernels = {{"probe", "probe"}};
        const CompileResult result = compiler->compile(request, {});
        if (result.status == CompileStatus::ok) {
            return {"compiler", State::good,
                    fmt::format("{}, makes code for sm_90a", result.compiler), ""};
        }
        return {"compiler", State::missing, result.message, "install CUDA Toolkit >= 12.6"};
    } catch (const Error& error) {
        return {
            "compiler", State::missing, error.what(),
            "install CUDA Toolkit >= 12.6, or its Python wheels: bash cmake/get_cuda_wheels.sh"};
    }
}

std::string describe(const DeviceInfo& device) {
    std::string text = fmt::format("{}: {}, {}, {} multiprocessors, {:.0f} GB, driver {}.{}",
                                   device.index, device.name, device.arch, device.multiprocessors,
                                   static_cast<double>(device.memory_bytes) * 1e-9,
                                   device.driver_version / 1000, device.driver_version % 1000 / 10);
    const auto add = [&](const char* name, const std::optional<double>& value, double unit,
                         const char* unit_name) {
        if (value) text += fmt::format(", {} {:.2f} {}", name, *value / unit, unit_name);
    };
    add("read", device.roofs.read_bytes_per_s, 1e12, "TB/s");
    add("copy", device.roofs.copy_bytes_per_s, 1e12, "TB/s");
    add("write", device.roofs.write_bytes_per_s, 1e12, "TB/s");
    add("fp32", device.roofs.fp32_flop_per_s, 1e12, "TFLOP/s");
    add("bf16", device.roofs.bf16_flop_per_s, 1e12, "TFLOP/s");
    return text;
}

/// The devices themselves go to `devices`.
Check check_devices(Context& context, const PluginContext& plugin_context,
                    std::vector<DeviceInfo>& devices) {
    const char* remedy =
        "candidates run on the emulator, times are modelled (static); to measure, run on a machine "
        "with an NVIDIA GPU, or evaluate elsewhere: "
        "--evaluator 'folder:{\"folder\": \"jobs\"}'";
    try {
        devices = context.registry.make<Evaluator>("cuda", "{}", plugin_context)->devices();
        if (devices.empty())
            return {"device", State::optional_missing, "no GPU, or no NVIDIA driver", remedy};
        std::string text;
        for (const DeviceInfo& device : devices)
            text += (text.empty() ? "" : "; ") + describe(device);
        return {"device", State::good, text, ""};
    } catch (const Error& error) {
        return {"device", State::optional_missing, error.what(), remedy};
    }
}

/// What the emulator's operations are compiled for (`best_isa`, src/emulator/pure_ops.cpp).
const char* vector_unit() {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c")) {
        return "AVX2";
    }
#endif
    return "portable code";
}

/// Whether candidates can be judged without a GPU.
Check check_emulator(Context& context, const PluginContext& plugin_context,
                     std::vector<DeviceInfo>& devices) {
    const char* remedy = "install the worker program of this version beside this program";
    try {
        devices = context.registry.make<Evaluator>("emulator", "{}", plugin_context)->devices();
        if (devices.empty()) return {"emulator", State::missing, "it lists no device", remedy};
        const DeviceInfo& device = devices.front();
        return {
            "emulator", State::good,
            fmt::format("{}: PTX for sm_80 to {}, {}, {} threads; times are {}", device.name,
                        device.arch, vector_unit(),
                        std::max(1U, std::thread::hardware_concurrency()), label_of_times(device)),
            ""};
    } catch (const Error& error) {
        return {"emulator", State::missing, error.what(), remedy};
    }
}

Check check_library(const char* name, const char* library, const char* what_for,
                    const std::string& folders) {
    std::vector<std::string> places = {library};
    for (std::size_t start = 0; start < folders.size();) {
        const std::size_t end = std::min(folders.find(';', start), folders.size());
        places.push_back(folders.substr(start, end - start) + "/" + library);
        start = end + 1;
    }
    for (const std::string& place : places) {
        if (void* handle = ::dlopen(place.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
            ::dlclose(handle);
            return {name, State::good, place, ""};
        }
    }
    return {name, State::optional_missing, fmt::format("{} was not found", library), what_for};
}

/// Whether a user without privileges may read hardware counters.
std::optional<Check> check_counters() {
    std::ifstream file("/proc/driver/nvidia/params");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("RmProfilingAdminOnly:")) continue;
        const bool refused = line.ends_with("1") && ::geteuid() != 0;
        return Check{
            "counters", refused ? State::optional_missing : State::good,
            refused ? "only an administrator may read hardware counters" : "may be read",
            "set NVreg_RestrictProfilingToAdminUsers=0 for the driver, or run with CAP_SYS_ADMIN"};
    }
    return std::nullopt;
}

Check check_program(const char* name, const char* what_for) {
    const std::string file = find_in_path(name);
    if (!file.empty()) return {name, State::good, file, ""};
    return {name, State::optional_missing, "not in PATH", what_for};
}

int doctor(Context& context) {
    const PluginContext plugin_context = context.plugin_context();
    std::vector<DeviceInfo> devices;
    std::vector<DeviceInfo> emulated;
    std::vector<Check> checks = {
        check_worker(plugin_context),
        check_cache(plugin_context),
        check_compiler(context, plugin_context),
        check_devices(context, plugin_context, devices),
        check_emulator(context, plugin_context, emulated),
        check_library("CUPTI", "libcupti.so.13",
                      "without it kernels are timed by events, which are coarse below 20 us",
                      KERNELFORGE_LIBRARY_FOLDERS),
        check_library("NVML", "libnvidia-ml.so.1",
                      "without it clocks and throttling are not recorded", ""),
    };
    if (const auto counters = check_counters()) checks.push_back(*counters);
    checks.push_back(check_program("nvdisasm", "optional: full disassembly"));
    checks.push_back(check_program("compute-sanitizer", "optional: memory and race checks"));

    bool complete = true;
    Json list = Json::array();
    for (const Check& check : checks) {
        complete = complete && check.state != State::missing;
        const char* mark = check.state == State::good      ? "ok"
                           : check.state == State::missing ? "MISSING"
                                                           : "absent";
        if (context.json) {
            list.push_back({{"check", check.name},
                            {"state", mark},
                            {"finding", check.finding},
                            {"remedy", check.remedy}});
            continue;
        }
        std::printf("%-18s %-8s %s\n", check.name.c_str(), mark, check.finding.c_str());
        if (check.state != State::good)
            std::printf("%-18s %-8s -> %s\n", "", "", check.remedy.c_str());
    }
    if (context.json) {
        Json encoded = Json::array();
        for (const DeviceInfo& device : devices) encoded.push_back(wire::encode(device));
        Json encoded_emulated = Json::array();
        for (const DeviceInfo& device : emulated) {
            encoded_emulated.push_back(wire::encode(device));
        }
        print_json({{"version", KERNELFORGE_VERSION},
                    {"build_stamp", KERNELFORGE_BUILD_STAMP},
                    {"checks", list},
                    {"evaluator", devices.empty() ? "emulator" : "cuda"},
                    {"devices", encoded},
                    {"emulated_devices", encoded_emulated}});
    } else {
        std::printf("%s\n", !complete ? "what is MISSING is needed to run candidates here"
                            : devices.empty()
                                ? "everything is here for the main job on the emulator, which "
                                  "--evaluator auto takes; times are modelled (static)"
                                : "everything is here for the main job on the GPU, which "
                                  "--evaluator auto takes");
    }
    return complete ? exit_done : exit_environment;
}

}  // namespace

Run add_doctor(CLI::App&, Context& context) {
    return [&context] { return doctor(context); };
}

}  // namespace kernelforge::cli
