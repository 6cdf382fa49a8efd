// SPDX-License-Identifier: Apache-2.0
// How often promotion errs, in one run on one GPU:
//   A/A    same code in two modules: how many decisions make a false leader;
//   power  a twin that is faster by twice the least promotable gain: how many are promoted.
//
//     benchmark_promotion [DECISIONS [TWINS [DURATIONS_US,…]]]      1000 and 200 over 2,5,50,500
//     benchmark_promotion --time TASK CANDIDATE [REPETITIONS]       seconds a promotion takes
//
// The kernel multiplies 4096 numbers and carries a chain of fused multiply-adds whose length sets
// its duration. Each decision is `promote`: two passes at most, the second in a fresh worker.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/files.hpp"
#include "builds.hpp"
#include "forge_promotion.hpp"
#include "kernelforge/registry.hpp"
#include "referee/statistics.hpp"

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);
KERNELFORGE_DECLARE_PLUGIN(evaluator_cuda);

namespace {

using namespace kernelforge;
using Clock = std::chrono::steady_clock;

/// `variant` makes texts, and so modules, that differ in nothing that runs.
std::string source_of(int chain, int variant) {
    return fmt::format(
        "// variant {}\n"
        "//@launch work<<<(16), (256)>>>(x, y, 1.0, 0.0, {})\n"
        "extern \"C\" __global__ void work(const float* x, float* y, float one, float zero,\n"
        "                                int chain) {{\n"
        "    const int i = blockIdx.x * 256 + threadIdx.x;\n"
        "    float v = x[i];\n"
        "    for (int k = 0; k < chain; ++k) v = fmaf(v, one, zero);\n"
        "    y[i] = 2.0f * v;\n"
        "}}\n",
        variant, chain);
}

std::shared_ptr<const Task> make_task() {
    Task task;
    task.definition.name = "double_chain";
    task.definition.axes = {{.name = "n", .kind = Axis::Kind::constant, .value = 4096}};
    task.definition.inputs = {{.name = "x", .shape = {"n"}, .dtype = DType::float32}};
    task.definition.outputs = {{.name = "y", .shape = {"n"}, .dtype = DType::float32}};
    task.workloads = {{.uuid = "only"}};
    task.reference_cuda = source_of(0, 0);
    task.baselines = {{.name = "portable", .source = source_of(0, 0)}};
    check_task(task);
    return std::make_shared<const Task>(std::move(task));
}

struct Rig {
    Registry registry;
    std::unique_ptr<Compiler> compiler;
    std::unique_ptr<Evaluator> evaluator;
    DeviceInfo device;

    Rig() {
        registry.add(kernelforge_plugin_compiler_nvrtc);
        registry.add(kernelforge_plugin_evaluator_cuda);
        compiler = registry.make<Compiler>("nvrtc");
        evaluator = registry.make<Evaluator>("cuda", R"({"compute_sanitizer": "/nonexistent"})");
        const std::vector<DeviceInfo> devices = evaluator->devices();
        if (devices.empty()) throw Error(ErrorCode::device_unavailable, "there is no GPU here");
        device = devices[0];
    }

    CompiledCandidate build(const Task& task, const std::string& source, const std::string& name,
                            const std::vector<std::size_t>& workloads) {
        const Built built =
            build_candidate(*compiler, task, {source, {}}, name, workloads, device, {}, {});
        if (!built.ok()) throw Error(ErrorCode::invalid_argument, name + ": " + built.message);
        return built.compiled;
    }
};

/// Upper end of the exact one-sided 95 % interval of a rate, `hits` of `n` (Clopper and
/// Pearson; for no hits 1 - 0.05^(1/n)).
double upper_rate(int hits, int n) {
    double low = static_cast<double>(hits) / n;
    double high = 1.0;
    for (int step = 0; step < 60; ++step) {
        const double p = (low + high) / 2;
        double term = std::pow(1.0 - p, n);
        double at_most = term;
        for (int k = 1; k <= hits; ++k) {
            term *= p / (1.0 - p) * (n - k + 1) / k;
            at_most += term;
        }
        (at_most > 0.05 ? low : high) = p;
    }
    return high;
}

class Decisions {
  public:
    Decisions(Rig& rig, double target_us) : rig_(rig), task_(make_task()) {
        reference_ = rig.build(*task_, task_->reference_cuda, "reference.cu", {0});
        // Duration is linear in the chain's length: two points give it.
        constexpr int probe = 20'000;
        const double none_s = seconds_of(0);
        const double per_link_s = (seconds_of(probe) - none_s) / probe;
        chain_ =
            std::max(0, static_cast<int>(std::lround((target_us * 1e-6 - none_s) / per_link_s)));
        seconds_ = seconds_of(chain_);
        leader_ = rig.build(*task_, source_of(chain_, 1), "leader.cu", {0});
        equal_ = rig.build(*task_, source_of(chain_, 2), "candidate.cu", {0});
        plant_twin(per_link_s);
    }

    void run(double target_us, int equal, int twins) {
        int leaders = 0;
        int promoted = 0;
        int unstable = 0;
        std::vector<double> ratios;
        const auto start = Clock::now();
        for (int i = 0; i < equal; ++i) {
            const Promotion promotion = decide(equal_, i);
            if (promotion.promoted) ++leaders;
            if (promotion.evaluation.status != EvaluationStatus::ok) ++unstable;
            if (const auto ratio = combined_ratio(*task_, promotion.evaluation)) {
                ratios.push_back(ratio->ratio);
            }
        }
        const double equal_s = std::chrono::duration<double>(Clock::now() - start).count();
        std::vector<double> gains;
        for (int i = 0; i < twins; ++i) {
            const Promotion promotion = decide(twin_, 100'000 + i);
            if (promotion.promoted) ++promoted;
            if (const auto ratio = combined_ratio(*task_, promotion.evaluation)) {
                gains.push_back(ratio->ratio);
            }
        }
        total_equal += equal;
        total_leaders += leaders;
        total_twins += twins;
        total_promoted += promoted;
        const auto at = [](std::vector<double>& values, double share) {
            return values.empty() ? 0.0 : referee::percentile(values, share);
        };
        std::printf("%7.0f  %7.2f  %6d  %5d  %5d  %7.4f  %7.4f  %6.3f  %6d  %5d  %7.4f  %7.4f\n",
                    target_us, seconds_ * 1e6, equal, leaders, unstable, at(ratios, 0.025),
                    at(ratios, 0.975), equal > 0 ? equal_s / equal : 0.0, twins, promoted, planted_,
                    at(gains, 0.5));
        std::fflush(stdout);
    }

    static inline int total_equal = 0;
    static inline int total_leaders = 0;
    static inline int total_twins = 0;
    static inline int total_promoted = 0;

  private:
    EvaluationRequest request_of(const CompiledCandidate& candidate) {
        EvaluationRequest request;
        request.id = "decision";
        request.task = task_;
        request.workloads = {0};
        request.candidate = candidate;
        request.reference = reference_;
        request.time_limit = std::chrono::minutes(2);
        return request;
    }

    /// Shortens the chain until the twin is faster by twice the least gain that counts (that of
    /// the faster one's duration), within a tenth of it. Near an empty kernel's duration a link's
    /// share is not linear, so that this goes by what is seen. An attempt that fits is seen again,
    /// so that the one that is kept was not chosen by its noise.
    void plant_twin(double per_link_s) {
        const double longest = 1.0 + 2.0 * referee::least_gain(seconds_);
        const double wanted = 1.0 + 2.0 * referee::least_gain(seconds_ / longest);
        const auto fits = [&](double ratio) {
            return std::abs(ratio - wanted) < 0.1 * (wanted - 1.0);
        };
        double removed_s = seconds_ * (1.0 - 1.0 / wanted);
        for (int attempt = 0; attempt < 10; ++attempt) {
            const int fewer = static_cast<int>(std::lround(removed_s / per_link_s));
            twin_ = rig_.build(*task_, source_of(std::max(0, chain_ - fewer), 3), "twin.cu", {0});
            planted_ = seen_ratio(2 * attempt);
            if (fits(planted_)) planted_ = seen_ratio(2 * attempt + 1);
            if (fits(planted_)) return;
            removed_s += (wanted - planted_) * seconds_;
        }
        std::printf("(no chain makes a twin of %.4f, the last is of %.4f)\n", wanted, planted_);
    }

    /// The median of pairings of the twin with the leader, each with modules of its own.
    double seen_ratio(int round) {
        constexpr int pairings = 25;
        std::vector<double> ratios;
        for (int i = 0; i < pairings; ++i) {
            ratios.push_back(ratio_of(twin_, 1'000'000 + round * pairings + i));
        }
        return referee::median(ratios);
    }

    double ratio_of(const CompiledCandidate& candidate, int number) {
        EvaluationRequest request = request_of(candidate);
        request.opponent = leader_;
        request.depth = EvaluationDepth::promotion;
        request.seed = static_cast<std::uint64_t>(number) * 16;
        const Evaluation evaluation = rig_.evaluator->evaluate(request, {});
        if (evaluation.status != EvaluationStatus::ok) {
            throw Error(ErrorCode::internal, "pair: " + evaluation.message);
        }
        return evaluation.workloads.at(0).paired->ratio;
    }

    double seconds_of(int chain) {
        EvaluationRequest request =
            request_of(rig_.build(*task_, source_of(chain, -1), "probe.cu", {0}));
        const Evaluation evaluation = rig_.evaluator->evaluate(request, {});
        if (evaluation.status != EvaluationStatus::ok) {
            throw Error(ErrorCode::internal, "probe: " + evaluation.message);
        }
        return evaluation.workloads.at(0).timing->trimmed_mean_s;
    }

    Promotion decide(const CompiledCandidate& candidate, int number) {
        EvaluationRequest request = request_of(candidate);
        request.opponent = leader_;
        request.seed = static_cast<std::uint64_t>(number) * 16;
        return promote(*rig_.evaluator, request, {}, {});
    }

    Rig& rig_;
    std::shared_ptr<const Task> task_;
    CompiledCandidate reference_;
    int chain_ = 0;
    CompiledCandidate leader_;
    CompiledCandidate equal_;
    CompiledCandidate twin_;
    double seconds_ = 0.0;
    double planted_ = 0.0;
};

int run_decisions(int decisions, int twins, const std::vector<double>& durations_us) {
    Rig rig;
    std::printf("%s\n", rig.device.name.c_str());
    std::printf("%7s  %7s  %6s  %5s  %5s  %7s  %7s  %6s  %6s  %5s  %7s  %7s\n", "us", "is", "A/A",
                "false", "unst", "p2.5", "p97.5", "s each", "twins", "prom", "planted", "found");
    const auto count = static_cast<int>(durations_us.size());
    for (const double us : durations_us) {
        Decisions(rig, us).run(us, decisions / count, twins / count);
    }
    if (Decisions::total_equal > 0) {
        std::printf("false leaders: %d of %d (95 %% bound %.3f %%)\n", Decisions::total_leaders,
                    Decisions::total_equal,
                    100.0 * upper_rate(Decisions::total_leaders, Decisions::total_equal));
    }
    if (Decisions::total_twins > 0) {
        std::printf("power: %d of %d (%.1f %%)\n", Decisions::total_promoted,
                    Decisions::total_twins,
                    100.0 * Decisions::total_promoted / Decisions::total_twins);
    }
    return 0;
}

/// Seconds of one promotion pass over all workloads of a task, against its portable baseline.
int time_promotions(const std::string& folder, const std::string& file_text, int repetitions) {
    Rig rig;
    const auto task = std::make_shared<const Task>(load_task(folder));
    std::vector<std::size_t> workloads(task->workloads.size());
    for (std::size_t i = 0; i < workloads.size(); ++i) workloads[i] = i;
    EvaluationRequest request;
    request.id = "timed";
    request.task = task;
    request.workloads = workloads;
    request.reference = rig.build(*task, task->reference_cuda, "reference.cu", workloads);
    request.candidate = rig.build(*task, file_text, "candidate.cu", workloads);
    request.opponent = request.candidate;
    request.depth = EvaluationDepth::promotion;
    request.time_limit = std::chrono::minutes(5);
    std::vector<double> seconds;
    for (int i = 0; i < repetitions + 1; ++i) {
        request.seed = static_cast<std::uint64_t>(i);
        const auto start = Clock::now();
        const Evaluation evaluation = rig.evaluator->evaluate(request, {});
        if (evaluation.status != EvaluationStatus::ok) {
            std::fprintf(stderr, "benchmark_promotion: %s\n", evaluation.message.c_str());
            return 1;
        }
        if (i > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::printf("%s: promotion pass over %zu workloads: median %.2f s (%.2f to %.2f, n %zu)\n",
                task->definition.name.c_str(), workloads.size(), referee::median(seconds),
                referee::percentile(seconds, 0.0), referee::percentile(seconds, 1.0),
                seconds.size());
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() >= 3 && words[0] == "--time") {
        return time_promotions(words[1], read_file(words[2]),
                               words.size() > 3 ? std::max(1, std::atoi(words[3].c_str())) : 5);
    }
    std::vector<double> durations;
    std::stringstream list(words.size() > 2 ? words[2] : "2,5,50,500");
    for (std::string each; std::getline(list, each, ',');) {
        durations.push_back(std::max(1.0, std::atof(each.c_str())));
    }
    return run_decisions(!words.empty() ? std::max(0, std::atoi(words[0].c_str())) : 1000,
                         words.size() > 1 ? std::max(0, std::atoi(words[1].c_str())) : 200,
                         durations);
} catch (const std::exception& error) {
    std::fprintf(stderr, "benchmark_promotion: %s\n", error.what());
    return 2;
}
