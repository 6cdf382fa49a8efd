// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "worker/measure_evaluate.hpp"
#include "worker/measure_program.hpp"

namespace kernelforge::worker {

namespace {

/// What this version knows of a launch without running it, under the names of Nsight Compute.
std::map<std::string, double> static_metrics(const LaunchFacts& launch, const KernelFacts* kernel,
                                             const DeviceInfo& device) {
    const auto product = [](const std::int64_t(&extents)[3]) {
        return static_cast<double>(extents[0]) * static_cast<double>(extents[1]) *
               static_cast<double>(extents[2]);
    };
    std::map<std::string, double> metrics;
    metrics["launch__grid_size"] = product(launch.grid);
    metrics["launch__block_size"] = product(launch.block);
    metrics["launch__cluster_size"] = product(launch.cluster);
    metrics["launch__shared_mem_per_block_dynamic"] =
        static_cast<double>(launch.dynamic_shared_bytes);
    if (launch.blocks_per_multiprocessor) {
        const double blocks = *launch.blocks_per_multiprocessor;
        const double warps_per_block =
            std::max(1.0, (product(launch.block) + device.warp_size - 1) / device.warp_size);
        const double most_warps =
            static_cast<double>(device.max_threads_per_multiprocessor) / device.warp_size;
        metrics["launch__occupancy_limit_blocks_resident"] = blocks;
        metrics["sm__maximum_warps_per_active_cycle_pct"] =
            100.0 * blocks * static_cast<double>(static_cast<int>(warps_per_block)) / most_warps;
        metrics["launch__waves_per_multiprocessor"] =
            product(launch.grid) / (blocks * device.multiprocessors);
    }
    if (kernel == nullptr) return metrics;
    if (kernel->registers_per_thread) {
        metrics["launch__registers_per_thread"] = *kernel->registers_per_thread;
    }
    if (kernel->static_shared_bytes) {
        metrics["launch__shared_mem_per_block_static"] = *kernel->static_shared_bytes;
    }
    return metrics;
}

void collect_workload(Device& device, const CollectRequest& request, std::size_t position,
                      const plan::Plan& plan, ProfileData& data) {
    const std::size_t workload = request.workloads[position];
    const CompileResult& build =
        request.candidate.builds.at(request.candidate.build_of_workload.at(position));
    LoadedBuild loaded(device, build);
    Program program(device, loaded, plan, *request.task, request.task->workloads.at(workload),
                    request.candidate.candidate.bindings);
    const std::vector<LaunchFacts> launches = program.launch_facts();
    for (std::size_t i = 0; i < launches.size(); ++i) {
        const auto kernel = std::find_if(
            build.kernels.begin(), build.kernels.end(),
            [&](const KernelFacts& facts) { return facts.name == launches[i].kernel; });
        LaunchProfile& profile = data.launches[{workload, i}];
        profile.kernel = launches[i].kernel;
        for (const auto& [name, value] : static_metrics(
                 launches[i], kernel != build.kernels.end() ? &*kernel : nullptr, device.info())) {
            profile.metrics[name] = {value, Provenance::measured};
        }
    }
}

void add_missing(const DataRequest& request, ProfileData& data) {
    const std::string why = "needs the CUPTI collector, not in this version";
    for (const std::string& metric : request.metrics) {
        const bool known = std::any_of(
            data.launches.begin(), data.launches.end(),
            [&](const auto& launch) { return launch.second.metrics.count(metric) != 0; });
        if (!known) data.missing.push_back({metric, why});
    }
    if (request.sass_metrics) data.missing.push_back({"sass_metrics", why});
    if (request.pc_samples) data.missing.push_back({"pc_samples", why});
    if (request.timeline) data.missing.push_back({"timeline", why});
    if (request.energy) data.missing.push_back({"energy", why});
    for (const std::string& custom : request.custom) data.missing.push_back({custom, why});
}

}  // namespace

ProfileData collect(Device& device, const CollectRequest& request) {
    if (request.task == nullptr ||
        request.candidate.build_of_workload.size() != request.workloads.size()) {
        throw Error(ErrorCode::invalid_argument,
                    "collect request: no task, or builds and workloads do not agree");
    }
    for (std::size_t i = 0; i < request.workloads.size(); ++i) {
        if (request.workloads[i] >= request.task->workloads.size() ||
            request.candidate.build_of_workload[i] >= request.candidate.builds.size()) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("collect request: workload {} or its build does not exist",
                                    request.workloads[i]));
        }
    }
    ProfileData data;
    try {
        const plan::Plan plan =
            plan::parse_plan(request.candidate.candidate.source, "candidate.cu",
                             request.task->definition, request.task->constant_inputs);
        for (std::size_t i = 0; i < request.workloads.size(); ++i) {
            collect_workload(device, request, i, plan, data);
        }
    } catch (const DriverError&) {
        throw;
    } catch (const Error& error) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("profile of {}: {}", request.task->definition.name, error.what()));
    }
    add_missing(request.data, data);
    return data;
}

}  // namespace kernelforge::worker
