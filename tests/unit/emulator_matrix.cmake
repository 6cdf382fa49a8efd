# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit emulator_matrix
    SOURCES emulator_async_test.cpp emulator_matrix_test.cpp emulator_mma_test.cpp
            emulator_tensor_test.cpp emulator_wgmma_test.cpp
    LIBRARIES kernelforge_emulator_matrix)
