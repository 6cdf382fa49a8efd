# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit measure
    SOURCES measure_command_test.cpp measure_compare_test.cpp measure_spans_test.cpp measure_watch_test.cpp measure_workload_test.cpp
    LIBRARIES kernelforge_measure_role)
