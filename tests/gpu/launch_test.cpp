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

/// y = 2 x over rows of 512 float32 elements.
std::shared_ptr<Task> plane_task(std::int64_t rows) {
    auto task = std::make_shared<Task>();
    task->definition.name = "plane";
    task->definition.axes = {{"R", Axis::Kind::variable, 0, "", ""},
                             {"C", Axis::Kind::constant, 512, "", ""}};
    task->definition.inputs = {{"x", {"R", "C"}, false, DType::float32, ""}};
    task->definition.outputs = {{"y", {"R", "C"}, false, DType::float32, ""}};
    task->workloads.push_back({"w" + std::to_string(rows), {{"R", rows}}, {}});
    task->reference_cuda = R"(//@kernelforge 1
//@launch twice<<<(R), (256)>>>(x, y)
extern "C" __global__ void twice(const float* x, float* y) {
    for (int i = threadIdx.x; i < C; i += 256) y[blockIdx.x * size_t(C) + i] = 2.0f * x[blockIdx.x * size_t(C) + i];
}
)";
    return task;
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

TEST_CASE("tiles are loaded and stored through tensor maps", "[gpu]") {
    // Rows end within a tile. What is loaded lies in shared memory as the 128-byte swizzle puts it:
    // the 16-byte part c of row r is at c ^ (r % 8).
    const std::string source = R"(//@kernelforge 1
//@requires sm_90a
//@tensormap from = x dims=(C, R) strides=(4*C) box=(32, 64) swizzle=128B l2=128B
//@tensormap to = y dims=(C, R) strides=(4*C) box=(32, 64)
//@launch k<<<(C / 32, cdiv(R, 64)), (256)>>>(&from, &to)
extern "C" __global__ void k(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
    __shared__ alignas(1024) float loaded[64 * 32];
    __shared__ alignas(128) float stored[64 * 32];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned loaded_at = static_cast<unsigned>(__cvta_generic_to_shared(loaded));
    const unsigned stored_at = static_cast<unsigned>(__cvta_generic_to_shared(stored));
    const unsigned barrier_at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    const int column = blockIdx.x * 32;
    const int row = blockIdx.y * 64;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_at) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_at),
                     "r"(static_cast<unsigned>(sizeof(loaded)))
                     : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
            "[%4];" ::"r"(loaded_at),
            "l"(&from), "r"(column), "r"(row), "r"(barrier_at)
            : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (done == 0) {
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(done)
            : "r"(barrier_at)
            : "memory");
    }
    for (int i = threadIdx.x; i < 64 * 32; i += 256) {
        const int r = i / 32;
        const int part = (i % 32 / 4) ^ (r % 8);
        stored[i] = 2.0f * loaded[r * 32 + part * 4 + i % 4];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x != 0) return;
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to),
                 "r"(column), "r"(row), "r"(stored_at)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
)";
    const Evaluation evaluation = rig()->run(plane_task(1000), {source});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

TEST_CASE("a workspace that is prepared from a constant input is there for every call", "[gpu]") {
    const std::shared_ptr<Task> task = scale_task({size});
    task->constant_inputs = {"w"};
    const Evaluation evaluation = rig()->run(task, {R"(//@kernelforge 1
//@workspace quarter f32 [N]
//@prepare memset quarter 255
//@prepare shrink<<<(cdiv(N, 256)), (256)>>>(w, quarter, N:i64)
//@launch k<<<(cdiv(N, 256)), (256)>>>(x, quarter, y, N:i64)
extern "C" __global__ void shrink(const float* w, float* quarter, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) quarter[i] = 0.25f * w[i];
}
extern "C" __global__ void k(const float* x, const float* quarter, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + 4.0f * quarter[i];
}
)"});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

TEST_CASE("a dependent launch starts early and waits for what it reads", "[gpu]") {
    // The first kernel lets the second one start before it writes, and takes its time.
    is_ok(R"(//@kernelforge 1
//@requires sm_90
//@workspace t f32 [N]
//@launch first<<<(cdiv(N, 256)), (256)>>>(x, t, N:i64)
//@launch second<<<(cdiv(N, 256)), (256), pdl>>>(t, w, y, N:i64)
extern "C" __global__ void first(const float* x, float* t, long long n) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    __nanosleep(2000);
    if (i < n) t[i] = 2.0f * x[i];
}
extern "C" __global__ void second(const float* t, const float* w, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    const float add = i < n ? w[i] : 0.0f;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (i < n) y[i] = __ldcg(t + i) + add;
}
)");
}

TEST_CASE("a call ends with all of its launches, also with one that a later one overtook",
          "[gpu]") {
    // The second kernel neither waits nor takes long; what the first one writes late is compared.
    is_ok(R"(//@kernelforge 1
//@requires sm_90
//@workspace t f32 [1]
//@launch slow<<<1, (256)>>>(x, w, y, N:i64)
//@launch fast<<<1, 1, pdl>>>(t)
extern "C" __global__ void slow(const float* x, const float* w, float* y, long long n) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    for (int i = 0; i < 100; ++i) __nanosleep(10000);
    for (long long i = threadIdx.x; i < n; i += 256) y[i] = 2.0f * x[i] + w[i];
}
extern "C" __global__ void fast(float* t) { t[0] = 1.0f; }
)");
}

TEST_CASE("a cluster of sixteen blocks runs, and its residency is known", "[gpu]") {
    is_ok(R"(//@kernelforge 1
//@requires sm_90a
//@launch k<<<(16 * CLUSTERS(k)), (256), (0), cluster=(16,1,1)>>>(x, w, y, N:i64)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    __shared__ float s[256];
    cg::cluster_group cluster = cg::this_cluster();
    if (cluster.num_blocks() != 16) return;
    const int rank = cluster.block_rank();
    const int other = (rank + 5) % 16;
    const long long step = gridDim.x * 256LL;
    for (long long first = (blockIdx.x - rank) * 256LL; first < n; first += step) {
        const long long mine = first + rank * 256LL + threadIdx.x;
        const long long i = first + other * 256LL + threadIdx.x;
        s[threadIdx.x] = mine < n ? x[mine] : 0.0f;
        cluster.sync();
        const float value = cluster.map_shared_rank(s, other)[threadIdx.x];
        cluster.sync();
        if (i < n) y[i] = 2.0f * value + w[i];
    }
}
)");
}

TEST_CASE("numbers of a tensor map are checked before anything runs", "[gpu]") {
    // N is odd, so that the second row of such a plane is not aligned.
    const Evaluation evaluation = rig()->run(scale_task({size}), {R"(//@kernelforge 1
//@requires sm_90a
//@tensormap m = x dims=(8, 2) strides=(4*N) box=(8, 2)
//@launch k<<<1, 1>>>(&m, y)
extern "C" __global__ void k(const __grid_constant__ CUtensorMap m, float* y) {}
)"});
    CHECK(evaluation.status == EvaluationStatus::plan_error);
    CHECK_THAT(evaluation.message,
               ContainsSubstring("candidate.cu:3:41: tensor map 'm': stride 0"));
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
