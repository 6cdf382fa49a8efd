# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit emulator_ops SOURCES emulator_ops_test.cpp
    LIBRARIES kernelforge_emulator_ops kernelforge_base)
