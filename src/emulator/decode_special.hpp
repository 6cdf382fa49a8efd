// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "emulator/program.hpp"

namespace kernelforge::emulator::decoding {

/// A special register of the PTX ISA 9.0, section "Special Registers".
struct Special {
    std::string_view name;
    SpecialRegister which = SpecialRegister::tid_x;
    bool is_fixed = true;  ///< the same for a warp's whole life: a b32 row
    Row row = Row::b32;    ///< of what is not fixed
};

/// Nothing: not emulated.
[[nodiscard]] std::optional<Special> find_special(std::string_view name);
[[nodiscard]] Special find_special(SpecialRegister which);

}  // namespace kernelforge::emulator::decoding
