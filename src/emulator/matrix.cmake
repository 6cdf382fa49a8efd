# SPDX-License-Identifier: Apache-2.0
kernelforge_add_room(emulator_matrix
    SOURCES async_barrier.cpp async_bulk.cpp async_combine.cpp async_tensor.cpp matrix_fragment.cpp matrix_load.cpp
            matrix_mma.cpp matrix_product.cpp matrix_wgmma.cpp
    LIBRARIES kernelforge_base fmt::fmt-header-only)
# The loops over elements take most of the time of a kernel that uses them, in debug builds too.
set_source_files_properties(matrix_fragment.cpp matrix_load.cpp
            matrix_mma.cpp matrix_product.cpp matrix_wgmma.cpp
    PROPERTIES COMPILE_OPTIONS "-O3")
