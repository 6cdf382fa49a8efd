// SPDX-License-Identifier: Apache-2.0
#include "nvrtc_compiler.hpp"

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "base/worker_path.hpp"
#include "kernelforge/error.hpp"
#include "result_cache.hpp"
#include "worker/compile_job.hpp"
#include "worker/compile_toolkit.hpp"
#include "worker_session.hpp"

namespace kernelforge {
namespace {

namespace fs = std::filesystem;

/// Changes whenever what this code hands to NVRTC, or reads from its answer, changes.
constexpr std::string_view cache_version = "compile 1";

class NvrtcCompiler final : public Compiler {
  public:
    NvrtcCompiler(compile::CompilerOptions options, const PluginContext& context)
        : log_(context.log),
          worker_(find_worker(context.worker_path)),
          toolkit_(compile::find_toolkit(options)),
          identity_(compile::library_identity(toolkit_.library)),
          headers_(toolkit_.include_folders),
          cache_(context.cache_folder.empty() ? fs::path()
                                              : fs::path(context.cache_folder) / "compile"),
          settings_(dump_json(Json{{"library", toolkit_.library},
                                   {"include_folders", toolkit_.include_folders},
                                   {"root_names", toolkit_.root_names},
                                   {"precompiled_headers", options.precompiled_headers},
                                   {"parallel", options.parallel}})) {}

    CompileResult compile(const CompileRequest& request, std::stop_token stop) override {
        compile::CheckOutcome outcome = compile::check_request(request, toolkit_.root_names);
        if (outcome.refusal) return std::move(*outcome.refusal);
        std::string key;
        if (cache_.enabled()) {
            key = key_of(outcome.checked);
            if (auto found = cache_.find(key)) return std::move(*found);
        }
        CompileResult result = compile_in_worker(outcome.checked, stop);
        if (!key.empty()) store(key, result);
        return result;
    }

  private:
    [[nodiscard]] std::string key_of(const compile::CheckedRequest& checked) {
        Sha256 hash;
        hash.field(cache_version);
        hash.field(identity_);
        hash.field(headers_.fingerprint(checked.scanned.includes));
        hash.field(checked.request.source);
        hash.field(checked.assembled.text);
        hash.field(checked.request.arch);
        for (const std::string& option : checked.request.options) hash.field(option);
        hash.field("kernels");
        for (const auto& [name, expression] : checked.request.kernels) {
            hash.field(name);
            hash.field(expression);
        }
        return hash.hex();
    }

    void store(const std::string& key, const CompileResult& result) const {
        try {
            cache_.store(key, result);
        } catch (const Error& error) {
            // The result is good all the same.
            if (log_) log_(LogLevel::warning, std::string("compile cache: ") + error.what());
        }
    }

    /// A worker that ends under a request gets one successor: the request may not have been the
    /// cause.
    CompileResult compile_in_worker(const compile::CheckedRequest& checked, std::stop_token stop) {
        std::vector<std::string> leading;
        for (const auto& include : checked.scanned.leading) leading.push_back(include.name);
        const std::string headers = leading.empty() ? "" : headers_.fingerprint(leading);
        std::string cause;
        for (int attempt = 0; attempt < 2; ++attempt) {
            const auto session = current_session();
            if (auto result = session->compile(checked.request, headers, stop))
                return std::move(*result);
            cause = session->obituary();
            if (log_) log_(LogLevel::warning, cause);
        }
        throw Error(ErrorCode::worker_failed, cause);
    }

    std::shared_ptr<compile::WorkerSession> current_session() {
        const std::lock_guard lock(mutex_);
        if (!session_ || session_->dead()) {
            session_ = std::make_shared<compile::WorkerSession>(worker_, settings_);
        }
        return session_;
    }

    LogSink log_;
    std::string worker_;
    compile::Toolkit toolkit_;
    std::string identity_;
    compile::HeaderIndex headers_;
    compile::ResultCache cache_;
    std::string settings_;
    std::mutex mutex_;  // guards session_
    /// Shared with the calls that are in it, so that a dead one goes when the last has left.
    std::shared_ptr<compile::WorkerSession> session_;
};

}  // namespace

std::unique_ptr<Compiler> make_nvrtc_compiler(std::string_view options,
                                              const PluginContext& context) {
    return std::make_unique<NvrtcCompiler>(compile::read_compiler_options(options), context);
}

}  // namespace kernelforge
