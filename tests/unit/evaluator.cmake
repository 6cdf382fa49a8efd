# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit measure
    SOURCES measure_command_test.cpp measure_spans_test.cpp
    LIBRARIES kernelforge_measure_role)
