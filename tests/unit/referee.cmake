# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit referee
    SOURCES digest_test.cpp distributions_test.cpp output_comparison_test.cpp referee_device_code_test.cpp referee_test.cpp
            statistics_test.cpp
    LIBRARIES kernelforge_referee)
if(TARGET evaluator_cuda)
    kernelforge_add_tests(unit evaluator_cuda SOURCES evaluator_cuda_test.cpp sanitizer_log_test.cpp LIBRARIES evaluator_cuda kernelforge_wire)
    target_compile_definitions(unit_evaluator_cuda_test_objects PRIVATE
        KERNELFORGE_FAKE_WORKER="$<TARGET_FILE:kernelforge_fake_worker>")
    add_dependencies(unit_evaluator_cuda_test_objects kernelforge_fake_worker)
endif()
