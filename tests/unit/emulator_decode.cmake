# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit emulator_decode
    SOURCES emulator_decode_check.cpp emulator_decode_examples_test.cpp emulator_decode_test.cpp
    LIBRARIES kernelforge_emulator_decode kernelforge_compile_role KernelForge::cuda_headers)
