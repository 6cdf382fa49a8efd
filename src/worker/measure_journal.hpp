// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "referee/digest.hpp"
#include "worker/measure_bench.hpp"

namespace kernelforge::worker {

/// Keeps of every timed call what its outputs are judged by once the reference has run on the same
/// inputs: digests, and whole copies where an output's comparison has no digest. At most 256 MiB of
/// device memory. [device]
class Journal {
  public:
    /// For `calls` calls; `secret` is not known to what runs in them.
    /// @throws DriverError (out of memory)
    Journal(Device& device, Bench& bench, std::uint64_t secret, int calls);

    /// Calls that fit, at most as many as were asked for: outputs of gigabytes have large digests.
    [[nodiscard]] int calls() const noexcept { return calls_; }
    /// Enqueues keeping what call `call` (from 0) with the inputs of set `set` has written.
    void record(int call, std::uint64_t set, const OutputSet& outputs);
    /// Enqueues the same work for a call that is not judged, so that all calls are followed by the
    /// same.
    void record_unjudged(const OutputSet& outputs);
    /// Whether a recorded call had the inputs of `set`.
    [[nodiscard]] bool has(std::uint64_t set) const;
    /// Judges all recorded calls that had the inputs of `set`, by the reference's outputs on them;
    /// waits. `name` is that of the set. Failures go to `kept`, as in `Bench::compare`.
    /// @throws Verdict as `Bench::compare`
    void judge(std::uint64_t set, const ReferenceCall& reference, const std::string& name,
               std::vector<OutputError>& kept, Clock::time_point deadline);

  private:
    struct Digest {
        std::size_t output = 0;
        referee::DigestParameters parameters;
    };
    struct Copy {
        int call = 0;
        std::uint64_t set = 0;
        bool written = false;
        std::vector<CUdeviceptr> addresses;  ///< by output
    };
    void plan_digests(std::uint64_t secret);
    void plan_copies(std::uint64_t secret);
    void enqueue(std::uint64_t slot, std::uint64_t set, const OutputSet& outputs);
    void enqueue_copy(Copy& copy, const OutputSet& outputs);
    void judge_digests(Digest& digest, std::uint64_t set, const std::string& name,
                       std::vector<OutputError>& kept, Clock::time_point deadline);
    [[nodiscard]] std::string describe(std::size_t call, const std::string& name) const;

    Device& device_;
    Bench& bench_;
    int calls_ = 0;
    std::vector<Digest> digests_;
    std::vector<Copy> copies_;  ///< the last one is for calls that are not judged
    MemoryPool::Lease slots_;
    MemoryPool::Lease verdicts_;
    MemoryPool::Lease copied_;
    std::vector<std::uint64_t> sets_;  ///< of the recorded calls
};

}  // namespace kernelforge::worker
