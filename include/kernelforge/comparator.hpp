// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"

namespace kernelforge {

/// One output of one call beside the reference's, in host memory: dense, row-major, little-endian.
struct ComparisonInput {
    const Task& task;
    const Workload& workload;
    std::string_view output;
    DType dtype = DType::float32;
    std::span<const std::int64_t> shape;
    std::span<const std::byte> found;     ///< the candidate's; 0xFF bytes where it wrote nothing
    std::span<const std::byte> expected;  ///< the reference's
    /// Bytes of an input of this call, by name; empty for a scalar input and for an unknown name.
    /// The span lives as long as the call to `compare`.
    std::function<std::span<const std::byte>(std::string_view input)> input;
};

/// Judges outputs that no built-in comparison fits; a task names it in `compare` as
/// `{"kind": "custom", "custom": NAME}`. Loaded into the measuring worker; trusted. Everything that
/// a comparator is given is valid only during the call.
class Comparator {
  public:
    virtual ~Comparator() = default;

    /// `ok`, `mismatches`, `first_index`, `expected`, `found`, and the error numbers in the meaning
    /// that the comparator documents; `output` and `distribution` are filled in by the caller.
    /// [any]
    /// @throws Error any code: the evaluation is `evaluator_failed` with its message
    [[nodiscard]] virtual OutputError compare(const ComparisonInput& input) const = 0;
};

}  // namespace kernelforge
