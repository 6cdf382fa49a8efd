// SPDX-License-Identifier: Apache-2.0
#include "roofline.hpp"

#include "support/catch.hpp"
#include "support/fakes.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

Roofs roofs() {
    Roofs roofs;
    roofs.read_bytes_per_s = 4e12;
    roofs.copy_bytes_per_s = 3e12;
    roofs.write_bytes_per_s = 2e12;
    roofs.fp32_flop_per_s = 50e12;
    roofs.bf16_flop_per_s = 800e12;
    roofs.empty_kernel_s = 2e-6;
    return roofs;
}

constexpr double tensor = 64.0 * 1024 * 4;  // bytes of x, and of y, in workload 0

}  // namespace

TEST_CASE("compulsory bytes are every input and every output once unless the task says",
          "[roofline]") {
    Task task = fake_task();
    CHECK(workload_cost(task, 0).bytes == Approx(2 * tensor));
    CHECK(workload_cost(task, 0).write_share == Approx(0.5));
    CHECK_FALSE(workload_cost(task, 0).operations);
    task.bytes = "rows * cols";
    task.flops = "2 * rows * cols";
    CHECK(workload_cost(task, 1).bytes == Approx(128.0 * 1024));
    CHECK(*workload_cost(task, 1).operations == Approx(2 * 128.0 * 1024));
    task.bytes = "rows - 1000";
    CHECK_THAT(*error_of([&] { static_cast<void>(workload_cost(task, 0)); }),
               ContainsSubstring("bytes: expected a count, found -936"));
}

TEST_CASE("the memory roof lies between the measured ones", "[roofline]") {
    CHECK(*memory_roof(roofs(), 0.0) == Approx(4e12));
    CHECK(*memory_roof(roofs(), 0.5) == Approx(3e12));
    CHECK(*memory_roof(roofs(), 1.0) == Approx(2e12));
    CHECK(*memory_roof(roofs(), 0.25) == Approx(2.0 / (1.0 / 4e12 + 1.0 / 3e12)));
    Roofs only_read;
    only_read.read_bytes_per_s = 4e12;
    CHECK(*memory_roof(only_read, 0.7) == Approx(4e12));
    CHECK_FALSE(memory_roof({}, 0.5));
}

TEST_CASE("the compute roof follows the inputs and the policy", "[roofline]") {
    Task task = fake_task();
    CHECK(*compute_roof(task, roofs()) == Approx(50e12));
    task.definition.inputs[0].dtype = DType::bfloat16;
    CHECK(*compute_roof(task, roofs()) == Approx(800e12));
    task.definition.inputs[0].dtype = DType::float8_e4m3fn;
    CHECK(*compute_roof(task, roofs()) == Approx(1600e12));
    // Scales of blocks are no operands; an input of the same size is one.
    task.definition.axes.push_back({"one", Axis::Kind::constant, 1, "", ""});
    task.definition.inputs.push_back({"scale", {"one"}, false, DType::float32, ""});
    CHECK(*compute_roof(task, roofs()) == Approx(1600e12));
    task.definition.inputs.back().shape = task.definition.inputs[0].shape;
    CHECK(*compute_roof(task, roofs()) == Approx(50e12));
    task.definition.inputs.pop_back();
    task.policy.vector_fp32_only = true;
    CHECK(*compute_roof(task, roofs()) == Approx(50e12));
    task.definition.inputs[0].dtype = DType::float64;
    CHECK_FALSE(compute_roof(task, roofs()));
}

TEST_CASE("the bound is the largest of memory, arithmetic and an empty kernel", "[roofline]") {
    Task task = fake_task();
    CHECK(*bound_s(task, 0, roofs()) == Approx(2e-6));
    Roofs fast_launch = roofs();
    fast_launch.empty_kernel_s = 1e-9;
    CHECK(*bound_s(task, 0, fast_launch) == Approx(2 * tensor / 3e12));
    task.flops = "1000000000";
    CHECK(*bound_s(task, 0, fast_launch) == Approx(1e9 / 50e12));
    CHECK_FALSE(bound_s(task, 0, Roofs{}));
}

TEST_CASE("a time is placed under the roofs", "[roofline]") {
    Task task = fake_task();
    Roofs r = roofs();
    r.empty_kernel_s = 1e-9;
    const double at_roof = 2 * tensor / 3e12;
    const Bottleneck memory = bottleneck(task, {0, 0}, at_roof / 0.8, r);
    CHECK(memory.kind == BottleneckKind::memory);
    CHECK(memory.memory_fraction == Approx(0.8));
    CHECK(memory.headroom == Approx(1.25));
    CHECK_THAT(memory.sentence, ContainsSubstring("80 % of the measured roof"));
    CHECK(bottleneck(task, {0, 0}, at_roof * 4, r).kind == BottleneckKind::latency);
    task.flops = "10000000";
    const Bottleneck compute = bottleneck(task, {0, 0}, 2.5e-7, r);
    CHECK(compute.kind == BottleneckKind::balanced);
    task.bytes = "1";
    CHECK(bottleneck(task, {0, 0}, 2.5e-7, r).kind == BottleneckKind::compute);
    CHECK(bottleneck(task, {0, 0}, 3e-6, roofs()).kind == BottleneckKind::launch);
    CHECK(bottleneck(task, {0, 0}, 3e-6, Roofs{}).kind == BottleneckKind::unknown);
}
