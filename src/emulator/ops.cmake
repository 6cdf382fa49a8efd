# SPDX-License-Identifier: Apache-2.0
# Every pure_<family>.inl is compiled twice, with and without AVX2; `Isa` chooses when a function is
# looked up. The flags: optimised even in Debug builds, since an interpreter lives on these loops;
# products and sums never contracted. Not -frounding-math: GCC 12 does not vectorise fma with it, and
# what is rounded in a directed mode (RoundingScope) comes from memory that no optimiser sees through.
set(ops_flags -O3 -ffp-contract=off -fno-trapping-math -fno-math-errno)
set(ops_families integer compare convert float half)
set(ops_sources pure_ops.cpp)
set(ops_libraries kernelforge_base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(ops_has_avx2 ON)
endif()
foreach(family IN LISTS ops_families)
    list(APPEND ops_sources pure_${family}_portable.cpp)
    set_source_files_properties(pure_${family}_portable.cpp PROPERTIES COMPILE_OPTIONS "${ops_flags}")
    if(ops_has_avx2)
        list(APPEND ops_sources pure_${family}_avx2.cpp)
        set_source_files_properties(pure_${family}_avx2.cpp PROPERTIES
            COMPILE_OPTIONS "${ops_flags};-mavx2;-mfma;-mf16c")
    endif()
endforeach()
if(ops_has_avx2)
    set_source_files_properties(pure_ops.cpp PROPERTIES
        COMPILE_DEFINITIONS KERNELFORGE_EMULATOR_HAS_AVX2)
endif()
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/matrix.cmake)
    list(APPEND ops_libraries kernelforge_emulator_matrix)  # find_mma
endif()
kernelforge_add_room(emulator_ops SOURCES ${ops_sources} LIBRARIES ${ops_libraries})
