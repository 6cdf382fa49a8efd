# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit emulator_checker
    SOURCES emulator_checker_test.cpp
    LIBRARIES kernelforge_emulator_checker kernelforge_base)
