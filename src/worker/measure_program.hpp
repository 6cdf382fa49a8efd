// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernelforge/evaluator.hpp"
#include "plan/plan.hpp"
#include "worker/measure_device.hpp"

namespace kernelforge::worker {

/// A candidate's failure: ends the workload it happened on with this status.
class Verdict final : public Error {
  public:
    Verdict(EvaluationStatus status, const std::string& message)
        : Error(ErrorCode::internal, message), status_(status) {}
    [[nodiscard]] EvaluationStatus status() const noexcept { return status_; }

  private:
    EvaluationStatus status_;
};

/// One build in the device's memory. Writable globals are restored to their initial content before
/// each call, so that a call cannot leave anything to the next one. [device]
class LoadedBuild {
  public:
    /// @throws Verdict compile_error (the build failed), launch_error (the driver refuses the
    /// cubin)
    LoadedBuild(Device& device, const CompileResult& build);
    ~LoadedBuild();
    LoadedBuild(const LoadedBuild&) = delete;
    LoadedBuild& operator=(const LoadedBuild&) = delete;

    [[nodiscard]] const CompileResult& build() const noexcept { return build_; }
    /// By the plan's name. @throws Verdict plan_error
    [[nodiscard]] CUfunction function(const std::string& kernel) const;
    /// Allows this much dynamic shared memory; more than the device has is left to the launch to
    /// refuse.
    void allow_shared(const std::string& kernel, std::int64_t bytes);
    /// By the driver's occupancy functions; 0 when it refuses the numbers.
    [[nodiscard]] int occupancy(const std::string& kernel, int threads, std::int64_t shared_bytes);
    [[nodiscard]] int clusters(const std::string& kernel, int threads, std::int64_t shared_bytes,
                               int cluster);
    /// Enqueues the restoring of writable globals.
    void restore_globals();

  private:
    struct Global {
        CUdeviceptr address = 0;
        std::size_t bytes = 0;
        CUdeviceptr initial = 0;  ///< in `initial_`
    };
    void save_globals();

    Device& device_;
    const CompileResult& build_;
    CUmodule module_ = nullptr;
    std::map<std::string, CUfunction> functions_;
    std::map<std::string, std::int64_t> allowed_shared_;
    std::vector<Global> globals_;
    MemoryPool::Lease initial_;
};

/// A plan with numbers for one workload and its kernels, ready to be enqueued any number of times.
class Program {
  public:
    /// `axes` in messages say which workload. The build must outlive the program.
    /// @throws Verdict plan_error: an expression, a limit, `//@valid`, or the kernels' parameters
    Program(Device& device, LoadedBuild& build, const plan::Plan& plan, const Task& task,
            const Workload& workload, const Bindings& bindings);

    [[nodiscard]] const std::vector<plan::ResolvedWorkspace>& workspaces() const noexcept {
        return resolved_.workspaces;
    }
    /// Bytes that a `//@memset` of this buffer covers.
    void set_buffer_bytes(const std::string& name, std::size_t bytes) { bytes_[name] = bytes; }

    /// Enqueues all steps. With a timer, every step is reported to it.
    /// @throws Verdict launch_error; DriverError when an earlier call's fault shows here
    void enqueue(const Addresses& addresses, CallTimer* timer);
    void restore_globals() { build_.restore_globals(); }

    /// Static facts of the launches in order.
    [[nodiscard]] std::vector<LaunchFacts> launch_facts();
    /// Which of `CallSpan::step_s` belong to launches, in order of the launches.
    [[nodiscard]] std::vector<std::size_t> launch_steps() const;

  private:
    void launch(const plan::ResolvedLaunch& launch, const Addresses& addresses);
    void set(const plan::ResolvedMemset& memset, const Addresses& addresses);
    void check_parameters(const plan::ResolvedLaunch& launch);

    Device& device_;
    LoadedBuild& build_;
    plan::ResolvedPlan resolved_;
    std::map<std::string, std::size_t> bytes_;
};

/// "rows=14509 cols=4096": the workload's variable axes.
[[nodiscard]] std::string describe_axes(const Workload& workload);

/// Shape of a tensor in numbers, from axis values.
[[nodiscard]] std::vector<std::int64_t> shape_of(const TensorSpec& tensor,
                                                 const std::map<std::string, std::int64_t>& axes);

}  // namespace kernelforge::worker
