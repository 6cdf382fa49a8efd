// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fuzz_program.hpp"

namespace kernelforge::fuzz {

/// Drops statements, outputs and operations for as long as `differs` says that the program is still
/// of interest, and until `differs` was asked `most` times.
[[nodiscard]] Program shrink(Program program, int most,
                             const std::function<bool(const Program&)>& differs);

}  // namespace kernelforge::fuzz
