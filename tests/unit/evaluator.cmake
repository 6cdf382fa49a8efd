# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit measure
    SOURCES measure_command_test.cpp measure_compare_test.cpp measure_spans_test.cpp measure_watch_test.cpp measure_workload_test.cpp static_cost_test.cpp
    LIBRARIES kernelforge_measure_role)
if(TARGET evaluator_emulator)
    kernelforge_add_tests(unit evaluator_emulator SOURCES evaluator_emulator_test.cpp
        LIBRARIES evaluator_emulator kernelforge_wire)
    target_compile_definitions(unit_evaluator_emulator_test_objects PRIVATE
        KERNELFORGE_FAKE_WORKER="$<TARGET_FILE:kernelforge_fake_worker>")
    add_dependencies(unit_evaluator_emulator_test_objects kernelforge_fake_worker)
endif()
