// SPDX-License-Identifier: Apache-2.0
#include "fuzz_device.hpp"

#include <chrono>

#include "kernelforge/error.hpp"
#include "worker/compile_job.hpp"

namespace kernelforge::fuzz {
namespace {

constexpr std::chrono::seconds launch_limit{60};

/// A module and the four buffers of its kernel.
class Bench {
  public:
    Bench(const worker::Driver& driver, const Program& program, const std::string& image)
        : driver_(driver), program_(program), initial_(initial_buffers(program)) {
        driver_.check(driver_.cuModuleLoadData(&module_, image.c_str()), "cuModuleLoadData");
        for (const std::string* bytes : contents()) {
            CUdeviceptr address = 0;
            driver_.check(driver_.cuMemAlloc(&address, bytes->size()), "cuMemAlloc");
            addresses_.push_back(address);
            driver_.check(driver_.cuMemcpyHtoDAsync(address, bytes->data(), bytes->size(), nullptr),
                          "cuMemcpyHtoDAsync");
        }
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;
    ~Bench() {
        for (const CUdeviceptr address : addresses_) driver_.cuMemFree(address);
        driver_.cuModuleUnload(module_);
    }

    [[nodiscard]] std::vector<emulator::View> views() const {
        constexpr const char* names[] = {"in", "acc", "own", "out"};
        std::vector<emulator::View> views;
        for (std::size_t i = 0; i < addresses_.size(); ++i) {
            views.push_back({addresses_[i], contents()[i]->size(), names[i], i > 0, i < 3});
        }
        return views;
    }
    [[nodiscard]] CUmodule module() const { return module_; }

    CUresult launch() {
        CUfunction function = nullptr;
        driver_.check(driver_.cuModuleGetFunction(&function, module_, "fuzz"),
                      "cuModuleGetFunction");
        std::vector<void*> parameters;
        for (CUdeviceptr& address : addresses_) parameters.push_back(&address);
        CUlaunchConfig config{};
        config.gridDimX = program_.blocks;
        config.blockDimX = program_.threads;
        config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
        config.sharedMemBytes = program_.dynamic_shared ? program_.shared_words() * 8 : 0;
        const CUresult result =
            driver_.cuLaunchKernelEx(&config, function, parameters.data(), nullptr);
        return result != CUDA_SUCCESS ? result : driver_.cuCtxSynchronize();
    }

    [[nodiscard]] Buffers fetch() const {
        Buffers buffers = initial_;
        std::string* const all[] = {&buffers.accumulators, &buffers.own, &buffers.output};
        for (std::size_t i = 0; i < 3; ++i) {
            driver_.check(driver_.cuMemcpyDtoHAsync(all[i]->data(), addresses_[i + 1],
                                                    all[i]->size(), nullptr),
                          "cuMemcpyDtoHAsync");
        }
        driver_.check(driver_.cuCtxSynchronize(), "cuCtxSynchronize");
        return buffers;
    }

  private:
    [[nodiscard]] std::vector<const std::string*> contents() const {
        return {&program_.input, &initial_.accumulators, &initial_.own, &initial_.output};
    }

    const worker::Driver& driver_;
    const Program& program_;
    Buffers initial_;
    CUmodule module_ = nullptr;
    std::vector<CUdeviceptr> addresses_;
};

}  // namespace

KernelCompiler::KernelCompiler()
    : toolkit_(compile::find_toolkit({})), library_(toolkit_.library) {}

std::string KernelCompiler::compile(const Program& program, const std::string& arch) const {
    CompileRequest request;
    request.source = print(program);
    request.options = program.options;
    const compile::CheckOutcome outcome = compile::check_request(request, {});
    if (outcome.refusal) throw Error(ErrorCode::parse, outcome.refusal->message);
    std::vector<std::string> options =
        compile::front_end_options(outcome.checked.request, toolkit_.include_folders);
    options[0] = "-arch=" + arch;
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    nvrtcProgram handle = nullptr;
    library_.create_program(&handle, outcome.checked.assembled.text.c_str(),
                            std::string(compile::prefix_name).c_str(), 0, nullptr, nullptr);
    const nvrtcResult code =
        library_.compile_program(handle, static_cast<int>(words.size()), words.data());
    const bool real = arch.starts_with("sm_");
    std::string text;
    std::size_t bytes = 0;
    if (code != NVRTC_SUCCESS) {
        library_.log_size(handle, &bytes);
        text.resize(bytes);
        library_.log(handle, text.data());
    } else if (real) {
        library_.cubin_size(handle, &bytes);
        text.resize(bytes);
        library_.cubin(handle, text.data());
    } else {
        library_.ptx_size(handle, &bytes);
        text.resize(bytes);
        library_.ptx(handle, text.data());
    }
    library_.destroy_program(&handle);
    if (code != NVRTC_SUCCESS) throw Error(ErrorCode::parse, text);
    return text;
}

Ran run_emulated(const Program& program, const std::string& ptx, emulator::Isa isa,
                 Checker checker) {
    emulator::DriverOptions options;
    options.isa = isa;
    options.check = checker == Checker::on;
    emulator::EmulatedDevice device(options);
    Ran ran;
    try {
        Bench bench(device.driver(), program, ptx);
        if (checker == Checker::on) {
            std::vector<emulator::View> views = device.variables(bench.module());
            for (emulator::View& view : bench.views()) views.push_back(std::move(view));
            device.begin_checked(std::move(views));
        }
        device.set_deadline(std::chrono::steady_clock::now() + launch_limit);
        const CUresult result = bench.launch();
        if (result != CUDA_SUCCESS) {
            const std::optional<emulator::Report> report = device.take_report();
            ran.fault = report ? report->message : device.driver().describe(result);
        }
        device.end_checked();
        if (ran.fault.empty()) ran.buffers = bench.fetch();
    } catch (const Error& error) {
        ran.fault = std::string(error.what()) + " " + device.take_refusal();
    }
    return ran;
}

Gpu::Gpu() : driver_(worker::load_driver()) {
    if (driver_ == nullptr) throw Error(ErrorCode::device_unavailable, "there is no CUDA driver");
    driver_->check(driver_->cuInit(0), "cuInit");
    CUdevice device = 0;
    CUcontext context = nullptr;
    driver_->check(driver_->cuDeviceGet(&device, 0), "cuDeviceGet");
    driver_->check(driver_->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    driver_->check(driver_->cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

Ran Gpu::run(const Program& program, const std::string& cubin) const {
    Ran ran;
    try {
        Bench bench(*driver_, program, cubin);
        driver_->check(bench.launch(), "the launch");
        ran.buffers = bench.fetch();
    } catch (const worker::DriverError& error) {
        ran.fault = error.what();
    }
    return ran;
}

}  // namespace kernelforge::fuzz
