// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

// What the parser and the resolver share about tensor maps, library steps and preparing. Internal
// to the plan room.

namespace kernelforge::plan {

/// Element types as library steps know them: those of a workspace, and `e4m3 e5m2 e2m1 bool`.
[[nodiscard]] std::string element_type(DType dtype);
/// Bits of an element of such a type; 0 for anything else.
[[nodiscard]] std::size_t element_bits(std::string_view type) noexcept;

/// What a tensor map of a buffer of this type holds where `dtype=` is not written: 8-bit floats and
/// booleans are u8. Empty: it has to be written.
[[nodiscard]] std::string tensor_map_type(std::string_view element);

/// The rules of cuTensorMapEncodeTiled (CUDA Driver API, "Tensor Map Object Management"), and that
/// the map stays inside its buffer of `buffer_bytes`.
/// @throws Error invalid_argument with the position of the number in the candidate
void check_tensor_map(const TensorMap& map, const ResolvedTensorMap& numbers,
                      std::int64_t buffer_bytes);

/// Whether the key of the function names a buffer that the library writes.
[[nodiscard]] bool is_written(const Call& call, const CallArgument& argument);

/// Shapes, types and numbers against what the function means. `resolved` has the arguments of
/// `call` in the same order. @throws Error invalid_argument with the position of an argument
void check_call(const Call& call, const ResolvedCall& resolved);

/// The workspaces that `//@prepare` steps name, themselves or through a tensor map.
[[nodiscard]] std::set<std::string> prepared_workspaces(const Plan& plan);

}  // namespace kernelforge::plan
