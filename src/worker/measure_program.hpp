// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "kernelforge/evaluator.hpp"
#include "plan/plan.hpp"
#include "worker/library.hpp"
#include "worker/measure_device.hpp"

namespace kernelforge::worker {

/// A candidate's failure: ends the workload it happened on with this status.
class Verdict : public Error {
  public:
    Verdict(EvaluationStatus status, const std::string& message)
        : Error(ErrorCode::internal, message), status_(status) {}
    [[nodiscard]] EvaluationStatus status() const noexcept { return status_; }

  private:
    EvaluationStatus status_;
};

/// A rule refuses the candidate: `Evaluation::rule`.
class Rejected final : public Verdict {
  public:
    Rejected(std::string rule, const std::string& message)
        : Verdict(EvaluationStatus::rejected, message), rule_(std::move(rule)) {}
    [[nodiscard]] const std::string& rule() const noexcept { return rule_; }

  private:
    std::string rule_;
};

/// The rule that refuses what the emulator cannot execute.
inline constexpr const char* not_emulated_rule = "not_emulated";

/// The plan's `//@valid` is false: the candidate does not claim this shape.
class ExcludedShape final : public Verdict {
  public:
    ExcludedShape()
        : Verdict(EvaluationStatus::plan_error,
                  "its //@valid condition is false for this workload") {}
};

/// One build in the device's memory; nothing is there for a build without kernels, which a plan of
/// library steps alone has. Writable globals are restored to their initial content before
/// each call, so that a call cannot leave anything to the next one. [device]
class LoadedBuild {
  public:
    /// On an emulated device the PTX is loaded, on hardware the cubin.
    /// @throws Verdict compile_error (the build failed), launch_error (the driver refuses the
    /// cubin); Rejected not_emulated
    LoadedBuild(Device& device, const CompileResult& build);
    ~LoadedBuild();
    LoadedBuild(const LoadedBuild&) = delete;
    LoadedBuild& operator=(const LoadedBuild&) = delete;

    [[nodiscard]] const CompileResult& build() const noexcept { return build_; }
    /// Unloads both and loads them again, `first` first, so that each may lie where the other lay:
    /// what a kernel of a few microseconds takes depends by per cents on where its code lies. The
    /// device must be idle. Numbers handed out before stay right, `CUfunction`s do not.
    /// @throws as the constructor
    static void reload(LoadedBuild& first, LoadedBuild& second);
    /// By the plan's name. @throws Verdict plan_error
    [[nodiscard]] CUfunction function(const std::string& kernel) const;
    /// Allows this much dynamic shared memory; more than the device has is left to the launch to
    /// refuse.
    void allow_shared(const std::string& kernel, std::int64_t bytes);
    /// Allows clusters of more than 8 blocks where there are that many; what the device does not
    /// have is left to the launch to refuse.
    void allow_cluster(const std::string& kernel, std::int64_t blocks);
    /// By the driver's occupancy functions; 0 when it refuses the numbers.
    [[nodiscard]] int occupancy(const std::string& kernel, int threads, std::int64_t shared_bytes);
    [[nodiscard]] int clusters(const std::string& kernel, int threads, std::int64_t shared_bytes,
                               int cluster);
    /// Enqueues the restoring of writable globals.
    void restore_globals();
    /// The module's variables, on an emulated device.
    [[nodiscard]] std::vector<emulator::View> variables() const;

  private:
    void load();
    struct Global {
        CUdeviceptr address = 0;
        std::size_t bytes = 0;
        CUdeviceptr initial = 0;  ///< in `initial_`
    };
    void load_module();
    void unload() noexcept;
    void find_functions();
    void allow_large_clusters(const std::string& kernel);
    void save_globals();

    Device& device_;
    const CompileResult& build_;
    CUmodule module_ = nullptr;
    std::map<std::string, CUfunction> functions_;
    std::map<std::string, std::int64_t> allowed_shared_;
    std::set<std::string> allowed_clusters_;
    std::vector<Global> globals_;
    MemoryPool::Lease initial_;
};

/// Alignment in bytes of tensors by name, a power of two below 256; tensors that are not named are
/// aligned to 256.
using Alignments = std::map<std::string, std::size_t>;

/// A plan with numbers for one workload and its kernels, ready to be enqueued any number of times.
class Program {
  public:
    /// The build must outlive the program. `libraries` make the library steps, which may take up to
    /// a second each on an idle device; null: a plan with library steps is refused.
    /// @throws Verdict plan_error: an expression, a limit, the kernels' parameters, or a library
    /// step that cannot be had; ExcludedShape
    /// `alignments` are what `align(x)` in the plan says.
    Program(Device& device, LoadedBuild& build, const plan::Plan& plan, const Task& task,
            const Workload& workload, const Bindings& bindings, const Alignments& alignments = {},
            Libraries* libraries = nullptr);

    /// Those of the plan, then one for the scratch of each library step that wants it: `@call0`
    /// for the first library step, and so on.
    [[nodiscard]] const std::vector<plan::ResolvedWorkspace>& workspaces() const noexcept {
        return resolved_.workspaces;
    }
    /// Bytes that a `//@memset` of this buffer covers.
    void set_buffer_bytes(const std::string& name, std::size_t bytes) { bytes_[name] = bytes; }

    /// Enqueues all steps. With a timer, every step is reported to it.
    /// @throws Verdict launch_error; DriverError when an earlier call's fault shows here
    void enqueue(const Addresses& addresses, CallTimer* timer);
    /// Whether the plan has `//@prepare` steps. What they write (`ResolvedWorkspace::prepared`)
    /// a call needs, and may destroy.
    [[nodiscard]] bool has_prepare() const noexcept { return !resolved_.prepare.empty(); }
    /// Enqueues the `//@prepare` steps, like `enqueue`. Needs addresses of constant inputs and
    /// workspaces.
    void enqueue_prepare(const Addresses& addresses, CallTimer* timer);
    /// What each library step is, in order: library, version, algorithm.
    [[nodiscard]] std::vector<std::string> library_steps() const;
    /// Bytes of scratch of all library steps together.
    [[nodiscard]] std::int64_t library_workspaces() const noexcept;
    void restore_globals() { build_.restore_globals(); }
    /// `LoadedBuild::reload` of what both run.
    static void reload(Program& first, Program& second) {
        LoadedBuild::reload(first.build_, second.build_);
    }
    [[nodiscard]] std::vector<emulator::View> variables() const { return build_.variables(); }
    /// What the compiler says of the kernel of each launch, in order.
    [[nodiscard]] std::vector<KernelFacts> kernel_facts() const;
    /// Largest stack that a thread of the module's kernels can use, bytes: what the compiler says
    /// and `Device::stack_limit_bytes`.
    [[nodiscard]] int local_bytes() const;

    /// Static facts of the launches in order.
    [[nodiscard]] std::vector<LaunchFacts> launch_facts();
    /// Which of `CallSpan::step_s` belong to launches, in order of the launches.
    [[nodiscard]] std::vector<std::size_t> launch_steps() const;

  private:
    /// A library step and the workspace for its scratch; no name: it wants none.
    struct LibraryCall {
        std::unique_ptr<LibraryStep> step;
        std::string workspace;
    };
    void resolve(const plan::Plan& plan, const Task& task, const Workload& workload,
                 const Bindings& bindings, const Alignments& alignments);
    void prepare_launches(const std::vector<plan::ResolvedStep>& steps);
    void make_library_calls(Libraries* libraries);
    void enqueue_steps(const std::vector<plan::ResolvedStep>& steps, const Addresses& addresses,
                       CallTimer* timer);
    [[nodiscard]] std::map<std::string, CUtensorMap> encode(
        const std::vector<plan::ResolvedStep>& steps, const Addresses& addresses) const;
    void launch(const plan::ResolvedLaunch& launch, const Addresses& addresses,
                const EncodedMaps& maps);
    void set(const plan::ResolvedMemset& memset, const Addresses& addresses);
    void run(LibraryCall& call, const Addresses& addresses);
    void check_parameters(const plan::ResolvedLaunch& launch);

    Device& device_;
    LoadedBuild& build_;
    plan::ResolvedPlan resolved_;
    std::vector<LibraryCall> library_calls_;  ///< in the order of the call's library steps
    std::map<std::string, std::size_t> bytes_;
};

/// "rows=14509 cols=4096": the workload's variable axes.
[[nodiscard]] std::string describe_axes(const Workload& workload);

/// Shape of a tensor in numbers, from axis values.
[[nodiscard]] std::vector<std::int64_t> shape_of(const TensorSpec& tensor,
                                                 const std::map<std::string, std::int64_t>& axes);

}  // namespace kernelforge::worker
