// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emulator/lanes.hpp"

// Where the families of functions list what they have. Included by sources that are compiled for
// AVX2: nothing here may be an inline function of the standard library, of which the linker would
// keep one copy for everyone.

namespace kernelforge::emulator {

/// A function and the shapes of its operands, destinations first.
struct PureEntry {
    static constexpr int most_rows = 8;
    PureFn run = nullptr;
    std::uint8_t destinations = 0;
    std::uint8_t count = 0;
    Row rows[most_rows] = {};
    bool reads_carry = false;
    bool writes_carry = false;
};

/// Words of a PTX instruction name in PTX order; empty ones do not count. A `!` at the end means
/// that the predicate source is negated, a `|` that there are two predicate destinations.
struct PureName {
    const char* words[10] = {};
};

/// Collects the functions of one `Isa` by name.
class PureRegistry {
  public:
    PureRegistry() = default;
    PureRegistry(const PureRegistry&) = delete;
    PureRegistry& operator=(const PureRegistry&) = delete;
    /// @throws std::logic_error if the name is taken
    virtual void add(const PureName& name, const PureEntry& entry) = 0;

  protected:
    ~PureRegistry() = default;
};

namespace portable {
void list_integer(PureRegistry& registry);
void list_compare(PureRegistry& registry);
void list_convert(PureRegistry& registry);
void list_float(PureRegistry& registry);
void list_half(PureRegistry& registry);
}  // namespace portable

namespace avx2 {
void list_integer(PureRegistry& registry);
void list_compare(PureRegistry& registry);
void list_convert(PureRegistry& registry);
void list_float(PureRegistry& registry);
void list_half(PureRegistry& registry);
}  // namespace avx2

}  // namespace kernelforge::emulator
