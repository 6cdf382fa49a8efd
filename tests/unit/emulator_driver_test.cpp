// SPDX-License-Identifier: Apache-2.0
#include "emulator/driver.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/support.hpp"
#include "worker/measure_device.hpp"
#include "worker/measure_evaluate.hpp"
#include "worker/measure_memory.hpp"

namespace {

using namespace kernelforge;
using emulator::EmulatedDevice;
using worker::Driver;

/// y[i] = table[0] + i for i below n, one thread each; `table` lies in the module.
constexpr const char* ptx = R"(.version 8.0
.target sm_90
.address_size 64

.visible .global .align 4 .u32 table[2] = {7, 9};
.visible .const .align 4 .u32 fixed = 3;

.visible .entry fill(
    .param .u64 fill_param_0,
    .param .u32 fill_param_1
)
.maxntid 128, 1, 1
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [fill_param_0];
    ld.param.u32 %r1, [fill_param_1];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    ld.global.u32 %r6, [table];
    add.s32 %r7, %r6, %r5;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r7;
DONE:
    ret;
}

.visible .entry stop()
{
    trap;
}
)";

/// One device a case, as one process has at most one.
struct World {
    EmulatedDevice device{{.threads = 1}};
    const Driver& driver = device.driver();
    CUmodule module = nullptr;

    void load() { REQUIRE(driver.cuModuleLoadData(&module, ptx) == CUDA_SUCCESS); }
    CUfunction function(const char* name) {
        CUfunction found = nullptr;
        REQUIRE(driver.cuModuleGetFunction(&found, module, name) == CUDA_SUCCESS);
        return found;
    }
    CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr address = 0;
        REQUIRE(driver.cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
        return address;
    }
    CUresult fill(CUdeviceptr to, unsigned count, unsigned blocks, unsigned threads,
                  unsigned shared = 0) {
        std::array<void*, 2> parameters{&to, &count};
        return driver.cuLaunchKernel(function("fill"), blocks, 1, 1, threads, 1, 1, shared, nullptr,
                                     parameters.data(), nullptr);
    }
};

}  // namespace

TEST_CASE("the emulated driver lists one device with an H200's limits", "[emulator_driver]") {
    World world;
    const std::vector<DeviceInfo> devices = worker::list_devices(world.driver);
    REQUIRE(devices.size() == 1);
    const DeviceInfo own = world.device.info();
    CHECK(own.emulated);
    CHECK(own.wants_ptx);
    CHECK(devices[0].name == own.name);
    CHECK(devices[0].arch == own.arch);
    CHECK(devices[0].multiprocessors == 132);
    CHECK(devices[0].max_shared_bytes_per_block == 232448);
    CHECK(devices[0].l2_bytes == own.l2_bytes);
    CHECK(devices[0].memory_bytes == own.memory_bytes);
    CHECK(devices[0].registers_per_multiprocessor == own.registers_per_multiprocessor);
    CHECK(devices[0].shared_bytes_per_multiprocessor == own.shared_bytes_per_multiprocessor);
    CHECK(devices[0].driver_version == 13000);
}

TEST_CASE("there is at most one emulated device in a process", "[emulator_driver]") {
    World world;
    CHECK(test::error_of([] { const EmulatedDevice second({}); }).has_value());
}

TEST_CASE("errors have CUDA's names and texts", "[emulator_driver]") {
    World world;
    CHECK(world.driver.describe(CUDA_ERROR_ILLEGAL_ADDRESS) ==
          "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered");
}

TEST_CASE("copies and memsets keep within an allocation", "[emulator_driver]") {
    World world;
    const CUdeviceptr memory = world.allocate(1024);
    CHECK(world.driver.cuMemsetD8Async(memory, 0x5A, 1024, nullptr) == CUDA_SUCCESS);
    CHECK(world.driver.cuMemsetD8Async(memory + 512, 0, 1024, nullptr) == CUDA_ERROR_INVALID_VALUE);
    std::array<unsigned char, 4> bytes{1, 2, 3, 4};
    CHECK(world.driver.cuMemcpyHtoDAsync(memory + 8, bytes.data(), 4, nullptr) == CUDA_SUCCESS);
    CHECK(world.driver.cuMemcpyDtoDAsync(memory + 100, memory + 8, 4, nullptr) == CUDA_SUCCESS);
    std::array<unsigned char, 5> back{};
    CHECK(world.driver.cuMemcpyDtoHAsync(back.data(), memory + 100, 5, nullptr) == CUDA_SUCCESS);
    CHECK(back == std::array<unsigned char, 5>{1, 2, 3, 4, 0x5A});
    CHECK(world.driver.cuMemcpyDtoHAsync(back.data(), 0x1000, 1, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(world.driver.cuMemFree(memory) == CUDA_SUCCESS);
    CHECK(world.driver.cuMemFree(memory) == CUDA_ERROR_INVALID_VALUE);
    CHECK(world.driver.cuMemsetD8Async(memory, 0, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("more memory than the device has is refused", "[emulator_driver]") {
    World world;
    CUdeviceptr address = 0;
    const auto all = static_cast<std::size_t>(world.device.info().memory_bytes);
    CHECK(world.driver.cuMemAlloc(&address, all + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    world.allocate(4096);
    CHECK(world.driver.cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
    CHECK(total == all);
    CHECK(free_bytes == all - 4096);
}

TEST_CASE("a region is seen through its read-only mapping and not written", "[emulator_driver]") {
    World world;
    worker::Region region(world.driver, 0, 1000);
    const CUdeviceptr alias = region.read_only_base();
    CHECK(alias != region.base());
    CHECK(world.driver.cuMemsetD8Async(region.base(), 0x11, 1000, nullptr) == CUDA_SUCCESS);
    unsigned char byte = 0;
    CHECK(world.driver.cuMemcpyDtoHAsync(&byte, alias + 999, 1, nullptr) == CUDA_SUCCESS);
    CHECK(byte == 0x11);
    CHECK(world.driver.cuMemsetD8Async(alias, 0, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(world.driver.cuMemsetD8Async(region.base() - 1, 0, 1, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("events tell host time", "[emulator_driver]") {
    World world;
    CUevent first = nullptr;
    CUevent last = nullptr;
    REQUIRE(world.driver.cuEventCreate(&first, 0) == CUDA_SUCCESS);
    REQUIRE(world.driver.cuEventCreate(&last, 0) == CUDA_SUCCESS);
    float milliseconds = -1.0F;
    CHECK(world.driver.event_elapsed_time(&milliseconds, first, last) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(world.driver.cuEventRecord(first, nullptr) == CUDA_SUCCESS);
    CHECK(world.driver.cuEventRecord(last, nullptr) == CUDA_SUCCESS);
    CHECK(world.driver.event_elapsed_time(&milliseconds, first, last) == CUDA_SUCCESS);
    CHECK(milliseconds >= 0.0F);
    CHECK(world.driver.cuEventDestroy(first) == CUDA_SUCCESS);
}

TEST_CASE("a module's kernel runs with its variables and parameters", "[emulator_driver]") {
    World world;
    world.load();
    CUdeviceptr table = 0;
    std::size_t bytes = 0;
    REQUIRE(world.driver.cuModuleGetGlobal(&table, &bytes, world.module, "table") == CUDA_SUCCESS);
    CHECK(bytes == 8);
    std::array<unsigned, 2> values{};
    CHECK(world.driver.cuMemcpyDtoHAsync(values.data(), table, 8, nullptr) == CUDA_SUCCESS);
    CHECK(values == std::array<unsigned, 2>{7, 9});
    const CUdeviceptr memory = world.allocate(400);
    REQUIRE(world.fill(memory, 100, 1, 128) == CUDA_SUCCESS);
    std::array<unsigned, 100> found{};
    CHECK(world.driver.cuMemcpyDtoHAsync(found.data(), memory, 400, nullptr) == CUDA_SUCCESS);
    CHECK(found[0] == 7);
    CHECK(found[99] == 106);
    CHECK(world.device.thread_instructions() > 100);

    std::size_t offset = 0;
    CHECK(world.driver.function_parameter(world.function("fill"), 1, &offset, &bytes) ==
          CUDA_SUCCESS);
    CHECK(offset == 8);
    CHECK(bytes == 4);
    CHECK(world.driver.function_parameter(world.function("fill"), 2, &offset, &bytes) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(world.driver.cuModuleUnload(world.module) == CUDA_SUCCESS);
}

TEST_CASE("variables of a module are views, constants read-only", "[emulator_driver]") {
    World world;
    world.load();
    const std::vector<emulator::View> views = world.device.variables(world.module);
    REQUIRE(views.size() == 2);
    for (const emulator::View& view : views) {
        CHECK(view.writable == (view.name == "variable table"));
        CHECK(view.initialised);
        CHECK(view.bytes == (view.name == "variable table" ? 8U : 4U));
    }
}

TEST_CASE("launches over the limits are refused and leave the device whole", "[emulator_driver]") {
    World world;
    world.load();
    const CUdeviceptr memory = world.allocate(4096);
    CHECK(world.fill(memory, 1, 0, 32) == CUDA_ERROR_INVALID_VALUE);
    CHECK(world.fill(memory, 1, 1, 256) == CUDA_ERROR_INVALID_VALUE);  // .maxntid 128
    CHECK(world.fill(memory, 1, 1, 32, 49153) == CUDA_ERROR_INVALID_VALUE);
    CUfunction function = world.function("fill");
    CHECK(world.driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          232449) == CUDA_ERROR_INVALID_VALUE);
    CHECK(world.driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          232448) == CUDA_SUCCESS);
    CHECK(world.fill(memory, 1, 1, 32, 232448) == CUDA_SUCCESS);
    world.device.set_registers(function, 255);
    CHECK(world.fill(memory, 1, 1, 128) == CUDA_SUCCESS);
    world.device.set_registers(function, 1000);
    CHECK(world.fill(memory, 1, 1, 128) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    world.device.set_registers(function, 32);
    CHECK(world.fill(memory, 1, 1, 32) == CUDA_SUCCESS);
}

TEST_CASE("cooperative and clustered launches must fit", "[emulator_driver]") {
    World world;
    world.load();
    CUdeviceptr memory = world.allocate(1 << 20);
    unsigned count = 4;
    std::array<void*, 2> parameters{&memory, &count};
    CUlaunchAttribute attribute{};
    CUlaunchConfig config{};
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 128;
    config.attrs = &attribute;
    config.numAttrs = 1;
    const auto launch = [&](unsigned blocks) {
        config.gridDimX = blocks;
        return world.driver.cuLaunchKernelEx(&config, world.function("fill"), parameters.data(),
                                             nullptr);
    };
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CHECK(launch(132 * 16) == CUDA_SUCCESS);
    CHECK(launch(132 * 16 + 1) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {4, 1, 1};
    CHECK(launch(8) == CUDA_SUCCESS);
    CHECK(launch(6) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attribute.value.clusterDim = {16, 1, 1};
    CHECK(launch(16) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CHECK(world.driver.cuFuncSetAttribute(world.function("fill"),
                                          CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                                          1) == CUDA_SUCCESS);
    CHECK(launch(16) == CUDA_SUCCESS);
    int clusters = 0;
    config.sharedMemBytes = 40000;
    CHECK(world.driver.cuOccupancyMaxActiveClusters(&clusters, world.function("fill"), &config) ==
          CUDA_SUCCESS);
    // 5 blocks of 40,000 bytes and the reserve on each of 16 or 18 multiprocessors.
    CHECK(clusters == 6 * (16 * 5 / 16) + 2 * (18 * 5 / 16));
}

TEST_CASE("a fault stays until its report is taken", "[emulator_driver]") {
    World world;
    world.load();
    const CUdeviceptr memory = world.allocate(512);
    CHECK(world.fill(0x1000, 4, 1, 32) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(world.driver.cuMemsetD8Async(memory, 0, 4, nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(world.driver.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    const std::optional<emulator::Report> report = world.device.take_report();
    REQUIRE(report);
    CHECK(report->kind == emulator::Report::Kind::out_of_bounds);
    CHECK(report->kernel == "fill");
    CHECK(world.fill(memory, 4, 1, 32) == CUDA_SUCCESS);
    CHECK_FALSE(world.device.take_report());
    CHECK(world.driver.cuLaunchKernel(world.function("stop"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                                      nullptr) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(world.device.take_report()->kind == emulator::Report::Kind::trap);
}

TEST_CASE("launches are checked against exact views between begin and end", "[emulator_driver]") {
    World world;
    world.load();
    const CUdeviceptr memory = world.allocate(512);
    std::vector<emulator::View> views = world.device.variables(world.module);
    views.push_back({memory, 100, "y", true, false});
    world.device.begin_checked(views);
    CHECK(world.fill(memory, 25, 1, 32) == CUDA_SUCCESS);
    CHECK(world.fill(memory, 26, 1, 32) == CUDA_ERROR_ILLEGAL_ADDRESS);
    world.device.end_checked();
    const std::optional<emulator::Report> report = world.device.take_report();
    REQUIRE(report);
    CHECK(report->address == memory + 100);
    CHECK(world.fill(memory, 26, 1, 32) == CUDA_SUCCESS);
}

TEST_CASE("PTX that cannot be executed is refused with its line", "[emulator_driver]") {
    World world;
    CUmodule module = nullptr;
    const char* unknown =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f()\n{\nfrobnicate.b32;\n"
        "ret;\n}\n";
    CHECK(world.driver.cuModuleLoadData(&module, unknown) == CUDA_ERROR_INVALID_PTX);
    const std::string refusal = world.device.take_refusal();
    CHECK(refusal.find("frobnicate") != std::string::npos);
    CHECK(refusal.find("line 6 of the PTX") != std::string::npos);
    CHECK(world.device.take_refusal().empty());
    CHECK(world.driver.cuModuleLoadData(&module,
                                        "\x7f"
                                        "ELF") == CUDA_ERROR_INVALID_IMAGE);
}

TEST_CASE("a launch ends at the deadline", "[emulator_driver]") {
    World world;
    world.load();
    const CUdeviceptr memory = world.allocate(512);
    world.device.set_deadline(std::chrono::steady_clock::now() - std::chrono::seconds(1));
    CHECK(world.fill(memory, 4, 100000, 128) == CUDA_ERROR_LAUNCH_TIMEOUT);
    CHECK(world.device.take_report());
}

TEST_CASE("an evaluation has the rule of its first failure where a rule refused it",
          "[emulator_driver]") {
    Task task;
    task.workloads = {{"a", {{"N", 1}}, {}}, {"b", {{"N", 2}}, {}}};
    Evaluation evaluation;
    evaluation.rule = "emulator_checker";
    evaluation.workloads.resize(2);
    evaluation.workloads[1].workload = 1;
    evaluation.workloads[1].status = EvaluationStatus::rejected;
    evaluation.workloads[1].message = "a race";
    worker::summarize_workloads(task, evaluation);
    CHECK(evaluation.status == EvaluationStatus::rejected);
    CHECK(evaluation.rule == "emulator_checker");
    CHECK(evaluation.message == "on N=2: a race");
    evaluation.workloads[0].status = EvaluationStatus::wrong_result;
    worker::summarize_workloads(task, evaluation);
    CHECK(evaluation.status == EvaluationStatus::wrong_result);
    CHECK(evaluation.rule.empty());
}
