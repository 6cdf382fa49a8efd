// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace kernelforge::worker {

/// Entry of a role of `kernelforge-worker`: serves requests on the socket `channel`
/// (src/wire/channel.hpp) until it closes; returns the exit code. `arguments` are the command-line
/// words after the role.
int run_compile_role(int channel, const std::vector<std::string>& arguments);
int run_measure_role(int channel, const std::vector<std::string>& arguments);
/// As measure, over an emulated device; further words: `--threads N` (0: one a processor),
/// `--no-check`.
int run_emulate_role(int channel, const std::vector<std::string>& arguments);

}  // namespace kernelforge::worker
