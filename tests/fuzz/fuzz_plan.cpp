// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

// Parses any text as a candidate, resolves what parses, and reads any text as a host launcher.
// Every failure has to be an `Error`.

namespace {

using namespace kernelforge;

Definition definition() {
    Definition result;
    result.name = "fuzz";
    result.axes = {{"M", Axis::Kind::variable, 0, "", ""}, {"N", Axis::Kind::constant, 64, "", ""}};
    result.inputs = {{"x", {"M", "N"}, false, DType::float32, ""},
                     {"w", {"N", "N"}, false, DType::bfloat16, ""},
                     {"q", {"M", "N"}, false, DType::float8_e4m3fn, ""},
                     {"eps", {}, true, DType::float32, ""}};
    result.outputs = {{"y", {"M", "N"}, false, DType::bfloat16, ""}};
    return result;
}

plan::Environment environment() {
    plan::Environment result;
    result.axes = {{"M", 1000}, {"N", 64}};
    result.scalars = {{"eps", 1e-6}};
    result.tensors = {{"x", {{1000, 64}, 0x1010, DType::float32}},
                      {"w", {{64, 64}, 0, DType::bfloat16}},
                      {"q", {{1000, 64}, 0, DType::float8_e4m3fn}},
                      {"y", {{1000, 64}, 0, DType::bfloat16}}};
    result.device.multiprocessors = 132;
    result.device.l2_bytes = 60 << 20;
    result.device.max_shared_bytes_per_block = 232448;
    result.device.memory_bytes = std::int64_t{1} << 37;
    result.occupancy = [](const std::string&, int threads, std::int64_t) { return 2048 / threads; };
    result.clusters = [](const std::string&, int, std::int64_t, int cluster) {
        return 132 / cluster;
    };
    return result;
}

void resolve_and_check(const std::string& source, const Definition& task) {
    const plan::Plan parsed = plan::parse_plan(source, "fuzz.cu", task, {"w"});
    const plan::Environment where = environment();
    const CompileRequest request =
        plan::compile_request(parsed, {source, {}}, task, where.axes, "sm_90a");
    static_cast<void>(plan::is_valid_for(parsed, where));
    static_cast<void>(plan::demanded_alignment(parsed, where, "x"));
    const plan::ResolvedPlan resolved = plan::resolve(parsed, where);
    CompileResult build;
    for (const auto& kernel : request.kernels) build.kernels.push_back({.name = kernel.first});
    plan::check_build(parsed, resolved, build, where.device);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Definition task = definition();
    const std::string source(reinterpret_cast<const char*>(data), size);
    try {
        resolve_and_check(source, task);
    } catch (const Error&) {
    }
    std::string why_not;
    if (!plan::has_plan(source)) static_cast<void>(plan::lift_host_launcher(source, task, why_not));
    return 0;
}
