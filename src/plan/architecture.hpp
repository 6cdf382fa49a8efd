// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace kernelforge::plan {

/// Whether code that needs `required` (`sm_90`, `sm_90a`, `sm_100f`; empty: anything) runs on
/// `arch`
/// (`sm_90a`, …). Plain: the same or a later one; `a`: exactly that one; `f`: the same major
/// version and the same or a later minor one (CUDA C++ Programming Guide, "Feature Availability").
[[nodiscard]] bool architecture_suits(std::string_view required, std::string_view arch);

}  // namespace kernelforge::plan
