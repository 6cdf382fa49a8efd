// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emulator/driver.hpp"
#include "fault_case.hpp"
#include "kernelforge/error.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"
#include "worker/compile_job.hpp"
#include "worker/compile_toolkit.hpp"
#include "worker/nvrtc_library.hpp"

// Kernels with one planted fault each, their corrected twins, and correct kernels that are easily
// taken for wrong ones: compiled as candidates are, executed on the emulated device, checked.

using namespace kernelforge;
using emulator::EmulatedDevice;
using emulator::Report;
using test::FaultCase;

namespace {

/// NVRTC with the headers of its toolkit; null where there is none.
struct Nvrtc {
    compile::Toolkit toolkit = compile::find_toolkit({});
    compile::NvrtcLibrary library{toolkit.library};
};

const Nvrtc* nvrtc() {
    static const std::unique_ptr<const Nvrtc> found = []() -> std::unique_ptr<const Nvrtc> {
        try {
            return std::make_unique<const Nvrtc>();
        } catch (const Error&) {
            return nullptr;
        }
    }();
    return found.get();
}

/// What the compiler role hands to NVRTC and the PTX that comes back. The kernels are `extern "C"`.
std::string ptx_of(const FaultCase& file) {
    CompileRequest request;
    request.source = file.source;
    const compile::CheckOutcome outcome = compile::check_request(request, {});
    if (outcome.refusal) throw Error(ErrorCode::parse, outcome.refusal->message);
    std::vector<std::string> options =
        compile::front_end_options(outcome.checked.request, nvrtc()->toolkit.include_folders);
    // Virtual: the PTX without a run of ptxas.
    options[0] = "-arch=compute_90a";
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    const compile::NvrtcLibrary& library = nvrtc()->library;
    nvrtcProgram program = nullptr;
    library.create_program(&program, outcome.checked.assembled.text.c_str(),
                           std::string(compile::prefix_name).c_str(), 0, nullptr, nullptr);
    const nvrtcResult code =
        library.compile_program(program, static_cast<int>(words.size()), words.data());
    std::size_t bytes = 0;
    std::string text;
    if (code == NVRTC_SUCCESS) {
        library.ptx_size(program, &bytes);
        text.resize(bytes);
        library.ptx(program, text.data());
    } else {
        library.log_size(program, &bytes);
        text.resize(bytes);
        library.log(program, text.data());
    }
    library.destroy_program(&program);
    if (code != NVRTC_SUCCESS) throw Error(ErrorCode::parse, text);
    return text;
}

EmulatedDevice& device() {
    static EmulatedDevice one{emulator::DriverOptions{}};
    return one;
}

/// What a run of a case ended with.
struct Found {
    std::optional<Report> report;
    std::map<std::string, std::string> outputs;  ///< bytes of the buffers, without a report
};

/// Buffers and module of one case, given back at its end. The steps of a plan: memory is set, then
/// the launches follow one another.
class Bench {
  public:
    explicit Bench(const FaultCase& file) : file_(file), driver_(device().driver()) {
        const std::string ptx = ptx_of(file);
        if (driver_.cuModuleLoadData(&module_, ptx.c_str()) != CUDA_SUCCESS) {
            const std::string refusal = device().take_refusal();
            (void)device().take_report();
            throw Error(ErrorCode::unsupported, "the PTX was refused: " + refusal);
        }
        for (const FaultCase::Buffer& buffer : file.buffers) make(buffer);
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;
    ~Bench() {
        for (const auto& [name, address] : addresses_) driver_.cuMemFree(address);
        if (module_ != nullptr) driver_.cuModuleUnload(module_);
    }

    Found run() {
        std::vector<emulator::View> views = device().variables(module_);
        for (const FaultCase::Buffer& buffer : file_.buffers) {
            views.push_back({addresses_.at(buffer.name), buffer.bytes(), buffer.name,
                             buffer.writable(), buffer.content != FaultCase::Content::output});
        }
        device().begin_checked(std::move(views));
        device().set_deadline(std::chrono::steady_clock::now() + file_.deadline);
        Found found;
        for (const FaultCase::Launch& one : file_.launches) {
            const CUresult result = launch(one);
            if (result == CUDA_SUCCESS) continue;
            found.report = device().take_report();
            if (!found.report) {
                device().end_checked();
                throw Error(
                    ErrorCode::invalid_argument,
                    "the launch of " + one.kernel + " gave CUDA error " + std::to_string(result));
            }
            break;
        }
        device().end_checked();
        if (!found.report) fetch(found);
        return found;
    }

  private:
    void make(const FaultCase::Buffer& buffer) {
        CUdeviceptr address = 0;
        driver_.check(driver_.cuMemAlloc(&address, buffer.bytes()), "cuMemAlloc");
        addresses_[buffer.name] = address;
        const std::string bytes = initial_bytes(buffer);
        if (bytes.empty()) return;
        driver_.check(driver_.cuMemcpyHtoDAsync(address, bytes.data(), bytes.size(), nullptr),
                      "cuMemcpyHtoDAsync");
    }

    CUresult launch(const FaultCase::Launch& one) {
        CUfunction function = nullptr;
        driver_.check(driver_.cuModuleGetFunction(&function, module_, one.kernel.c_str()),
                      "cuModuleGetFunction");
        std::vector<std::uint64_t> values;
        for (const std::string& argument : one.arguments) values.push_back(value(argument));
        std::vector<void*> parameters;
        for (std::uint64_t& each : values) parameters.push_back(&each);
        std::vector<CUlaunchAttribute> attributes;
        if (one.cluster > 1) {
            CUlaunchAttribute& attribute = attributes.emplace_back();
            attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attribute.value.clusterDim.x = one.cluster;
            attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        }
        if (one.cooperative) {
            CUlaunchAttribute& attribute = attributes.emplace_back();
            attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            attribute.value.cooperative = 1;
        }
        CUlaunchConfig config{};
        config.gridDimX = one.blocks;
        config.blockDimX = one.threads;
        config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
        config.sharedMemBytes = one.dynamic_bytes;
        config.attrs = attributes.data();
        config.numAttrs = static_cast<unsigned>(attributes.size());
        return driver_.cuLaunchKernelEx(&config, function, parameters.data(), nullptr);
    }

    std::uint64_t value(const std::string& argument) const {
        if (argument == "null") return 0;
        if (const auto at = addresses_.find(argument); at != addresses_.end()) return at->second;
        return static_cast<std::uint64_t>(std::stoll(argument));
    }

    void fetch(Found& found) {
        for (const FaultCase::Buffer& buffer : file_.buffers) {
            std::string bytes(buffer.bytes(), '\0');
            driver_.check(driver_.cuMemcpyDtoHAsync(bytes.data(), addresses_.at(buffer.name),
                                                    bytes.size(), nullptr),
                          "cuMemcpyDtoHAsync");
            found.outputs[buffer.name] = std::move(bytes);
        }
    }

    const FaultCase& file_;
    const worker::Driver& driver_;
    CUmodule module_ = nullptr;
    std::map<std::string, CUdeviceptr> addresses_;
};

std::string describe(const Report& report) {
    std::string text = std::string(to_string(report.kind)) + " at line " +
                       std::to_string(report.party.place.source_line);
    if (report.other) {
        text += " (other party: line " + std::to_string(report.other->place.source_line) + ")";
    }
    return text + ": " + report.message;
}

std::string join(const std::set<int>& lines) {
    std::string text;
    for (const int line : lines) text += " " + std::to_string(line);
    return text;
}

/// What is wrong with how a case ended; empty: nothing.
std::string judge(const FaultCase& file, const Found& found) {
    if (file.kinds.empty()) {
        if (found.report) return "reported " + describe(*found.report);
        for (const FaultCase::Check& check : file.checks) {
            const FaultCase::Buffer& buffer = file.buffer(check.buffer);
            std::uint64_t value = 0;
            std::memcpy(
                &value,
                found.outputs.at(check.buffer).data() + check.index * buffer.element_bytes(),
                buffer.element_bytes());
            if (value != check.value) {
                return check.buffer + "[" + std::to_string(check.index) + "] is " +
                       std::to_string(value) + ", expected " + std::to_string(check.value);
            }
        }
        return {};
    }
    if (!found.report) return "no report";
    const Report& report = *found.report;
    if (file.kinds.count(std::string(to_string(report.kind))) == 0) {
        return "another kind: " + describe(report);
    }
    const auto marked = [&file](int line) { return file.lines.count(line) != 0; };
    if (!marked(report.party.place.source_line) ||
        (report.other && !marked(report.other->place.source_line))) {
        return "another line than" + join(file.lines) + ": " + describe(report);
    }
    return report.message.empty() ? "a report without a sentence" : std::string();
}

std::string outcome_of(const std::filesystem::path& path) {
    try {
        const FaultCase file = test::read_fault_case(path);
        return judge(file, Bench(file).run());
    } catch (const std::exception& error) {
        return error.what();
    }
}

enum class Which { faults, correct };

std::vector<std::filesystem::path> files(Which which) {
    std::vector<std::filesystem::path> result;
    const auto folder = test::source_folder() / "tests" / "emulator" / "faults";
    // For a look at one: any part of its name.
    const char* const only = std::getenv("KERNELFORGE_FAULT");
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (only != nullptr && name.find(only) == std::string::npos) continue;
        if (name.ends_with(".ok.cu") == (which == Which::correct)) result.push_back(entry.path());
    }
    std::sort(result.begin(), result.end());
    return result;
}

void check_all(Which which) {
    if (nvrtc() == nullptr) {
        WARN("skipped: there is no NVRTC here");
        return;
    }
    for (const std::filesystem::path& path : files(which)) {
        const std::string wrong = outcome_of(path);
        INFO(path.filename().string() << ": " << wrong);
        CHECK(wrong.empty());
    }
}

}  // namespace

TEST_CASE("every planted fault is found with its kind and line", "[faults]") {
    check_all(Which::faults);
}

TEST_CASE("correct kernels give no report and right results", "[faults]") {
    check_all(Which::correct);
}

TEST_CASE("there are enough planted faults and each has a corrected twin", "[faults]") {
    if (std::getenv("KERNELFORGE_FAULT") != nullptr) return;
    const auto faults = files(Which::faults);
    CHECK(faults.size() >= 30);
    for (const std::filesystem::path& path : faults) {
        const auto twin = path.parent_path() / (path.stem().string() + ".ok.cu");
        INFO(twin.string());
        CHECK(std::filesystem::exists(twin));
        const FaultCase file = test::read_fault_case(path);
        CHECK_FALSE(file.kinds.empty());
        CHECK_FALSE(file.lines.empty());
        CHECK(test::read_fault_case(twin).kinds.empty());
    }
}
