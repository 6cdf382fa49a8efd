# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(contract search_strategy
    SOURCES search_strategy_test.cpp
    LIBRARIES search_greedy KernelForge::kernelforge kernelforge_base)
target_include_directories(contract_search_strategy_test_objects PRIVATE ${PROJECT_SOURCE_DIR}/plugins)
