// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/checker.hpp"
#include "emulator/program.hpp"
#include "emulator/ptx_module.hpp"
#include "emulator_machine_code.hpp"
#include "worker/compile_toolkit.hpp"
#include "worker/nvrtc_library.hpp"

// Kernels in CUDA C++, compiled by NVRTC, on a machine.

namespace kernelforge::emulator {

/// PTX for sm_90a of a source whose lines are the candidate's.
inline std::string compile_to_ptx(const std::string& source) {
    const compile::Toolkit toolkit = compile::find_toolkit({});
    const compile::NvrtcLibrary nvrtc(toolkit.library);
    nvrtcProgram program = nullptr;
    nvrtc.create_program(&program, source.c_str(), "candidate.cu", 0, nullptr, nullptr);
    std::vector<std::string> options{"--gpu-architecture=compute_90a", "-lineinfo", "--std=c++17"};
    for (const std::string& folder : toolkit.include_folders) options.push_back("-I" + folder);
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    const nvrtcResult result =
        nvrtc.compile_program(program, static_cast<int>(words.size()), words.data());
    std::size_t bytes = 0;
    std::string text;
    if (result == NVRTC_SUCCESS) {
        nvrtc.ptx_size(program, &bytes);
        text.resize(bytes);
        nvrtc.ptx(program, text.data());
    } else {
        nvrtc.log_size(program, &bytes);
        text.resize(bytes);
        nvrtc.log(program, text.data());
    }
    nvrtc.destroy_program(&program);
    if (result != NVRTC_SUCCESS) throw std::runtime_error(text);
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
}

/// A module on a device of its own.
struct LoadedKernels {
    LoadedKernels(const std::string& source, int threads, MachineLimits limits = {},
                  Isa isa = best_isa())
        : device(threads, limits) {
        loaded.code = decode(parse_ptx(compile_to_ptx(source)), isa);
        for (const Variable& variable : loaded.code->globals) {
            const std::uint64_t address =
                device.make<char>(std::max<std::uint64_t>(variable.bytes, 1));
            std::memcpy(device.at<char>(address), variable.initial.data(), variable.initial.size());
            loaded.global_addresses.push_back(address);
        }
    }

    struct Shape {
        std::array<std::uint32_t, 3> grid{1, 1, 1}, block{32, 1, 1}, cluster{1, 1, 1};
        std::uint32_t shared = 0;
        bool cooperative = false;
    };
    /// Arguments as 64-bit words; each parameter takes its size of one.
    Outcome run(const std::string& name, const Shape& shape,
                std::initializer_list<std::uint64_t> arguments) {
        std::vector<std::string> texts;
        for (const std::uint64_t value : arguments) {
            texts.emplace_back(reinterpret_cast<const char*>(&value), sizeof value);
        }
        return run_with(name, shape, texts);
    }
    /// Arguments as bytes.
    Outcome run_with(const std::string& name, const Shape& shape,
                     const std::vector<std::string>& arguments) {
        Launch launch;
        launch.module = &loaded;
        launch.entry = loaded.code->find_entry(name);
        if (launch.entry == nullptr) throw std::runtime_error("no kernel " + name);
        launch.grid = shape.grid;
        launch.block = shape.block;
        launch.cluster = shape.cluster;
        launch.dynamic_shared_bytes = shape.shared;
        launch.cooperative = shape.cooperative;
        launch.parameters.resize(launch.entry->parameter_bytes);
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const auto& [offset, bytes] = launch.entry->parameters.at(i);
            std::memcpy(launch.parameters.data() + offset, arguments[i].data(),
                        std::min<std::size_t>(bytes, arguments[i].size()));
        }
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        if (!watched) return device.machine.run(launch, deadline);
        std::vector<View> views;
        for (const auto& [address, bytes] : device.made) {
            views.push_back({address, bytes, "memory", true, true});
        }
        Checker checker(device.memory);
        checker.begin(std::move(views));
        device.machine.set_observer(&checker);
        Outcome outcome = device.machine.run(launch, deadline);
        device.machine.set_observer(nullptr);
        return outcome;
    }

    bool watched = false;  ///< by a checker
    TestDevice device;
    LoadedCode loaded;
};

}  // namespace kernelforge::emulator
