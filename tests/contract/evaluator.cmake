# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(contract evaluator
    SOURCES evaluator_contract_test.cpp evaluator_cuda_under_test.cpp evaluator_emulator_under_test.cpp
    LIBRARIES evaluator_cuda evaluator_emulator kernelforge_wire kernelforge_base)
target_compile_definitions(contract_evaluator_test_objects PRIVATE
    KERNELFORGE_FAKE_WORKER="$<TARGET_FILE:kernelforge_fake_worker>")
add_dependencies(contract_evaluator_test_objects kernelforge_fake_worker)
