# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit compiler
    SOURCES compiler_cache_test.cpp compiler_source_test.cpp compiler_test.cpp cubin_test.cpp
    LIBRARIES compiler_nvrtc kernelforge_compile_role kernelforge_wire kernelforge_base)
target_include_directories(unit_compiler_test_objects PRIVATE ${PROJECT_SOURCE_DIR}/plugins)
# The compiler starts the worker; the test needs it built.
add_dependencies(unit_compiler_test_objects kernelforge_worker)
