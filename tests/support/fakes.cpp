// SPDX-License-Identifier: Apache-2.0
#include "support/fakes.hpp"

#include <algorithm>
#include <charconv>
#include <condition_variable>

namespace kernelforge::test {
namespace {

using namespace std::chrono_literals;

/// Counts who is inside.
class Inside {
  public:
    Inside(std::atomic<int>& running, std::atomic<int>& most) : running_(running) {
        const int now = ++running_;
        int seen = most.load();
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
    }
    ~Inside() { --running_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    std::atomic<int>& running_;
};

/// Waits, unless a stop comes first. Whether the time passed.
bool take_time(std::chrono::milliseconds duration, std::stop_token stop) {
    if (duration == 0ms) return !stop.stop_requested();
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, duration, [] { return false; });
    return !stop.stop_requested();
}

/// The number after `NAME = ` in a source.
std::int64_t number_in(const std::string& source, const std::string& name, std::int64_t fallback) {
    const std::size_t at = source.find(name + " = ");
    if (at == std::string::npos) return fallback;
    std::int64_t value = fallback;
    const char* begin = source.data() + at + name.size() + 3;
    std::from_chars(begin, source.data() + source.size(), value);
    return value;
}

EvaluationStatus status_in(const std::string& source) {
    return static_cast<EvaluationStatus>(number_in(source, "fake_status", 0));
}

double seconds_of(const std::string& source, std::size_t workload, EvaluationDepth depth) {
    double ns = static_cast<double>(number_in(source, "fake_time_ns", 10'000));
    if (depth == EvaluationDepth::promotion) {
        ns *= 1.0 + 0.01 * static_cast<double>(number_in(source, "fake_slower", 0));
    }
    return ns * 1e-9 * static_cast<double>(workload + 1);
}

Timing timing_of(double seconds) {
    Timing timing;
    timing.median_s = timing.trimmed_mean_s = timing.p10_s = timing.p90_s = seconds;
    timing.samples = 20;
    timing.clock = "fake";
    return timing;
}

WorkloadResult result_of(const EvaluationRequest& request, std::size_t workload) {
    const std::string& source = request.candidate.candidate.source;
    WorkloadResult result;
    result.workload = workload;
    OutputError error;
    error.output = "y";
    error.rms_limit = 1e-5;
    error.distribution = "natural";
    if (status_in(source) == EvaluationStatus::wrong_result) {
        result.status = EvaluationStatus::wrong_result;
        error.ok = false;
        error.normalised_rms = 0.5;
        error.mismatches = 7;
        error.first_index = 17;
        error.expected = 1.5;
    }
    result.outputs.push_back(error);
    if (result.status != EvaluationStatus::ok || request.depth == EvaluationDepth::check ||
        request.depth == EvaluationDepth::sanitize) {
        return result;
    }
    const double seconds = request.command ? 8e-6 : seconds_of(source, workload, request.depth);
    result.timing = timing_of(seconds);
    if (request.opponent) {
        const double opponent =
            seconds_of(request.opponent->candidate.source, workload, EvaluationDepth::screen);
        result.opponent_timing = timing_of(opponent);
        const double ratio = opponent / seconds;
        result.paired = PairedRatio{ratio, ratio * 0.999, ratio * 1.001, 10};
    }
    return result;
}

}  // namespace

// ---- task and candidates ----

std::string fake_source(const FakeFate& fate) {
    std::string text = "//@kernelforge 1\n";
    text += fate.status == EvaluationStatus::plan_error
                ? "//@launch scale<<<(rows), (4096)>>>(x, y)\n"
                : "//@launch scale<<<(rows), (256)>>>(x, y)\n";
    text += "constexpr int fake_time_ns = " + std::to_string(fate.time_ns) + ";\n";
    text += "constexpr int fake_status = " + std::to_string(static_cast<int>(fate.status)) + ";\n";
    text += "constexpr int fake_spill = " + std::to_string(fate.spill_bytes) + ";\n";
    text += "constexpr int fake_slower = " + std::to_string(fate.slower_in_promotion) + ";\n";
    if (!fate.cubin.empty()) text += "using fake_cubin_" + fate.cubin + " = int;\n";
    text +=
        "extern \"C\" __global__ void scale(const float* x, float* y) {\n"
        "    for (int i = threadIdx.x; i < cols; i += 256) {\n"
        "        const size_t at = size_t(blockIdx.x) * cols + i;\n"
        "        y[at] = 2.0f * x[at];\n"
        "    }\n"
        "}\n";
    return text;
}

std::string fake_reply(const FakeFate& fate, std::string_view plan, std::string_view change_class) {
    return "plan: " + std::string(plan) + "\nchange-class: " + std::string(change_class) +
           "\nlesson-of-parent: it is slow\n\n```cuda\n" + fake_source(fate) + "```\n";
}

Task fake_task() {
    Task task;
    task.definition.name = "scale";
    task.definition.op_type = "elementwise";
    task.definition.axes = {{"rows", Axis::Kind::variable, 0, "", ""},
                            {"cols", Axis::Kind::constant, 1024, "", ""}};
    task.definition.inputs = {{"x", {"rows", "cols"}, false, DType::float32, ""}};
    task.definition.outputs = {{"y", {"rows", "cols"}, false, DType::float32, ""}};
    task.definition.reference = "def run(x):\n    return 2 * x\n";
    task.workloads = {{"small", {{"rows", 64}}, {}}, {"large", {{"rows", 128}}, {}}};
    task.reference_cuda = fake_source({.time_ns = 50'000});
    BaselineSpec portable;
    portable.name = "portable";
    portable.source = fake_source({.time_ns = 10'000});
    task.baselines = {portable};
    return task;
}

// ---- compiler ----

CompileResult FakeCompiler::compile(const CompileRequest& request, std::stop_token stop) {
    const Inside inside(state_->running, state_->most_running);
    ++state_->calls;
    CompileResult result;
    result.arch = request.arch;
    result.compiler = "fake";
    if (!take_time(state_->duration, stop)) {
        result.status = CompileStatus::cancelled;
        result.message = "cancelled";
        return result;
    }
    if (status_in(request.source) == EvaluationStatus::compile_error) {
        result.status = CompileStatus::error;
        result.message = "1 error";
        const auto line =
            1 + std::count(request.source.begin(),
                           request.source.begin() +
                               static_cast<std::ptrdiff_t>(request.source.find("fake_status")),
                           '\n');
        result.diagnostics.push_back({CompileDiagnostic::Severity::error,
                                      {request.file_name, static_cast<std::size_t>(line), 15},
                                      "identifier \"fake\" is undefined"});
        return result;
    }
    const std::size_t named = request.source.find("fake_cubin_");
    result.cubin = named == std::string::npos
                       ? request.source
                       : request.source.substr(named, request.source.find(' ', named) - named);
    for (const auto& [name, expression] : request.kernels) {
        KernelFacts facts;
        facts.name = name;
        facts.lowered_name = expression;
        facts.registers_per_thread = 32;
        facts.stack_bytes = 0;
        facts.static_shared_bytes = 0;
        facts.spill_store_bytes = static_cast<int>(number_in(request.source, "fake_spill", 0));
        facts.spill_load_bytes = facts.spill_store_bytes;
        facts.parameter_bytes = {8, 8};
        facts.opcode_counts = {{"ld.global", 1}, {"st.global", 1}, {"fmul", 1}, {"exit", 1}};
        result.kernels.push_back(std::move(facts));
    }
    return result;
}

// ---- evaluator ----

FakeEvaluator::State::State() {
    DeviceInfo device;
    device.name = "Fake H200";
    device.multiprocessors = 132;
    device.shared_bytes_per_multiprocessor = 233472;
    device.max_shared_bytes_per_block = 232448;
    device.reserved_shared_bytes_per_block = 1024;
    device.l2_bytes = 50 << 20;
    device.memory_bytes = 141LL << 30;
    device.roofs.read_bytes_per_s = 4.3e12;
    device.roofs.copy_bytes_per_s = 4.0e12;
    device.roofs.write_bytes_per_s = 4.2e12;
    device.roofs.fp32_flop_per_s = 60e12;
    device.roofs.empty_kernel_s = 1e-9;
    devices = {device};
    for (const char* tool : {"memcheck", "racecheck", "initcheck"}) {
        sanitizer.push_back({tool, SanitizerResult::Status::clean, ""});
    }
}

void FakeEvaluator::State::visit() {
    const std::lock_guard lock(mutex);
    released.insert(queued.begin(), queued.end());
    queued.clear();
}

int FakeEvaluator::State::screens_of_candidates() const {
    const std::lock_guard lock(mutex);
    return static_cast<int>(
        std::count_if(requests.begin(), requests.end(), [](const auto& request) {
            return request.opponent && request.depth == EvaluationDepth::screen;
        }));
}

Evaluation FakeEvaluator::evaluate(const EvaluationRequest& request, std::stop_token stop) {
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.device = "Fake H200";
    evaluation.evaluator = "fake";
    if (state_->on_evaluate) state_->on_evaluate(request);
    {
        const std::lock_guard lock(state_->mutex);
        ++state_->calls[request.id];
        if (state_->pending && !state_->released.contains(request.id)) {
            state_->queued.insert(request.id);
            evaluation.status = EvaluationStatus::pending;
            return evaluation;
        }
        state_->requests.push_back(request);
        if (state_->fail_next > 0) {
            --state_->fail_next;
            if (state_->throws) throw Error(ErrorCode::worker_failed, "worker: it died");
            evaluation.message = "the device was lost";
            return evaluation;
        }
    }
    if (!take_time(state_->duration, stop)) {
        evaluation.status = EvaluationStatus::cancelled;
        return evaluation;
    }
    const std::string& source = request.candidate.candidate.source;
    evaluation.status = request.command ? EvaluationStatus::ok : status_in(source);
    if (evaluation.status != EvaluationStatus::ok) {
        evaluation.message = std::string(to_string(evaluation.status)) + ", says the fake";
    }
    const bool ran = evaluation.status == EvaluationStatus::ok ||
                     evaluation.status == EvaluationStatus::wrong_result;
    for (const std::size_t workload : request.workloads) {
        if (ran) evaluation.workloads.push_back(result_of(request, workload));
    }
    for (std::size_t i = 0; ran && !request.command && i < request.hidden.size(); ++i) {
        HiddenResult result;
        result.hidden = i;
        evaluation.hidden.push_back(result);
    }
    if (request.depth == EvaluationDepth::sanitize) evaluation.sanitizer = state_->sanitizer;
    if (state_->edit) state_->edit(request, evaluation);
    return evaluation;
}

ProfileData FakeEvaluator::collect(const CollectRequest&, std::stop_token) {
    const std::lock_guard lock(state_->mutex);
    ++state_->collected;
    return state_->profile;
}

// ---- model ----

void FakeLlm::State::deliver() {
    const std::lock_guard lock(mutex);
    released.insert(queued.begin(), queued.end());
    queued.clear();
}

int FakeLlm::State::total_answered() const {
    const std::lock_guard lock(mutex);
    int total = 0;
    for (const auto& [key, count] : answered) total += count;
    return total;
}

int FakeLlm::State::most_answered() const {
    const std::lock_guard lock(mutex);
    int most = 0;
    for (const auto& [key, count] : answered) most = std::max(most, count);
    return most;
}

std::string FakeLlm::State::last_message(CompletionKey key) const {
    const std::lock_guard lock(mutex);
    const auto found = requests.find(key);
    return found == requests.end() ? "" : found->second.messages.back().content;
}

ChatReply FakeLlm::complete(const ChatRequest& request, std::stop_token stop) {
    const Inside inside(state_->running, state_->most_running);
    if (state_->on_complete) state_->on_complete(request);
    if (!take_time(state_->duration, stop))
        throw Error(ErrorCode::cancelled, "fake model: cancelled");
    const std::lock_guard lock(state_->mutex);
    state_->requests[request.key] = request;
    if (const auto error = state_->errors.find(request.key); error != state_->errors.end()) {
        throw Error(error->second, "fake model: no answer");
    }
    ChatReply reply;
    reply.model = "fake";
    if (state_->pending && !state_->released.contains(request.key)) {
        state_->queued.insert(request.key);
        reply.status = ChatStatus::pending;
        return reply;
    }
    reply.status = state_->status;
    reply.usage = state_->usage;
    ++state_->answered[request.key];
    const auto found = state_->replies.find(request.key);
    if (found != state_->replies.end()) {
        reply.content = found->second;
    } else if (state_->otherwise) {
        reply.content = state_->otherwise(request);
    } else {
        throw Error(ErrorCode::not_found, "fake model: no completion for this key");
    }
    return reply;
}

// ---- strategy ----

std::map<std::uint64_t, int> FakeStrategy::State::tells_by_expansion() const {
    std::map<std::uint64_t, int> counts;
    for (const NodeSummary& summary : tells) {
        if (summary.expansion) ++counts[*summary.expansion];
    }
    return counts;
}

std::vector<Expansion> FakeStrategy::ask(std::size_t max_count) {
    std::vector<Expansion> expansions;
    while (expansions.size() < max_count && state_->asked.size() < state_->most) {
        Expansion expansion;
        expansion.id = 100 + state_->asked.size();
        expansion.parent = leader_;
        expansion.directive = "directive " + std::to_string(state_->asked.size());
        if (state_->edit) state_->edit(expansion);
        state_->asked.push_back(expansion);
        expansions.push_back(std::move(expansion));
    }
    return expansions;
}

void FakeStrategy::tell(const NodeSummary& summary) {
    state_->tells.push_back(summary);
    if (summary.leader) leader_ = summary.node;
}

}  // namespace kernelforge::test
