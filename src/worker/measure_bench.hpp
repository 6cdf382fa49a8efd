// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernelforge/definition.hpp"
#include "referee/distributions.hpp"
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

/// The tensors of one workload in guarded memory. Inputs are shared by all sides and read-only
/// while a kernel runs; outputs and workspaces are poisoned before each call. [device]
class Bench {
  public:
    /// @throws DriverError (out of memory), Error unsupported (a type or comparison)
    Bench(Device& device, const Task& task, const Workload& workload);

    [[nodiscard]] std::size_t output_bytes() const noexcept { return output_bytes_; }
    [[nodiscard]] OutputSet make_outputs();
    /// @throws Verdict launch_error when a workspace does not fit in the device's memory
    [[nodiscard]] WorkspaceSet make_workspaces(const Program& program);
    /// Tells a program how large its buffers are, for memsets.
    void describe_buffers(Program& program) const;

    /// Draws the inputs anew and makes them read-only. Waits for the device before and after.
    void fill_inputs(referee::Distribution distribution, std::uint64_t seed,
                     std::uint64_t placement, Clock::time_point deadline);

    /// Moves outputs and workspaces within their memory (`place`).
    void move_outputs(OutputSet& outputs, std::uint64_t placement) const;
    void move_workspaces(const Program& program, WorkspaceSet& workspaces,
                         std::uint64_t placement) const;
    /// Enqueues the poisoning of outputs (in-place ones get their input again), of workspaces, and
    /// of what is around both in their regions.
    void prepare(const Program& program, const OutputSet& outputs, const WorkspaceSet& workspaces);
    /// Enqueues the one-time zeroing of `selfzero` workspaces.
    void zero_selfzero(const Program& program, const WorkspaceSet& workspaces);
    [[nodiscard]] Addresses addresses(const Program& program, const OutputSet& outputs,
                                      const WorkspaceSet& workspaces) const;

    /// Enqueues the counting of what `selfzero` workspaces hold after a call, for `compare` to
    /// find.
    void count_selfzero(const Program& program, const WorkspaceSet& workspaces);
    /// Enqueues the comparison of all outputs with the reference's, then waits. `kept` holds the
    /// worst verdict of each output so far (empty at first).
    /// @throws Verdict wrong_result when a counted call left a selfzero workspace not zero
    void compare(const OutputSet& found, const OutputSet& expected, std::string_view distribution,
                 std::vector<OutputError>& kept, Clock::time_point deadline);
    /// One sentence on the first output that is wrong; empty when all are right.
    [[nodiscard]] std::string describe_wrong(const std::vector<OutputError>& errors) const;

  private:
    void poison_around(const Region& region, CUdeviceptr begin, std::size_t bytes);
    [[nodiscard]] CUdeviceptr selfzero_counter() const;

    struct Input {
        const TensorSpec* spec = nullptr;
        std::vector<std::int64_t> shape;
        std::size_t bytes = 0;
        std::uint32_t ordinal = 0;
        InitSpec init;
        bool inplace = false;  ///< lives in the output sets
        MemoryPool::Lease lease;
        referee::FillParameters fill;  ///< of the current trial
    };
    struct Output {
        const TensorSpec* spec = nullptr;
        std::vector<std::int64_t> shape;
        std::size_t bytes = 0;  ///< of the buffer, which an in-place input shares
        CompareSpec compare;
        referee::CompareParameters parameters;
        MemoryPool::Lease partials;
        const Input* shares = nullptr;
    };
    void add_inputs(const Task& task, const std::map<std::string, std::int64_t>& axes);
    void add_outputs(const Task& task, const std::map<std::string, std::int64_t>& axes);
    void enqueue_comparison(Output& output, CUdeviceptr found, CUdeviceptr expected,
                            std::size_t slot);
    void set_inputs_access(Region::Access access);

    Device& device_;
    std::vector<Input> inputs_;  // not resized once outputs point into it
    std::vector<Output> outputs_;
    std::size_t output_bytes_ = 0;
};

}  // namespace kernelforge::worker
