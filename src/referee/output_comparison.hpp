// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "referee/device/parameters.hpp"

namespace kernelforge::referee {

/// What a comparison on the host reads. Dense, row-major, little-endian; a span that the kind has
/// no use for may be empty.
struct ComparisonBuffers {
    std::span<const std::byte> found;           ///< the candidate's output
    std::span<const std::byte> expected;        ///< the reference's
    std::span<const std::byte> found_index;     ///< by_index: the candidate's `index` output
    std::span<const std::byte> expected_index;  ///< by_index: the reference's
    std::span<const std::byte> offsets;         ///< ragged: the input
    /// set: `ties`, samples: `probabilities`, as the reference left them.
    std::span<const std::byte> workspace;
};

/// The comparison of one output of a task on one workload, over all its trials. Says what the kind
/// needs; the verdicts come from `judge` (kinds whose sums are made by the comparison kernels) or
/// from `compare` (all kinds but custom, on the host). docs/referee.md has the rules.
class OutputComparison {
  public:
    /// `task` must outlive this. `axes`: values of all axes (`axis_values`).
    /// @throws Error unsupported (float4_e2m1), invalid_argument (the task contradicts itself)
    OutputComparison(const Task& task, const TensorSpec& output,
                     const std::map<std::string, std::int64_t>& axes);

    [[nodiscard]] const CompareSpec& spec() const noexcept { return spec_; }
    [[nodiscard]] const TensorSpec& output() const noexcept { return output_; }
    [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return shape_; }
    /// Whether the comparison kernels make the sums: rms, exact, lse, ragged.
    [[nodiscard]] bool uses_kernels() const noexcept;
    /// Name of the reference's workspace that is needed; empty: none.
    [[nodiscard]] const std::string& workspace() const noexcept;

    /// For the kernels; addresses are 0. Of ragged outputs `tiles` is the largest number there may
    /// be, for memory.
    [[nodiscard]] CompareParameters parameters() const;
    /// Of a ragged output: where its tiles start, from the offsets of this call. Every segment is a
    /// tile; a longer one than 16384 elements is cut into several of at least that.
    /// @throws Error invalid_argument when the offsets are not ascending or do not fit
    [[nodiscard]] std::vector<std::uint64_t> tile_starts(std::span<const std::byte> offsets) const;
    [[nodiscard]] OutputError judge(const CompareResult& result,
                                    std::string_view distribution) const;

    /// The verdict on one call. Of kind samples it also counts for those after it, once for each
    /// content of the probabilities: on the same inputs a sampler may draw the same again.
    /// @throws Error invalid_argument (a buffer has not the size it must have, the reference's
    ///         workspace makes no sense), unsupported (custom)
    [[nodiscard]] OutputError compare(const ComparisonBuffers& buffers,
                                      std::string_view distribution);

    /// As `describe` of comparison.hpp, in the words of the kind.
    [[nodiscard]] std::string describe(const OutputError& error) const;

  private:
    [[nodiscard]] std::uint64_t count() const;
    void check_sizes(const ComparisonBuffers& buffers) const;
    [[nodiscard]] OutputError compare_set(const ComparisonBuffers& buffers) const;
    [[nodiscard]] OutputError compare_by_index(const ComparisonBuffers& buffers,
                                               std::string_view distribution) const;
    [[nodiscard]] OutputError compare_samples(const ComparisonBuffers& buffers);

    TensorSpec output_;
    CompareSpec spec_;
    std::vector<std::int64_t> shape_;
    std::uint32_t index_type_ = 0;    ///< by_index
    std::uint32_t offsets_type_ = 0;  ///< ragged
    std::uint64_t segments_ = 0;      ///< ragged
    /// samples: the transforms of all calls so far that had probabilities of their own, in order of
    /// the values and of their probabilities.
    std::vector<double> by_value_;
    std::vector<double> by_probability_;
    std::set<std::uint64_t> seen_;  ///< hashes of the probabilities of those calls
};

/// The largest distance between the distribution function of `values` and that of the uniform
/// distribution on [0, 1) (Kolmogorov's statistic). 0 of nothing.
[[nodiscard]] double distance_from_uniform(std::vector<double> values);

/// The distance that n uniform values exceed with probability at most 1e-6, for every n: by the
/// inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant, sqrt(ln(2e6) / (2 n)).
[[nodiscard]] double uniform_distance_limit(std::uint64_t n);

}  // namespace kernelforge::referee
