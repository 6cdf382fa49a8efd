// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_job.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernelforge/error.hpp"
#include "worker/compile_cubin.hpp"
#include "worker/compile_log.hpp"
#include "worker/nvrtc_library.hpp"

namespace kernelforge::compile {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t max_parsed_log_bytes = std::size_t{4} << 20;
/// Virtual memory for precompiled headers; CUB needs 208 MB, CuTe 300 MB. Used up only where
/// touched.
constexpr std::size_t precompiled_heap_bytes = std::size_t{1} << 30;

/// `sm_90`, `sm_90a`, `sm_100f`.
bool architecture_well_formed(std::string_view arch) {
    if (!arch.starts_with("sm_")) return false;
    arch.remove_prefix(3);
    if (arch.ends_with("a") || arch.ends_with("f")) arch.remove_suffix(1);
    return arch.size() >= 2 && arch.size() <= 3 &&
           arch.find_first_not_of("0123456789") == std::string_view::npos;
}

/// A C++ name expression goes into the program that NVRTC compiles: no character that could end it.
bool name_expression_well_formed(std::string_view expression) {
    if (expression.empty() || expression.size() > 500) return false;
    return std::all_of(expression.begin(), expression.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_:<>,()*&+-/ %|^~!=?'{}").find(c) != std::string_view::npos;
    });
}

bool is_assembler_option(std::string_view option) {
    return option.find("Xptxas") != std::string_view::npos ||
           option.find("ptxas-options") != std::string_view::npos ||
           option.find("maxrregcount") != std::string_view::npos;
}

/// One program of NVRTC; destroyed with this.
class Program {
  public:
    Program(const NvrtcLibrary& nvrtc, const std::string& text) : nvrtc_(nvrtc) {
        const nvrtcResult code = nvrtc_.create_program(
            &program_, text.c_str(), std::string(prefix_name).c_str(), 0, nullptr, nullptr);
        if (code != NVRTC_SUCCESS) {
            throw Error(ErrorCode::internal,
                        std::string("nvrtcCreateProgram: ") + nvrtc_.error_string(code));
        }
    }
    ~Program() { nvrtc_.destroy_program(&program_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    nvrtcResult add_name(const std::string& expression) {
        return nvrtc_.add_name_expression(program_, expression.c_str());
    }
    nvrtcResult compile(const std::vector<std::string>& options) {
        std::vector<const char*> pointers;
        for (const std::string& option : options) pointers.push_back(option.c_str());
        return nvrtc_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
    }
    [[nodiscard]] std::string log() const { return text(nvrtc_.log_size, nvrtc_.log); }
    [[nodiscard]] std::string ptx() const { return text(nvrtc_.ptx_size, nvrtc_.ptx); }
    [[nodiscard]] std::string cubin() const { return bytes(nvrtc_.cubin_size, nvrtc_.cubin); }
    [[nodiscard]] std::optional<std::string> lowered(const std::string& expression) const {
        const char* name = nullptr;
        if (nvrtc_.lowered_name(program_, expression.c_str(), &name) != NVRTC_SUCCESS)
            return std::nullopt;
        return std::string(name);
    }

  private:
    template <class Size, class Get>
    [[nodiscard]] std::string bytes(Size size, Get get) const {
        std::size_t count = 0;
        if (size(program_, &count) != NVRTC_SUCCESS) return {};
        std::string result(count, '\0');
        if (count != 0 && get(program_, result.data()) != NVRTC_SUCCESS) return {};
        return result;
    }
    /// NVRTC counts a zero byte at the end.
    template <class Size, class Get>
    [[nodiscard]] std::string text(Size size, Get get) const {
        std::string result = bytes(size, get);
        while (!result.empty() && result.back() == '\0') result.pop_back();
        return result;
    }

    const NvrtcLibrary& nvrtc_;
    nvrtcProgram program_ = nullptr;
};

/// One run of the compiler, with what is needed of it.
struct Run {
    nvrtcResult code = NVRTC_SUCCESS;
    std::string log;
    std::string ptx;
    std::string cubin;
    std::vector<std::string> lowered;  ///< of the request's kernels
};

Run run_compiler(const CheckedRequest& checked, const NvrtcLibrary& nvrtc,
                 const std::vector<std::string>& options) {
    Program program(nvrtc, checked.assembled.text);
    for (const auto& [name, expression] : checked.request.kernels) {
        if (program.add_name(expression) != NVRTC_SUCCESS) {
            throw Error(ErrorCode::internal, "nvrtcAddNameExpression failed for " + expression);
        }
    }
    Run run;
    run.code = program.compile(options);
    run.log = program.log();
    run.ptx = program.ptx();
    if (run.code != NVRTC_SUCCESS) return run;
    run.cubin = program.cubin();
    for (const auto& [name, expression] : checked.request.kernels) {
        run.lowered.push_back(program.lowered(expression).value_or(""));
    }
    return run;
}

/// Drops the lines that are about precompiled headers, remarks on how to silence warnings, and
/// ptxas' time, so that equal requests have equal logs.
std::string without_own_lines(const std::string& log) {
    std::string result;
    for (std::size_t at = 0; at < log.size();) {
        const std::size_t end = std::min(log.find('\n', at), log.size() - 1);
        const std::string_view line(log.data() + at, end + 1 - at);
        const bool own = line.find("precompiled header file") != std::string_view::npos ||
                         line.starts_with("ptxas info    : Compile time = ") ||
                         line.starts_with("Remark: The warnings can be suppressed");
        if (!own) result += line;
        at = end + 1;
    }
    return result;
}

std::vector<CompileDiagnostic> diagnostics_of(const CheckedRequest& checked, const std::string& log,
                                              const std::string& ptx) {
    // The text as the compiler saw it, on the candidate's own line numbers.
    const std::string source =
        std::string(checked.scanned.body_line - 1, '\n') + checked.scanned.body;
    return read_diagnostics(std::string_view(log).substr(0, max_parsed_log_bytes), source,
                            checked.scanned.file, ptx);
}

bool has_error(const std::vector<CompileDiagnostic>& diagnostics) {
    return std::any_of(diagnostics.begin(), diagnostics.end(), [](const CompileDiagnostic& one) {
        return one.severity == CompileDiagnostic::Severity::error;
    });
}

std::string first_error(const std::vector<CompileDiagnostic>& diagnostics) {
    for (const CompileDiagnostic& one : diagnostics) {
        if (one.severity == CompileDiagnostic::Severity::error) {
            return to_string(one.position) + ": " + one.message;
        }
    }
    return {};
}

void fill_kernels(const CheckedRequest& checked, const Run& run, CompileResult& result) {
    const CubinFacts cubin = read_cubin(run.cubin);
    const auto assembler = read_assembler_facts(run.log);
    result.writable_globals = cubin.writable_globals;
    for (std::size_t i = 0; i < checked.request.kernels.size(); ++i) {
        KernelFacts facts;
        facts.name = checked.request.kernels[i].first;
        facts.lowered_name = run.lowered[i];
        if (const auto found = cubin.kernels.find(facts.lowered_name);
            found != cubin.kernels.end()) {
            const CubinKernel& kernel = found->second;
            facts.registers_per_thread = kernel.registers;
            facts.stack_bytes = kernel.stack_bytes;
            facts.static_shared_bytes = kernel.static_shared_bytes;
            facts.max_threads_per_block = kernel.max_threads_per_block;
            facts.parameter_bytes = kernel.parameter_bytes;
            facts.opcode_counts = kernel.opcode_counts;
        }
        if (const auto found = assembler.find(facts.lowered_name); found != assembler.end()) {
            const AssemblerFacts& said = found->second;
            if (said.registers) facts.registers_per_thread = said.registers;
            if (said.stack_bytes) facts.stack_bytes = said.stack_bytes;
            if (said.shared_bytes) facts.static_shared_bytes = said.shared_bytes;
            facts.spill_store_bytes = said.spill_store_bytes;
            facts.spill_load_bytes = said.spill_load_bytes;
            facts.barriers = said.barriers;
        }
        result.kernels.push_back(std::move(facts));
    }
}

void fill_failure(const CheckedRequest& checked, const NvrtcLibrary& nvrtc, nvrtcResult code,
                  CompileResult& result) {
    if (code == NVRTC_ERROR_COMPILATION || code == NVRTC_ERROR_INVALID_OPTION) {
        result.status = CompileStatus::error;
        result.message = first_error(result.diagnostics);
        const bool memory = result.log.find("out of memory") != std::string::npos;
        if (memory && result.message.find("out of memory") != std::string::npos) {
            result.status = CompileStatus::out_of_memory;
            result.message = "the compiler ran out of memory";
        }
    } else if (code == NVRTC_ERROR_OUT_OF_MEMORY) {
        result.status = CompileStatus::out_of_memory;
        result.message = "the compiler ran out of memory";
    } else {
        result.status = CompileStatus::crashed;
    }
    if (code == NVRTC_ERROR_INVALID_OPTION &&
        result.log.find("gpu-architecture") != std::string::npos) {
        result.message = nvrtc.description + " does not know architecture " + checked.request.arch +
                         "; it knows " + nvrtc.architecture_list();
        result.diagnostics = {
            {CompileDiagnostic::Severity::error, {checked.scanned.file, 0, 0}, result.message}};
    }
    if (result.message.empty()) {
        result.message = std::string("the compiler failed: ") + nvrtc.error_string(code);
    }
}

}  // namespace

CheckOutcome check_request(CompileRequest request, const std::vector<std::string>& root_names) {
    if (!architecture_well_formed(request.arch)) {
        throw Error(ErrorCode::invalid_argument,
                    "architecture \"" + request.arch + "\": expected a real one as in sm_90a");
    }
    for (const std::string& option : request.options) {
        if (option_allowed(option)) continue;
        throw Error(ErrorCode::invalid_argument,
                    "compiler option \"" + option + "\" is not among the allowed ones");
    }
    for (const auto& [name, expression] : request.kernels) {
        if (name_expression_well_formed(expression)) continue;
        throw Error(ErrorCode::invalid_argument, "kernel " + name + ": \"" + expression +
                                                     "\" is not a plain C++ name expression");
    }
    CheckOutcome outcome;
    outcome.checked.scanned = scan_source(request.source, request.file_name, root_names);
    const ScannedSource& scanned = outcome.checked.scanned;
    outcome.checked.assembled = assemble_source(scanned, request.defines);
    if (!scanned.refusals.empty()) {
        CompileResult refused;
        refused.status = CompileStatus::error;
        refused.arch = request.arch;
        refused.diagnostics = scanned.refusals;
        refused.message = first_error(scanned.refusals);
        for (const CompileDiagnostic& one : scanned.refusals) {
            refused.log += to_string(one.position) + ": error: " + one.message + "\n";
        }
        refused.log = capped_log(std::move(refused.log));
        outcome.refusal = std::move(refused);
    }
    outcome.checked.request = std::move(request);
    return outcome;
}

std::vector<std::string> front_end_options(const CompileRequest& request,
                                           const std::vector<std::string>& include_folders) {
    std::vector<std::string> options = {"-arch=" + request.arch, "-lineinfo"};
    const bool standard =
        std::any_of(request.options.begin(), request.options.end(),
                    [](const std::string& o) { return o.find("-std=") != o.npos; });
    if (!standard) options.push_back("-std=c++20");
    for (const std::string& folder : include_folders) options.push_back("-I" + folder);
    for (const std::string& option : request.options) {
        if (!is_assembler_option(option)) options.push_back(option);
    }
    return options;
}

CompileResult compile_here(const CheckedRequest& checked, const NvrtcLibrary& nvrtc,
                           const std::vector<std::string>& include_folders,
                           const std::string& precompiled) {
    const auto start = Clock::now();
    std::vector<std::string> options = front_end_options(checked.request, include_folders);
    for (const std::string& option : checked.request.options) {
        if (is_assembler_option(option)) options.push_back(option);
    }
    std::vector<std::string> verbose = options;
    verbose.push_back("-Xptxas=-v");

    Run run;
    bool used = false;
    if (!precompiled.empty()) {
        std::vector<std::string> with_header = verbose;
        with_header.push_back("-use-pch=" + precompiled);
        run = run_compiler(checked, nvrtc, with_header);
        // Only this line proves that the header was taken.
        used = run.log.find("using precompiled header file") != std::string::npos;
    }
    if (!used) run = run_compiler(checked, nvrtc, verbose);

    CompileResult result;
    result.arch = checked.request.arch;
    result.compiler = nvrtc.description;
    std::string log = mapped_log(without_own_lines(run.log), checked.scanned, checked.assembled);
    result.diagnostics = diagnostics_of(checked, log, run.ptx);
    if (run.code == NVRTC_ERROR_COMPILATION && !has_error(result.diagnostics)) {
        // With -v ptxas leaves its own error out of the log for some errors (too much shared
        // memory).
        const Run plain = run_compiler(checked, nvrtc, options);
        log += mapped_log(without_own_lines(plain.log), checked.scanned, checked.assembled);
        result.diagnostics = diagnostics_of(checked, log, plain.ptx);
    }
    result.ptx = std::move(run.ptx);
    result.log = log;
    if (run.code == NVRTC_SUCCESS) {
        fill_kernels(checked, run, result);
        result.cubin = std::move(run.cubin);
    } else {
        fill_failure(checked, nvrtc, run.code, result);
    }
    result.log = capped_log(std::move(result.log));
    result.time = Clock::now() - start;
    return result;
}

bool precompile_headers(const std::string& include_block, const std::vector<std::string>& options,
                        const NvrtcLibrary& nvrtc, const std::string& path) {
    if (nvrtc.set_precompiled_heap_size == nullptr ||
        nvrtc.set_precompiled_heap_size(precompiled_heap_bytes) != NVRTC_SUCCESS) {
        return false;
    }
    Program program(nvrtc, include_block);
    std::vector<std::string> all = options;
    all.push_back("-create-pch=" + path);
    return program.compile(all) == NVRTC_SUCCESS &&
           program.log().find("creating precompiled header file") != std::string::npos;
}

}  // namespace kernelforge::compile
