// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernelforge/definition.hpp"
#include "referee/distributions.hpp"
#include "worker/measure_compare.hpp"
#include "worker/measure_program.hpp"

namespace kernelforge::worker {

/// Buffers that one call writes: an output each, or the input that an output shares
/// (`Task::inplace`).
struct OutputSet {
    std::vector<MemoryPool::Lease> leases;  ///< by output
    std::vector<CUdeviceptr> addresses;     ///< by output
};

/// Workspaces of one side, by position in the plan.
struct WorkspaceSet {
    std::vector<MemoryPool::Lease> leases;
    std::vector<CUdeviceptr> addresses;
};

/// What a call of the reference wrote: its outputs, and its workspaces, of which some comparisons
/// read what the call left.
struct ReferenceCall {
    const Program& program;
    const OutputSet& outputs;
    const WorkspaceSet& workspaces;
};

/// The tensors of one workload in guarded memory. Inputs are shared by all sides, which see them
/// through a read-only mapping; outputs and workspaces are poisoned before each call. Everything
/// moves from call to call. [device]
class Bench {
  public:
    struct Input;
    struct Output {
        const TensorSpec* spec = nullptr;
        std::vector<std::int64_t> shape;
        std::size_t bytes = 0;  ///< of the buffer, which an in-place input shares
        CompareSpec compare;
        const Input* shares = nullptr;
    };

    /// `secret` decides where tensors lie.
    /// @throws DriverError (out of memory), Error unsupported (a type or comparison)
    Bench(Device& device, const Task& task, const Workload& workload, std::uint64_t secret = 0);
    ~Bench();

    [[nodiscard]] const std::vector<Output>& outputs() const noexcept { return outputs_; }
    [[nodiscard]] std::size_t output_bytes() const noexcept { return output_bytes_; }
    [[nodiscard]] OutputSet make_outputs();
    /// @throws Verdict launch_error when a workspace does not fit in the device's memory
    [[nodiscard]] WorkspaceSet make_workspaces(const Program& program);
    /// Tells a program how large its buffers are, for memsets.
    void describe_buffers(Program& program) const;

    /// From the next moves on: tensors named here lie at addresses of exactly this alignment.
    void set_alignments(Alignments alignments) { alignments_ = std::move(alignments); }
    enum class Which { all, constant, others };  ///< by `Task::constant_inputs`
    /// Waits for the device, moves the inputs to their places in call `call` and enqueues drawing
    /// them, which is a pure function of the distribution and the seed.
    void fill_inputs(referee::Distribution distribution, std::uint64_t seed, std::uint64_t call,
                     Clock::time_point deadline, Which which = Which::all);

    /// Moves outputs and workspaces to their places in call `call` (`placement_step`).
    void move_outputs(OutputSet& outputs, std::uint64_t call) const;
    void move_workspaces(const Program& program, WorkspaceSet& workspaces,
                         std::uint64_t call) const;
    enum class Prepared { poisoned, kept };  ///< workspaces that `//@prepare` steps write
    /// Enqueues the poisoning of outputs (in-place ones get their input again), of workspaces, and
    /// of what is around both in their regions.
    void prepare(const Program& program, const OutputSet& outputs, const WorkspaceSet& workspaces,
                 Prepared prepared = Prepared::poisoned);
    /// Enqueues the zeroing of `selfzero` workspaces, at the place where they are now.
    void zero_selfzero(const Program& program, const WorkspaceSet& workspaces);
    [[nodiscard]] Addresses addresses(const Program& program, const OutputSet& outputs,
                                      const WorkspaceSet& workspaces) const;

    /// What the steps of a call may touch, by name and with their exact bytes. During
    /// `//@prepare` (`Which::constant`): constant inputs and workspaces alone.
    [[nodiscard]] std::vector<emulator::View> views(const Program& program,
                                                    const OutputSet& outputs,
                                                    const WorkspaceSet& workspaces,
                                                    Which which) const;

    /// Enqueues the counting of what `selfzero` workspaces hold after a call, for `compare` and
    /// `check_selfzero` to find.
    void count_selfzero(const Program& program, const WorkspaceSet& workspaces);
    /// Waits. @throws Verdict wrong_result when a counted call left a selfzero workspace not zero
    void check_selfzero(Clock::time_point deadline);
    /// Compares all outputs with the reference's. Waits. `kept` holds the worst verdict of each
    /// output so far (empty at first).
    /// @throws Verdict wrong_result when a counted call left a selfzero workspace not zero
    void compare(const OutputSet& found, const ReferenceCall& reference,
                 std::string_view distribution, std::vector<OutputError>& kept,
                 Clock::time_point deadline);
    /// One sentence on the first output that is wrong; empty when all are right.
    [[nodiscard]] std::string describe_wrong(const std::vector<OutputError>& errors) const {
        return judge_->describe_wrong(errors);
    }

    struct Input {
        const TensorSpec* spec = nullptr;
        std::vector<std::int64_t> shape;
        std::size_t bytes = 0;
        std::uint32_t ordinal = 0;
        bool inplace = false;  ///< lives in the output sets
        MemoryPool::Lease lease;
        CUdeviceptr address = 0;       ///< in the read-only mapping
        referee::FillParameters fill;  ///< of the current call, through the writable mapping
    };

  private:
    [[nodiscard]] bool is_constant(const Input& input) const;
    [[nodiscard]] std::size_t written_spread() const;
    [[nodiscard]] MemoryPool::Lease acquire_written(std::size_t bytes);
    [[nodiscard]] MemoryPool::Lease acquire_input(std::size_t bytes);
    void poison_around(const Region& region, CUdeviceptr begin, std::size_t bytes);
    [[nodiscard]] CUdeviceptr selfzero_counter() const;
    void add_inputs(const Task& task, const std::map<std::string, std::int64_t>& axes);
    void add_outputs(const Task& task, const std::map<std::string, std::int64_t>& axes);
    void enqueue_fill(referee::FillParameters fill);
    [[nodiscard]] std::size_t offset_in(const Region& region, std::size_t bytes,
                                        std::uint64_t tensor, std::uint64_t call) const;
    [[nodiscard]] std::size_t alignment_of(const std::string& tensor) const;
    static void refuse_nonzero(std::uint64_t bytes);

    Device& device_;
    const Task& task_;
    const std::map<std::string, std::int64_t> axes_;
    std::uint64_t secret_;
    std::optional<OutputJudge> judge_;
    Alignments alignments_;
    std::vector<Input> inputs_;  // not resized once outputs point into it
    std::vector<Output> outputs_;
    std::size_t output_bytes_ = 0;
};

}  // namespace kernelforge::worker
