// SPDX-License-Identifier: Apache-2.0
#include "rig.hpp"

// Everything that a plan can ask of a launch.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

constexpr std::int64_t size = 100'003;

void is_ok(const std::string& source) {
    const Evaluation evaluation = rig()->run(scale_task({size}), {source});
    INFO(source);
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

}  // namespace

TEST_CASE("100 KiB of dynamic shared memory can be had", "[gpu]") {
    is_ok(R"(//@kernelforge 1
//@launch k<<<(min(SMS * OCC(k), cdiv(N, 256))), (256), (102400)>>>(x, w, y, N:i64)
extern __shared__ float s[];
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
        s[threadIdx.x * 100] = x[i];
        y[i] = 2.0f * s[threadIdx.x * 100] + w[i];
    }
}
)");
}

TEST_CASE("48 KiB of dynamic shared memory can be had beside static shared memory", "[gpu]") {
    is_ok(R"(//@kernelforge 1
//@launch k<<<(cdiv(N, 256)), (256), (49152)>>>(x, w, y, N:i64)
extern __shared__ float s[];
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    __shared__ float t[256];
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x * 48] = x[i];
    t[threadIdx.x] = w[i];
    y[i] = 2.0f * s[threadIdx.x * 48] + t[threadIdx.x];
}
)");
}

TEST_CASE("a cluster launch reads its neighbour's shared memory", "[gpu]") {
    is_ok(R"(//@kernelforge 1
//@requires sm_90a
//@launch k<<<(cdiv(N, 512) * 2), (256), (0), cluster=(2,1,1)>>>(x, w, y, N:i64)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    __shared__ float s[256];
    cg::cluster_group cluster = cg::this_cluster();
    const int other = cluster.block_rank() ^ 1;
    const long long mine = blockIdx.x * 256LL + threadIdx.x;
    const long long i = (blockIdx.x ^ 1) * 256LL + threadIdx.x;
    s[threadIdx.x] = mine < n ? x[mine] : 0.0f;
    cluster.sync();
    const float value = cluster.map_shared_rank(s, other)[threadIdx.x];
    cluster.sync();
    if (i < n) y[i] = 2.0f * value + w[i];
}
)");
}

TEST_CASE("a cooperative launch synchronises its grid", "[gpu]") {
    is_ok(R"(//@kernelforge 1
//@workspace t f32 [N]
//@launch k<<<(SMS), (256), (0), coop>>>(x, w, t, y, N:i64)
#include <cooperative_groups.h>
extern "C" __global__ void k(const float* x, const float* w, float* t, float* y, long long n) {
    const long long first = blockIdx.x * 256LL + threadIdx.x;
    for (long long i = first; i < n; i += gridDim.x * 256LL) t[i] = 2.0f * x[i];
    cooperative_groups::this_grid().sync();
    for (long long i = first; i < n; i += gridDim.x * 256LL) y[n - 1 - i] = t[n - 1 - i] + w[n - 1 - i];
}
)");
}

TEST_CASE("a memset step clears an output before kernels add to it", "[gpu]") {
    is_ok(R"(//@kernelforge 1
//@memset y 0
//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)
//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, -N:i64)
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (n < 0 ? i < -n : i < n) atomicAdd(y + i, n < 0 ? w[i] : 2.0f * x[i]);
}
)");
}

TEST_CASE("workspaces: zero is zero at every call, selfzero must be left zero", "[gpu]") {
    const auto source = [](const std::string& init, const std::string& at_end) {
        return "//@kernelforge 1\n//@workspace c i32 [64] init=" + init +
               "\n//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, c, N:i64)\n"
               "extern \"C\" __global__ void k(const float* x, const float* w, float* y, int* c, "
               "long long n) {\n"
               "    const long long i = blockIdx.x * 256LL + threadIdx.x;\n"
               "    if (i < n) y[i] = 2.0f * x[i] + w[i];\n"
               "    __syncthreads();\n"
               "    if (threadIdx.x != 0) return;\n"
               "    // Right only when the counter started at 0.\n"
               "    const int before = atomicAdd(c, 1);\n"
               "    if (before >= gridDim.x) y[0] = 1e30f;\n"
               "    if (before == gridDim.x - 1) { " +
               at_end + " }\n}\n";
    };
    is_ok(source("zero", ""));
    is_ok(source("selfzero", "c[0] = 0;"));
    const Evaluation evaluation = rig()->run(scale_task({size}), {source("selfzero", "c[1] = 7;")});
    CHECK(evaluation.status == EvaluationStatus::wrong_result);
    CHECK_THAT(evaluation.message, ContainsSubstring("selfzero"));
}

TEST_CASE("an output in the place of an input is filled anew for every call", "[gpu]") {
    const std::shared_ptr<Task> task = scale_task({size});
    task->inplace = {{"y", "x"}};
    const Evaluation evaluation = rig()->run(task, {R"(//@kernelforge 1
//@launch k<<<(cdiv(N, 256)), (256)>>>(w, y, N:i64)
extern "C" __global__ void k(const float* w, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) y[i] = 2.0f * y[i] + w[i];
}
)"});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

TEST_CASE("collect gives launch facts and says what it lacks", "[gpu]") {
    const std::shared_ptr<Task> task = scale_task({size});
    CollectRequest request;
    request.task = task;
    request.workloads = {0};
    request.candidate = rig()->build(*task, right_scale);
    request.data.metrics = {"launch__grid_size", "dram__bytes_read.sum"};
    request.device = rig()->device().index;
    const ProfileData data = rig()->evaluator().collect(request, {});
    REQUIRE(data.launches.size() == 1);
    const LaunchProfile& profile = data.launches.begin()->second;
    CHECK(profile.metrics.at("launch__grid_size").value == (size + 255) / 256);
    CHECK(profile.metrics.at("launch__block_size").value == 256);
    CHECK(profile.metrics.at("launch__registers_per_thread").value > 0);
    REQUIRE(data.missing.size() == 1);
    CHECK(data.missing[0].what == "dram__bytes_read.sum");
}
