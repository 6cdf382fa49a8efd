# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit emulator_ptx
    SOURCES ptx_module_test.cpp
    LIBRARIES kernelforge_emulator_ptx)
