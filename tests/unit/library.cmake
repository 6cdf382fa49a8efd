# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit library
    SOURCES library_test.cpp
    LIBRARIES kernelforge_measure_role)
target_link_libraries(unit_library_test_objects PRIVATE fmt::fmt-header-only)
# Where the headers are there, the declarations of our own are compared with them.
target_include_directories(unit_library_test_objects SYSTEM PRIVATE ${KERNELFORGE_CUDA_INCLUDE_FOLDERS})
# A sanitizer would watch the library's own code.
if(NOT KERNELFORGE_SANITIZED)
    list(GET KERNELFORGE_CUDA_LIBRARY_FOLDERS 0 folder)
    target_compile_definitions(unit_library_test_objects PRIVATE KERNELFORGE_TEST_LIBRARY_FOLDER="${folder}")
endif()
