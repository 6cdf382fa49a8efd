# SPDX-License-Identifier: Apache-2.0
# The role and what the compiler plugin shares with it.
kernelforge_add_room(compile_role
    SOURCES compile_cubin.cpp compile_job.cpp compile_keeper.cpp compile_log.cpp compile_role.cpp compile_source.cpp
            compile_toolkit.cpp nvrtc_library.cpp
    LIBRARIES kernelforge_wire KernelForge::cuda_headers ${CMAKE_DL_LIBS})
# First places to look at; the usual ones follow.
set_property(SOURCE compile_toolkit.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    KERNELFORGE_NVRTC_LIBRARY="${KERNELFORGE_nvrtc_LIBRARY}" KERNELFORGE_CUDA_INCLUDE="${KERNELFORGE_cuda_INCLUDE}")
