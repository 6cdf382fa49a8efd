# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit forge
    SOURCES admission_test.cpp builds_test.cpp forge_test.cpp forge_resume_test.cpp forge_promotion_test.cpp guards_test.cpp
            hidden_shapes_test.cpp occupancy_test.cpp
            prompt_test.cpp roofline_test.cpp search_greedy_test.cpp
    LIBRARIES search_greedy KernelForge::kernelforge kernelforge_referee kernelforge_wire kernelforge_plan
              kernelforge_base)
target_include_directories(unit_forge_test_objects PRIVATE ${PROJECT_SOURCE_DIR}/plugins)
if(EXISTS "${KERNELFORGE_cuda_INCLUDE}/cuda_occupancy.h")
    target_link_libraries(unit_forge_test_objects PRIVATE KernelForge::cuda_headers)
    target_compile_definitions(unit_forge_test_objects PRIVATE KERNELFORGE_TEST_CUDA_OCCUPANCY)
endif()
