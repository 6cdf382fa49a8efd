// SPDX-License-Identifier: Apache-2.0
// How fast the emulated device executes, and what memory it takes:
//   speed   thread instructions a second of processor time, on one host thread, of kernels of
//           several sorts; without and with the checker, one after the other in every repetition;
//   memory  peak resident memory of a process that runs one launch, against its buffers.
//
//     benchmark_emulator [REPETITIONS [CASE]]      9 of every case; CASE is a part of names
//
// Instructions are those that the machine counts: one a lane that executes a PTX instruction. Time
// is what the process's threads spent on processors, so that other programs disturb it little; with
// the checker it includes the checker's beginning and end. Build in Release.
#include <fmt/format.h>
#include <nvrtc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "emulator/driver.hpp"
#include "kernelforge/error.hpp"
#include "referee/statistics.hpp"
#include "worker/compile_toolkit.hpp"
#include "worker/nvrtc_library.hpp"

namespace {

using namespace kernelforge;
using emulator::EmulatedDevice;

/// Every kernel is `work`, with the buffers as its arguments, in order, and then `count`.
struct Case {
    const char* name;
    const char* source;
    unsigned blocks_x, blocks_y, threads;
    unsigned count;
    std::vector<std::size_t> buffers;    ///< bytes; the last is written, the others are read
    double least_off = 0, least_on = 0;  ///< required, instructions a second; 0: nothing is
};

constexpr const char* stream_scalar = R"(
extern "C" __global__ void work(const float* x, const float* y, float* z, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        z[i] = 2.0f * x[i] + y[i];
    }
})";

constexpr const char* stream_vector = R"(
extern "C" __global__ void work(const float4* x, const float4* y, float4* z, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float4 a = x[i], b = y[i];
        z[i] = make_float4(2.0f * a.x + b.x, 2.0f * a.y + b.y, 2.0f * a.z + b.z, 2.0f * a.w + b.w);
    }
})";

/// 64 x 64 a block in steps of 16, 4 x 4 a thread.
constexpr const char* gemm_shared = R"(
extern "C" __global__ void work(const float* a, const float* b, float* c, int n) {
    __shared__ float left[16][64], right[16][64];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int i = threadIdx.x; i < 1024; i += 256) {
            left[i % 16][i / 16] = a[(row + i / 16) * n + k + i % 16];
            right[i / 64][i % 64] = b[(k + i / 64) * n + column + i % 64];
        }
        __syncthreads();
        for (int j = 0; j < 16; ++j) {
            float u[4], v[4];
            for (int i = 0; i < 4; ++i) u[i] = left[j][ty * 4 + i];
            for (int i = 0; i < 4; ++i) v[i] = right[j][tx + 16 * i];
            for (int i = 0; i < 4; ++i)
                for (int l = 0; l < 4; ++l) sum[i][l] += u[i] * v[l];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int l = 0; l < 4; ++l) c[(row + ty * 4 + i) * n + column + tx + 16 * l] = sum[i][l];
})";

/// f16, 64 x 64 a block of four warps, two stages of 32 by cp.async. `b` is column-major.
constexpr const char* gemm_tensor = R"(
#include <cuda_fp16.h>
__device__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address(to)), "l"(from) : "memory");
}
extern "C" __global__ void work(const __half* a, const __half* b, float* c, int n) {
    __shared__ __align__(128) __half left[2][64][40], right[2][64][40];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    const auto fetch = [&](int stage, int k) {
        for (int i = threadIdx.x; i < 256; i += 128) {
            copy(&left[stage][i / 4][i % 4 * 8], a + (row + i / 4) * n + k + i % 4 * 8);
            copy(&right[stage][i / 4][i % 4 * 8], b + (column + i / 4) * n + k + i % 4 * 8);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sum[8][4] = {};
    fetch(0, 0);
    for (int k = 0; k < n; k += 32) {
        const int stage = k / 32 % 2;
        if (k + 32 < n) {
            fetch(1 - stage, k + 32);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        for (int s = 0; s < 32; s += 16) {
            unsigned u[4], v[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                : "=r"(u[0]), "=r"(u[1]), "=r"(u[2]), "=r"(u[3])
                : "r"(address(&left[stage][warp * 16 + lane % 16][s + lane / 16 * 8])) : "memory");
            for (int t = 0; t < 8; t += 2) {
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                    : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                    : "r"(address(&right[stage][t * 8 + lane / 16 * 8 + lane % 8][s + lane / 8 % 2 * 8]))
                    : "memory");
                for (int h = 0; h < 2; ++h) {
                    float* d = sum[t + h];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                        : "r"(u[0]), "r"(u[1]), "r"(u[2]), "r"(u[3]), "r"(v[2 * h]), "r"(v[2 * h + 1]));
                }
            }
        }
        __syncthreads();
    }
    for (int t = 0; t < 8; ++t) {
        float* to = c + (row + warp * 16 + lane / 4) * n + column + t * 8 + lane % 4 * 2;
        to[0] = sum[t][0];
        to[1] = sum[t][1];
        to[8 * n] = sum[t][2];
        to[8 * n + 1] = sum[t][3];
    }
})";

/// Lengths of Collatz's sequences: every lane leaves its loop at another time.
constexpr const char* divergent = R"(
extern "C" __global__ void work(const unsigned* x, unsigned* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned value = x[i] + i + 1, steps = 0;
    while (value != 1) {
        if (value % 2 == 0) {
            value /= 2;
        } else {
            value = 3 * value + 1;
        }
        ++steps;
    }
    y[i] = steps;
})";

/// The sum of a row of 1024 by a block of 256.
constexpr const char* shuffle = R"(
extern "C" __global__ void work(const float* x, float* y, int n) {
    __shared__ float sums[8];
    for (int row = blockIdx.x; row < n; row += gridDim.x) {
        float sum = 0;
        for (int i = threadIdx.x; i < 1024; i += 256) sum += x[row * 1024 + i];
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = threadIdx.x < 8 ? sums[threadIdx.x] : 0;
        if (threadIdx.x < 32) {
            for (int d = 4; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
            if (threadIdx.x == 0) y[row] = sum;
        }
        __syncthreads();
    }
})";

constexpr const char* halves = R"(
#include <cuda_fp16.h>
extern "C" __global__ void work(const __half2* x, __half2* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half2 step = x[i];
    __half2 a = step, b = step;
    for (int k = 0; k < n; ++k) {
        a = __hfma2(a, step, b);
        b = __hadd2(__hmul2(b, step), a);
        a = __hmax2(a, step);
    }
    y[i] = __hadd2(a, b);
})";

constexpr const char* special = R"(
extern "C" __global__ void work(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = x[i] + 1.0f;
    for (int k = 0; k < n; ++k) value += __expf(-value) + __logf(value) + __sinf(value) + rsqrtf(value);
    y[i] = value;
})";

/// 256 bins in shared memory, added to those in global memory.
constexpr const char* histogram = R"(
extern "C" __global__ void work(const unsigned* x, unsigned* bins, int n) {
    __shared__ unsigned counts[256];
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        atomicAdd(&counts[(x[i] + i * 2654435761u) >> 24], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
})";

std::vector<Case> speed_cases() {
    constexpr std::size_t mib = 1 << 20;
    constexpr double m = 1e6;
    return {
        {"f32 streaming, scalar",
         stream_scalar,
         264,
         1,
         256,
         2 * mib,
         {8 * mib, 8 * mib, 8 * mib},
         300 * m,
         80 * m},
        {"f32 streaming, float4",
         stream_vector,
         264,
         1,
         256,
         1 * mib,
         {16 * mib, 16 * mib, 16 * mib},
         300 * m,
         80 * m},
        {"GEMM, shared memory, f32",
         gemm_shared,
         4,
         4,
         256,
         256,
         {mib / 4, mib / 4, mib / 4},
         150 * m,
         50 * m},
        {"GEMM, mma.sync, f16", gemm_tensor, 8, 8, 128, 512, {mib / 2, mib / 2, mib}},
        {"divergent loop", divergent, 64, 1, 256, 16384, {mib / 16, mib / 16}},
        {"row sums by shuffles", shuffle, 264, 1, 256, 4096, {16 * mib, 16384}},
        {"f16x2 arithmetic", halves, 64, 1, 256, 100, {mib / 16, mib / 16}},
        {"exp, log, sin, rsqrt", special, 64, 1, 256, 50, {mib / 16, mib / 16}},
        {"histogram by atomics", histogram, 264, 1, 256, 2 * mib, {8 * mib, 1024}},
    };
}

/// What a task's launch looks like to memory: large tensors read and written once, and one of
/// which every byte is read many times.
std::vector<Case> memory_cases() {
    constexpr std::size_t mib = 1 << 20;
    return {
        {"f32 streaming, scalar",
         stream_scalar,
         264,
         1,
         256,
         16 * mib,
         {64 * mib, 64 * mib, 64 * mib}},
        {"f32 streaming, float4",
         stream_vector,
         264,
         1,
         256,
         4 * mib,
         {64 * mib, 64 * mib, 64 * mib}},
        {"row sums by shuffles", shuffle, 264, 1, 256, 32768, {128 * mib, 131072}},
        {"GEMM, shared memory, f32", gemm_shared, 4, 4, 256, 256, {mib / 4, mib / 4, mib / 4}},
    };
}

void check(nvrtcResult result, const std::string& what) {
    if (result != NVRTC_SUCCESS) throw Error(ErrorCode::parse, what);
}

std::string compile_ptx(const Case& one) {
    const compile::Toolkit toolkit = compile::find_toolkit({});
    const compile::NvrtcLibrary library{toolkit.library};
    std::vector<std::string> words{"-arch=compute_90a", "-std=c++17", "-lineinfo"};
    for (const std::string& folder : toolkit.include_folders) words.push_back("-I" + folder);
    std::vector<const char*> options;
    for (const std::string& word : words) options.push_back(word.c_str());
    nvrtcProgram program = nullptr;
    check(library.create_program(&program, one.source, "work.cu", 0, nullptr, nullptr), one.name);
    const nvrtcResult result =
        library.compile_program(program, static_cast<int>(options.size()), options.data());
    std::size_t bytes = 0;
    std::string text;
    if (result == NVRTC_SUCCESS) {
        check(library.ptx_size(program, &bytes), one.name);
        text.resize(bytes);
        check(library.ptx(program, text.data()), one.name);
    } else {
        check(library.log_size(program, &bytes), one.name);
        text.resize(bytes);
        check(library.log(program, text.data()), one.name);
    }
    check(library.destroy_program(&program), one.name);
    check(result, std::string(one.name) + ": " + text);
    return text;
}

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

enum class Checked { no, yes };

/// A device with one kernel and its buffers.
class Bench {
  public:
    Bench(const Case& one, const std::string& ptx) : case_(one), device_({.threads = 1}) {
        check(driver_.cuModuleLoadData(&module_, ptx.c_str()), "cuModuleLoadData");
        check(driver_.cuModuleGetFunction(&function_, module_, "work"), "cuModuleGetFunction");
        for (const std::size_t bytes : one.buffers) {
            CUdeviceptr address = 0;
            check(driver_.cuMemAlloc(&address, bytes), "cuMemAlloc");
            check(driver_.cuMemsetD8Async(address, 0, bytes, nullptr), "cuMemsetD8Async");
            addresses_.push_back(address);
        }
    }

    struct Measured {
        std::uint64_t instructions = 0;
        double seconds = 0;
        [[nodiscard]] double rate() const { return static_cast<double>(instructions) / seconds; }
    };
    Measured run(Checked checked) {
        std::vector<emulator::View> views;
        for (std::size_t i = 0; i < addresses_.size(); ++i) {
            views.push_back({addresses_[i], case_.buffers[i], fmt::format("buffer {}", i),
                             i + 1 == addresses_.size(), true});
        }
        std::vector<std::uint64_t> values(addresses_.begin(), addresses_.end());
        values.push_back(case_.count);
        std::vector<void*> parameters;
        for (std::uint64_t& value : values) parameters.push_back(&value);
        const std::uint64_t before = device_.thread_instructions();
        const double began = processor_seconds();
        if (checked == Checked::yes) device_.begin_checked(std::move(views));
        check(driver_.cuLaunchKernel(function_, case_.blocks_x, case_.blocks_y, 1, case_.threads, 1,
                                     1, 0, nullptr, parameters.data(), nullptr),
              "cuLaunchKernel");
        if (checked == Checked::yes) device_.end_checked();
        return {device_.thread_instructions() - before, processor_seconds() - began};
    }

  private:
    void check(CUresult result, const std::string& what) {
        if (result == CUDA_SUCCESS) return;
        const auto report = device_.take_report();
        throw Error(ErrorCode::unsupported,
                    fmt::format("{}: {}: {} {}", case_.name, what,
                                report ? report->message : driver_.describe(result),
                                device_.take_refusal()));
    }

    const Case& case_;
    EmulatedDevice device_;
    const worker::Driver& driver_ = device_.driver();
    CUmodule module_ = nullptr;
    CUfunction function_ = nullptr;
    std::vector<CUdeviceptr> addresses_;
};

/// "412 [398, 431]": median, and where nine of ten values lie, in units of `unit`.
std::string interval(const std::vector<double>& values, double unit, int digits) {
    return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", referee::median(values) / unit, digits,
                       referee::percentile(values, 0.05) / unit, digits,
                       referee::percentile(values, 0.95) / unit, digits);
}

std::string verdict(const std::vector<double>& rates, double least) {
    if (least == 0) return "-";
    return fmt::format("{:.0f} {}", least / 1e6,
                       referee::median(rates) >= least ? "met" : "MISSED");
}

void measure_speed(const Case& one, int repetitions) {
    Bench bench(one, compile_ptx(one));
    const std::uint64_t instructions = bench.run(Checked::no).instructions;
    (void)bench.run(Checked::yes);
    std::vector<double> off, on, ratios;
    for (int i = 0; i < repetitions; ++i) {
        off.push_back(bench.run(Checked::no).rate());
        on.push_back(bench.run(Checked::yes).rate());
        ratios.push_back(off.back() / on.back());
    }
    fmt::print("| {} | {:.1f} | {} | {} | {} | {} | {} |\n", one.name,
               static_cast<double>(instructions) / 1e6, interval(off, 1e6, 0),
               verdict(off, one.least_off), interval(on, 1e6, 0), verdict(on, one.least_on),
               interval(ratios, 1.0, 2));
    std::fflush(stdout);
}

/// "VmHWM" of this process, bytes.
double peak_resident() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) return 1024.0 * std::strtod(line.c_str() + 6, nullptr);
    }
    throw Error(ErrorCode::io, "/proc/self/status names no VmHWM");
}

/// Of a process of its own that does nothing but one launch of PTX that is ready.
double peak_of_launch(const Case& one, const std::string& ptx, Checked checked) {
    int ends[2];
    if (pipe(ends) != 0) throw Error(ErrorCode::io, "pipe");
    const pid_t child = fork();
    if (child < 0) throw Error(ErrorCode::io, "fork");
    if (child == 0) {
        double peak = 0;
        try {
            Bench bench(one, ptx);
            (void)bench.run(checked);
            peak = peak_resident();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
        }
        const bool written = write(ends[1], &peak, sizeof peak) == sizeof peak;
        _exit(written ? 0 : 1);
    }
    close(ends[1]);
    double peak = 0;
    const bool complete = read(ends[0], &peak, sizeof peak) == sizeof peak;
    close(ends[0]);
    waitpid(child, nullptr, 0);
    if (!complete || peak == 0) throw Error(ErrorCode::io, fmt::format("{}: no figure", one.name));
    return peak;
}

void measure_memory(const Case& one) {
    const std::string ptx = compile_ptx(one);
    std::size_t buffers = 0;
    for (const std::size_t bytes : one.buffers) buffers += bytes;
    std::string row = fmt::format("| {} | {:.1f} |", one.name, static_cast<double>(buffers) / 1e6);
    for (const auto& [checked, times] : {std::pair{Checked::no, 3.0}, {Checked::yes, 8.0}}) {
        const double peak = peak_of_launch(one, ptx, checked);
        const double most = times * static_cast<double>(buffers) + 200e6;
        row += fmt::format(" {:.0f} | {:.0f} {} |", peak / 1e6, most / 1e6,
                           peak <= most ? "met" : "MISSED");
    }
    fmt::print("{}\n", row);
    std::fflush(stdout);
}

bool wanted(const Case& one, int argc, char** argv) {
    return argc < 3 || std::string(one.name).find(argv[2]) != std::string::npos;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const int repetitions = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 9;
        // First: a forked process begins with what this one has in memory.
        fmt::print(
            "| memory, MB | buffers | peak, unchecked | most: 3 x buffers + 200 | peak, checked | "
            "most: 8 x buffers + 200 |\n|---|---|---|---|---|---|\n");
        for (const Case& one : memory_cases()) {
            if (wanted(one, argc, argv)) measure_memory(one);
        }
        fmt::print(
            "\n| speed, one host thread, {} repetitions, median [p5, p95] | M instructions | "
            "unchecked, M/s | at least | checked, M/s | at least | unchecked / checked |\n"
            "|---|---|---|---|---|---|---|\n",
            repetitions);
        for (const Case& one : speed_cases()) {
            if (wanted(one, argc, argv)) measure_speed(one, repetitions);
        }
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
