// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "emulator/ptx_module.hpp"

namespace kernelforge::emulator::decoding {

/// A load whose value is only used where a predicate holds.
struct Speculation {
    std::string predicate;  ///< register
    bool negated = false;   ///< used where it is false
    /// Instruction of the function behind which load and predicate are both known, and up to which
    /// nothing is written.
    std::size_t known_after = 0;
};

/// Compilers turn `if (p) v = s[j];` into a load that is always executed and a `selp`, where the
/// load cannot fault. What such a load reads in vain is nothing that the source reads: watching it
/// would blame right code for reads of what nobody wrote, and for races. Finds, by the load's
/// index, loads of one basic block whose values only come, through register arithmetic in that
/// block, to `selp` of one predicate and to instructions that it guards. [any]
[[nodiscard]] std::unordered_map<std::size_t, Speculation> find_speculations(
    const Function& function);

}  // namespace kernelforge::emulator::decoding
