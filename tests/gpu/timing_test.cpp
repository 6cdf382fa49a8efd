// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "builds.hpp"
#include "rig.hpp"
#include "support/support.hpp"
#include "worker/measure_watch.hpp"

// Times: plausible, honest to factors, the same for the same code. And what surrounds a timed call:
// clocks, scrubbing, the watch.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

/// About `rounds` times 3 us of arithmetic whatever the size.
std::string busy(int rounds) {
    return "//@kernelforge 1\n//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)\n"
           "extern \"C\" __global__ void k(const float* x, const float* w, float* y, long long n) "
           "{\n    const long long i = blockIdx.x * 256LL + threadIdx.x;\n"
           "    if (i >= n) return;\n    float a = x[i];\n"
           "    for (int k = 0; k < " +
           std::to_string(rounds * 1000) +
           "; ++k) a = fmaf(a, 0.999f, 1e-3f);\n"
           "    y[i] = 2.0f * x[i] + w[i] + (a == 12345.0f ? 1.0f : 0.0f);\n}\n";
}

void print(const char* what, const WorkloadResult& result) {
    if (!result.timing) return;
    std::printf("%s: median %.2f us, p10 %.2f, p90 %.2f, %d samples, %s\n", what,
                result.timing->median_s * 1e6, result.timing->p10_s * 1e6,
                result.timing->p90_s * 1e6, result.timing->samples, result.timing->clock.c_str());
    if (!result.paired) return;
    std::printf("  ratio %.4f [%.4f, %.4f], %d quads\n", result.paired->ratio, result.paired->low,
                result.paired->high, result.paired->quads);
}

/// The first device in this process, with CUPTI where it can be had; only trusted code runs on it.
struct Here {
    static worker::CuptiOutcome& cupti() {
        static worker::CuptiOutcome outcome = worker::start_cupti({});
        return outcome;
    }
    explicit Here(bool use_cupti = true)
        : driver(worker::load_driver()),
          device(*driver, worker::list_devices(*driver).at(0),
                 use_cupti ? cupti().recorder.get() : nullptr, cupti().why_not) {}

    [[nodiscard]] static worker::Clock::time_point soon() {
        return worker::Clock::now() + std::chrono::seconds(20);
    }
    void wait() { device.wait(soon()); }
    void arithmetic(std::uint32_t iterations) {
        referee::ComputeParameters parameters;
        parameters.sink = device.result_page();
        parameters.iterations = iterations;
        device.launch("kf_roof_fma", referee::fma_shape(device.info().multiprocessors),
                      &parameters);
    }

    std::unique_ptr<const worker::Driver> driver;
    worker::Device device;
};

/// Kernels that write a pattern into shared or local memory and kernels that count what of it they
/// find in memory that they have not written: `counts` is [words with the pattern, words of 0xFF].
const char* const leftovers_source = R"(
#define PATTERN 0x5EC4E7A1u
extern __shared__ unsigned all_shared[];
extern "C" __global__ void write_shared(unsigned words, unsigned* sink, unsigned zero) {
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
        ((volatile unsigned*)all_shared)[i] = PATTERN;
    __syncthreads();
    if (((volatile unsigned*)all_shared)[(threadIdx.x * 7) % words] != PATTERN) atomicAdd(sink, 1u);
}
extern "C" __global__ void read_shared(unsigned words, unsigned long long* counts, unsigned zero) {
    unsigned long long pattern = 0, ones = 0;
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
        const unsigned v = ((volatile unsigned*)all_shared)[i];
        pattern += v == PATTERN;
        ones += v == 0xFFFFFFFFu;
    }
    atomicAdd(counts, pattern);
    atomicAdd(counts + 1, ones);
}
#define LOCAL(BYTES)                                                                        \
    extern "C" __global__ void write_local_##BYTES(unsigned words, unsigned* sink, unsigned zero) { \
        volatile unsigned a[BYTES / 4];                                                     \
        for (unsigned i = 0; i < BYTES / 4; ++i) a[(i + zero) % (BYTES / 4)] = PATTERN;      \
        if (a[zero % (BYTES / 4)] != PATTERN) atomicAdd(sink, 1u);                         \
    }                                                                                       \
    extern "C" __global__ void read_local_##BYTES(unsigned words, unsigned long long* counts, unsigned zero) { \
        volatile unsigned a[BYTES / 4];                                                     \
        unsigned long long pattern = 0, ones = 0;                                           \
        for (unsigned i = 0; i < BYTES / 4; ++i) {                                          \
            const unsigned v = a[(i + words) % (BYTES / 4)];                                \
            pattern += v == PATTERN;                                                        \
            ones += v == 0xFFFFFFFFu;                                                       \
        }                                                                                   \
        atomicAdd(counts, pattern);                                                         \
        atomicAdd(counts + 1, ones);                                                        \
    }
LOCAL(64) LOCAL(256) LOCAL(320) LOCAL(640) LOCAL(1024) LOCAL(2000) LOCAL(4096) LOCAL(6000)
LOCAL(16384)
)";

class Leftovers {
  public:
    explicit Leftovers(Here& here) : here_(here) {
        const CompiledCandidate built =
            rig()->build(*scale_task({1'000}), std::string(right_scale) + leftovers_source);
        here.driver->check(here.driver->cuModuleLoadData(&module_, built.builds[0].cubin.data()),
                           "cuModuleLoadData of the test's kernels");
    }
    ~Leftovers() { here_.driver->cuModuleUnload(module_); }
    Leftovers(const Leftovers&) = delete;
    Leftovers& operator=(const Leftovers&) = delete;

    struct Counts {
        std::uint64_t pattern = 0;
        std::uint64_t ones = 0;
    };
    struct Launch {
        unsigned blocks = 1;
        unsigned threads = 1;
        unsigned shared_bytes = 0;
        int carve_out = -1;  ///< preferred, percent; -1: the driver's choice
    };
    /// What a reader finds after a writer; `between` runs between them.
    template <class F>
    Counts seen(const std::string& kind, const Launch& launch, F&& between) {
        const CUdeviceptr counts = here_.device.result_page() + worker::Device::sink_bytes;
        run("write_" + kind, launch);
        between();
        here_.driver->check(
            here_.driver->cuMemsetD8Async(counts, 0, sizeof(Counts), here_.device.stream()),
            "clearing counts");
        run("read_" + kind, launch);
        Counts found;
        here_.driver->check(
            here_.driver->cuMemcpyDtoHAsync(&found, counts, sizeof(found), here_.device.stream()),
            "reading counts");
        here_.wait();
        return found;
    }

  private:
    void run(const std::string& kernel, const Launch& launch) {
        const worker::Driver& driver = *here_.driver;
        CUfunction function = nullptr;
        driver.check(driver.cuModuleGetFunction(&function, module_, kernel.c_str()), kernel);
        driver.check(
            driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(launch.shared_bytes)),
            kernel + ": shared memory");
        driver.check(
            driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                      launch.carve_out),
            kernel + ": carve-out");
        unsigned words = launch.shared_bytes / 4;
        CUdeviceptr counts = here_.device.result_page() + worker::Device::sink_bytes;
        unsigned zero = 0;  // unknown to the compiler, which else drops arrays that it knows
        void* arguments[] = {&words, &counts, &zero};
        driver.check(
            driver.cuLaunchKernel(function, launch.blocks, 1, 1, launch.threads, 1, 1,
                                  launch.shared_bytes, here_.device.stream(), arguments, nullptr),
            kernel);
    }

    Here& here_;
    CUmodule module_ = nullptr;
};

double seconds_since(worker::Clock::time_point started) {
    return std::chrono::duration<double>(worker::Clock::now() - started).count();
}

}  // namespace

TEST_CASE("the same code against itself gives an interval around 1", "[gpu]") {
    for (const std::int64_t size : {1'000, 4'000'000}) {
        const Evaluation evaluation =
            rig()->run(scale_task({size}), {right_scale, right_scale, EvaluationDepth::promotion});
        INFO(evaluation.message);
        REQUIRE(evaluation.status == EvaluationStatus::ok);
        const WorkloadResult& result = evaluation.workloads[0];
        print("A/A", result);
        REQUIRE(result.paired);
        CHECK(result.paired->quads == 120);  // of calls under 20 us
        CHECK(result.paired->low <= 1.005);
        CHECK(result.paired->high >= 0.995);
        // A clock that ticks at 32 ns tells little about a kernel of a microsecond.
        if (size > 1'000) CHECK(result.paired->high - result.paired->low < 0.1);
    }
}

TEST_CASE("twice the work takes twice the time", "[gpu]") {
    const Evaluation evaluation =
        rig()->run(scale_task({100'000}), {busy(10), busy(20), EvaluationDepth::screen});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    print("1 : 2", evaluation.workloads[0]);
    REQUIRE(evaluation.workloads[0].paired);
    CHECK(evaluation.workloads[0].paired->ratio == Approx(2.0).epsilon(0.1));
    CHECK(evaluation.workloads[0].paired->low > 1.5);
}

TEST_CASE("a stream of bytes takes the time that its bytes need", "[gpu]") {
    const std::int64_t size = 64'000'000;
    const Evaluation evaluation = rig()->run(scale_task({size}), {right_scale});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    const WorkloadResult& result = evaluation.workloads[0];
    print("768 MB", result);
    const Roofs& roofs = rig()->device().roofs;
    REQUIRE(roofs.read_bytes_per_s);
    const double bytes = 3.0 * 4.0 * static_cast<double>(size);
    CHECK(result.timing->median_s > bytes / (*roofs.read_bytes_per_s * 1.1));
    CHECK(result.timing->median_s < 4.0 * bytes / *roofs.read_bytes_per_s);
    REQUIRE(result.launches.size() == 1);
    REQUIRE(result.launches[0].mean_s);
    CHECK(*result.launches[0].mean_s == Approx(result.timing->trimmed_mean_s).epsilon(0.01));
}

TEST_CASE("roofs are measured and ordered", "[gpu]") {
    const Roofs& roofs = rig()->device().roofs;
    REQUIRE(roofs.read_bytes_per_s);
    REQUIRE(roofs.copy_bytes_per_s);
    REQUIRE(roofs.write_bytes_per_s);
    REQUIRE(roofs.fp32_flop_per_s);
    REQUIRE(roofs.bf16_flop_per_s);
    REQUIRE(roofs.empty_kernel_s);
    std::printf("read %.3g copy %.3g write %.3g B/s, fp32 %.3g bf16 %.3g FLOP/s, empty %.2f us\n",
                *roofs.read_bytes_per_s, *roofs.copy_bytes_per_s, *roofs.write_bytes_per_s,
                *roofs.fp32_flop_per_s, *roofs.bf16_flop_per_s, *roofs.empty_kernel_s * 1e6);
    CHECK(*roofs.read_bytes_per_s > 1e11);
    CHECK(*roofs.bf16_flop_per_s > *roofs.fp32_flop_per_s);
    CHECK(*roofs.empty_kernel_s < 2e-5);
}

TEST_CASE("without CUPTI times come from events", "[gpu]") {
    const Rig events(R"({"worker_arguments": ["--no-cupti"]})");
    const std::shared_ptr<Task> task = scale_task({4'000'000});
    const Evaluation by_events = events.run(task, {right_scale});
    const Evaluation by_cupti = rig()->run(task, {right_scale});
    REQUIRE(by_events.status == EvaluationStatus::ok);
    REQUIRE(by_cupti.status == EvaluationStatus::ok);
    print("events", by_events.workloads[0]);
    print("cupti", by_cupti.workloads[0]);
    CHECK(by_events.workloads[0].timing->clock == "events");
    CHECK(by_cupti.workloads[0].timing->clock == "cupti");
    CHECK(by_events.workloads[0].timing->median_s ==
          Approx(by_cupti.workloads[0].timing->median_s).epsilon(0.25));
}

TEST_CASE("a command baseline reports its own times", "[gpu]") {
    EvaluationRequest request;
    request.id = "command";
    request.task = scale_task({10});
    request.workloads = {0};
    request.command = BaselineSpec{};
    request.command->kind = BaselineSpec::Kind::command;
    request.command->command = {"sh", "-c",
                                R"(echo '{"uuid": "w10", "median_s": 0.25, "samples": 3}')"};
    const Evaluation evaluation = rig()->evaluator().evaluate(request, {});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    CHECK(evaluation.workloads[0].timing->median_s == 0.25);
    CHECK(evaluation.workloads[0].timing->clock == "command");
    request.command->command = {"sh", "-c", "echo no torch here >&2; exit 3"};
    const Evaluation failed = rig()->evaluator().evaluate(request, {});
    CHECK(failed.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(failed.message, ContainsSubstring("no torch here"));
}

TEST_CASE("screen of an add_rmsnorm candidate with a warm worker", "[gpu][screen]") {
    auto task = std::make_shared<Task>(
        load_task((source_folder() / "examples/tasks/add_rmsnorm").string()));
    std::erase_if(task->workloads, [](const Workload& workload) {
        const std::int64_t rows = workload.axes.at("T");
        return rows != 1 && rows != 64 && rows != 8804 && rows != 14509;
    });
    REQUIRE(task->workloads.size() == 4);
    const EvaluationRequest request = rig()->request(task, {task->baselines[0].source});
    for (int i = 0; i < 4; ++i) {
        const auto started = std::chrono::steady_clock::now();
        const Evaluation evaluation = rig()->evaluator().evaluate(request, {});
        const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::ok);
        std::printf("screen %d: wall %.3f s, worker %.3f s (check %.3f, time %.3f)\n", i,
                    wall.count(), evaluation.total_time.count(), evaluation.check_time.count(),
                    evaluation.timing_time.count());
        for (const WorkloadResult& result : evaluation.workloads) print("  ", result);
        if (i > 0) CHECK(wall.count() < 1.0);
    }
}

TEST_CASE("three clocks agree on short and long kernels", "[gpu][clock]") {
    Here here;
    INFO("no CUPTI: " << here.device.no_recorder());
    REQUIRE(here.device.recorder() != nullptr);
    here.arithmetic(1);
    here.wait();
    for (const std::uint32_t iterations : {1U, 38U, 290U}) {
        worker::CallTimer timer(here.device);
        timer.begin();
        for (int i = 0; i < 20; ++i) {
            here.device.flush();
            timer.before_call();
            here.arithmetic(iterations);
            timer.after_step();
            timer.after_call();
        }
        const std::vector<worker::CallSpan> spans = timer.finish_unchecked(Here::soon());
        const Timing timing = worker::summarize_spans(spans, timer.clock());
        REQUIRE(timing.events_median_s);
        REQUIRE(timing.globaltimer_median_s);
        std::printf("%u iterations: cupti %.2f us, events %.2f, globaltimer %.2f\n", iterations,
                    timing.median_s * 1e6, *timing.events_median_s * 1e6,
                    *timing.globaltimer_median_s * 1e6);
        CHECK(worker::clocks_disagree(spans) == "");
        // Much closer than what makes a block void.
        CHECK(*timing.events_median_s == Approx(timing.median_s).margin(1.5e-6).epsilon(0.02));
        CHECK(*timing.globaltimer_median_s == Approx(timing.median_s).margin(1.5e-6).epsilon(0.02));
    }
}

TEST_CASE("the clocks' offsets are some microseconds and repeat", "[gpu][clock]") {
    worker::ClockOffsets seen[3];
    for (int i = 0; i < 3; ++i) {
        Here here(i < 2);
        seen[i] = here.device.clock_offsets();
        std::printf("offsets %s: events %.2f us, globaltimer %.2f us\n",
                    here.device.recorder() != nullptr ? "with CUPTI" : "without CUPTI",
                    seen[i].events_s * 1e6, seen[i].globaltimer_s * 1e6);
        CHECK(seen[i].events_s >= 0.0);
        CHECK(seen[i].events_s < 30e-6);
        CHECK(seen[i].globaltimer_s >= 0.0);
        CHECK(seen[i].globaltimer_s < 30e-6);
    }
    CHECK(seen[0].events_s == Approx(seen[1].events_s).margin(1e-6));
    CHECK(seen[0].globaltimer_s == Approx(seen[1].globaltimer_s).margin(1e-6));
}

TEST_CASE("a step of many records is one span, also through the runtime", "[gpu][clock]") {
    Here here;
    REQUIRE(here.device.recorder() != nullptr);
    worker::Device& device = here.device;
    const worker::MemoryPool::Lease lease = device.pool().acquire(std::size_t{32} << 20);
    const CUdeviceptr base = lease.region().base();
    constexpr std::size_t half = std::size_t{16} << 20;
    here.arithmetic(1);  // its code is loaded at the first launch
    here.wait();
    worker::CallTimer timer(device);
    timer.begin();
    device.flush();
    timer.before_call();
    here.arithmetic(20);
    here.driver->check(here.driver->cuMemsetD8Async(base, 1, half, device.stream()), "memset");
    here.driver->check(here.driver->cuMemcpyDtoDAsync(base + half, base, half, device.stream()),
                       "copy");
    here.arithmetic(20);
    timer.after_step(worker::StepKind::many);
    here.arithmetic(20);
    timer.after_step();
    timer.after_call();
    const std::vector<worker::CallSpan> spans = timer.finish_unchecked(Here::soon());
    REQUIRE(spans.size() == 1);
    REQUIRE(spans[0].step_s.size() == 2);
    std::printf("many %.2f us, one %.2f us, call %.2f us\n", spans[0].step_s[0] * 1e6,
                spans[0].step_s[1] * 1e6, spans[0].total_s * 1e6);
    CHECK(spans[0].step_s[0] > 2.0 * spans[0].step_s[1]);
    CHECK(spans[0].total_s > spans[0].step_s[0] + spans[0].step_s[1]);

    void* runtime = nullptr;
    for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so",
                             "/usr/local/cuda/lib64/libcudart.so"}) {
        if (runtime == nullptr) runtime = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (runtime == nullptr) {
        WARN("libcudart.so was not found: launches through the runtime were not tried");
        return;
    }
    const auto memset_async = reinterpret_cast<int (*)(void*, int, std::size_t, CUstream)>(
        ::dlsym(runtime, "cudaMemsetAsync"));
    REQUIRE(memset_async != nullptr);
    timer.begin();
    for (int i = 0; i < 3; ++i) {
        device.flush();
        timer.before_call();
        for (int k = 0; k < 2; ++k) {
            REQUIRE(memset_async(reinterpret_cast<void*>(base), k, half, device.stream()) == 0);
        }
        timer.after_step(worker::StepKind::many);
        timer.after_call();
    }
    const std::vector<worker::CallSpan> by_runtime = timer.finish_unchecked(Here::soon());
    REQUIRE(by_runtime.size() == 3);
    CHECK(by_runtime[2].total_s > 2.0 * half / 20e12);
}

TEST_CASE("work in a call that belongs to no step makes the block void", "[gpu][clock]") {
    Here here;
    REQUIRE(here.device.recorder() != nullptr);
    worker::CallTimer timer(here.device);
    timer.begin();
    here.device.flush();
    timer.before_call();
    here.arithmetic(1);
    timer.after_step();
    here.arithmetic(1);
    timer.after_call();
    const auto error = error_of([&] { (void)timer.finish(Here::soon()); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("2 activity records, of which 1 belong to its steps"));
}

TEST_CASE("scrubbing leaves nothing in shared memory", "[gpu][scrub]") {
    Here here;
    Leftovers leftovers(here);
    const auto multiprocessors = static_cast<unsigned>(here.device.info().multiprocessors);
    const auto most = static_cast<unsigned>(here.device.info().max_shared_bytes_per_block);
    const Leftovers::Launch launches[] = {
        {multiprocessors, 256, most, -1},
        {multiprocessors * 4, 256, 48U << 10U, -1},
        {multiprocessors * 8, 128, 1024, 0},
        {multiprocessors * 2, 256, 16U << 10U, 25},
    };
    std::uint64_t leaked = 0;
    for (const Leftovers::Launch& launch : launches) {
        const std::uint64_t words = std::uint64_t{launch.blocks} * launch.shared_bytes / 4;
        const Leftovers::Counts without = leftovers.seen("shared", launch, [] {});
        const Leftovers::Counts with =
            leftovers.seen("shared", launch, [&] { here.device.scrub(0); });
        std::printf(
            "shared %u bytes: of %llu words %llu are left, after a scrub %llu (%llu 0xFF)\n",
            launch.shared_bytes, static_cast<unsigned long long>(words),
            static_cast<unsigned long long>(without.pattern),
            static_cast<unsigned long long>(with.pattern),
            static_cast<unsigned long long>(with.ones));
        leaked += without.pattern;
        CHECK(with.pattern == 0);
        CHECK(with.ones >= words / 100 * 99);  // the memset in between may leave some of its own
    }
    CHECK(leaked > 0);  // else this test shows nothing
}

TEST_CASE("scrubbing leaves nothing in local memory", "[gpu][scrub]") {
    Here here;
    Leftovers leftovers(here);
    const auto multiprocessors = static_cast<unsigned>(here.device.info().multiprocessors);
    std::uint64_t leaked = 0;
    for (const int bytes : {16384, 64, 256, 320, 640, 1024, 2000, 4096, 6000, 16384, 64, 640}) {
        for (const Leftovers::Launch& launch :
             {Leftovers::Launch{multiprocessors * 16, 256, 0, -1}, {3, 96, 0, -1}}) {
            const std::string kind = "local_" + std::to_string(bytes);
            const std::uint64_t words = std::uint64_t{launch.blocks} * launch.threads *
                                        static_cast<std::uint64_t>(bytes) / 4;
            const Leftovers::Counts without = leftovers.seen(kind, launch, [] {});
            const Leftovers::Counts with =
                leftovers.seen(kind, launch, [&] { here.device.scrub(bytes); });
            std::printf(
                "%s, %u blocks: of %llu words %llu are left, after a scrub %llu (%llu "
                "0xFF)\n",
                kind.c_str(), launch.blocks, static_cast<unsigned long long>(words),
                static_cast<unsigned long long>(without.pattern),
                static_cast<unsigned long long>(with.pattern),
                static_cast<unsigned long long>(with.ones));
            INFO(kind << ", " << launch.blocks << " blocks");
            leaked += without.pattern;
            CHECK(with.pattern == 0);
            CHECK(with.ones >=
                  words / 100 * 99);  // the memset in between may leave some of its own
        }
    }
    CHECK(leaked > 0);  // else this test shows nothing
}

TEST_CASE("a scrub is cheap, and refuses frames that it cannot cover", "[gpu][scrub]") {
    Here here;
    const auto free_bytes = [&] {
        std::size_t free = 0;
        std::size_t total = 0;
        here.driver->check(here.driver->cuMemGetInfo(&free, &total), "cuMemGetInfo");
        return free;
    };
    for (const int bytes : {0, 256, 1024, 4096, 16384}) {
        const std::size_t before = free_bytes();
        here.device.scrub(bytes);  // the first one may enlarge the driver's pool
        here.wait();
        const std::size_t after = free_bytes();
        const auto started = worker::Clock::now();
        for (int i = 0; i < 10; ++i) here.device.scrub(bytes);
        here.wait();
        const double each = seconds_since(started) / 10;
        std::printf("scrub of %d bytes: %.1f us, pool grew by %.1f MB\n", bytes, each * 1e6,
                    (static_cast<double>(before) - static_cast<double>(after)) * 1e-6);
    }
    const auto error = error_of([&] { here.device.scrub(referee::most_local_bytes + 4); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("16388"));
}

TEST_CASE("a watch accepts quiet blocks and is cheap", "[gpu][watch]") {
    Here here;
    worker::BlockWatch watch(here.device);
    std::vector<double> seconds;
    int accepted = 0;
    constexpr int blocks = 20;
    for (int i = 0; i < blocks; ++i) {
        const auto started = worker::Clock::now();
        watch.before();
        const double before_s = seconds_since(started);
        here.arithmetic(2'000);
        here.wait();
        const auto ended = worker::Clock::now();
        const std::string reason = watch.after();
        seconds.push_back(before_s + seconds_since(ended));
        if (!reason.empty()) std::printf("rejected: %s\n", reason.c_str());
        if (reason.empty()) ++accepted;
        const DeviceState state = watch.state();
        std::printf("calibration %.2f us before, %.2f us after, reasons %#llx, others %d\n",
                    state.calibration_before_s.value_or(0) * 1e6,
                    state.calibration_after_s.value_or(0) * 1e6,
                    static_cast<unsigned long long>(state.throttle_reasons.value_or(0)),
                    state.other_processes.value_or(-1));
    }
    std::nth_element(seconds.begin(), seconds.begin() + blocks / 2, seconds.end());
    const std::optional<std::uint32_t> own = worker::own_process(here.device.company());
    std::printf(
        "watch: %.2f ms a block; this process is %d, by the driver %lld; %d of %d accepted\n",
        seconds[blocks / 2] * 1e3, static_cast<int>(::getpid()),
        own ? static_cast<long long>(*own) : -1LL, accepted, blocks);
    CHECK(accepted >= blocks - 1);
}
