// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guards.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    kernelforge::Policy policy;
    policy.vector_fp32_only = true;
    if (kernelforge::normalised_source(text).size() > size + 1) std::abort();
    (void)kernelforge::guard_source(text, policy, std::size_t{1} << 20);
    kernelforge::CompiledCandidate compiled;
    compiled.candidate.source = text;
    compiled.builds.resize(1);
    compiled.builds[0].cubin = text;
    compiled.builds[0].ptx = text;
    compiled.build_of_workload = {0};
    (void)kernelforge::guard_build(compiled.builds[0], policy, 0);
    if (kernelforge::build_identity(compiled).size() != 64) std::abort();
    return 0;
}
