// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "emulator/program.hpp"

namespace kernelforge::emulator::test {

/// Decodes `module` and follows, along every path of the decoded code, which PTX registers each row
/// holds, from the PTX text alone: every read of a register must find its row holding that register
/// (or nothing that was written), and rows of different shape must not overlap. Knows nothing of
/// how rows were given.
/// @returns what is wrong, at most ten sentences
[[nodiscard]] std::vector<std::string> check_rows(Module module);

}  // namespace kernelforge::emulator::test
