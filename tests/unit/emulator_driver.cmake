# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit emulator_driver
    SOURCES emulator_driver_test.cpp
    LIBRARIES kernelforge_measure_role kernelforge_emulator_driver)
