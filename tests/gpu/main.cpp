// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <cstdio>

#include "rig.hpp"

int main(int argc, char** argv) {
    constexpr int skipped = 77;
    constexpr int failed = 1;
    try {
        if (kernelforge::test::rig() == nullptr) {
            std::puts("skipped: no GPU");
            return skipped;
        }
    } catch (const kernelforge::Error& error) {
        std::fprintf(stderr, "no case was run: %s\n", error.what());
        return failed;
    }
    return Catch::Session().run(argc, argv);
}
