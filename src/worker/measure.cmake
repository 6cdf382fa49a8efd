# SPDX-License-Identifier: Apache-2.0
# The kernels of the library steps, as PTX like the referee's. Reductions and sorts need the headers of CUB,
# which lie beside CUDA's or in a folder of their own.
find_path(KERNELFORGE_cub_INCLUDE cub/version.cuh PATHS ${KERNELFORGE_CUDA_INCLUDE_FOLDERS} ${_kf_prefixes}
          PATH_SUFFIXES cccl include/cccl include NO_DEFAULT_PATH)
mark_as_advanced(KERNELFORGE_cub_INCLUDE)
set(library_modules common)
if(KERNELFORGE_cub_INCLUDE)
    foreach(type IN ITEMS bf16 f16 f32 f64 i32 i64)
        list(APPEND library_modules reduce_${type} sort_${type})
    endforeach()
endif()
foreach(module IN LISTS library_modules)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/library_${module}_ptx.cpp)
    add_custom_command(OUTPUT ${output}
        COMMAND kernelforge_embed_ptx ${KERNELFORGE_nvrtc_LIBRARY} compute_80
                ${CMAKE_CURRENT_SOURCE_DIR}/library/${module}.cu ${PROJECT_SOURCE_DIR}/src ${module}_ptx ${output}
                worker/library_device.hpp kernelforge::worker::library
                $<$<BOOL:${KERNELFORGE_cub_INCLUDE}>:${KERNELFORGE_cub_INCLUDE}> ${KERNELFORGE_CUDA_INCLUDE_FOLDERS}
        DEPENDS kernelforge_embed_ptx library/${module}.cu library/parameters.hpp library/reduce.cuh library/sort.cuh
        COMMENT "Compiling the kernels of library steps: ${module}" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND library_generated ${output})
endforeach()

kernelforge_add_room(measure_role
    SOURCES ${library_generated} library.cpp library_algorithms.cpp library_cublaslt.cpp library_cudnn.cpp library_device.cpp
            library_loading.cpp library_matmul.cpp library_primitives.cpp library_sdpa.cpp library_sdpa_graph.cpp
            library_shapes.cpp library_sweep.cpp library_tuning.cpp
            cupti_recorder.cpp driver.cpp measure_admission.cpp measure_bench.cpp measure_collect.cpp measure_command.cpp
            measure_compare.cpp measure_device.cpp measure_evaluate.cpp measure_journal.cpp measure_memory.cpp
            measure_program.cpp measure_role.cpp measure_roofs.cpp measure_spans.cpp measure_timer.cpp measure_watch.cpp
            measure_workload.cpp nvml.cpp static_cost.cpp
    LIBRARIES kernelforge kernelforge_wire kernelforge_plan kernelforge_referee kernelforge_compile_role kernelforge_emulator_driver KernelForge::cuda_headers
              fmt::fmt-header-only Threads::Threads ${CMAKE_DL_LIBS})
# Libraries of the toolkit that was built with are tried after the paths that a host gives.
list(JOIN KERNELFORGE_CUDA_LIBRARY_FOLDERS ":" folders)
set(definitions "KERNELFORGE_LIBRARY_FOLDERS=\"${folders}\"")
if(KERNELFORGE_cupti_LIBRARY)
    list(APPEND definitions "KERNELFORGE_CUPTI_LIBRARY=\"${KERNELFORGE_cupti_LIBRARY}\"")
endif()
set_source_files_properties(measure_role.cpp PROPERTIES COMPILE_DEFINITIONS "${definitions}")
if(KERNELFORGE_cub_INCLUDE)
    set_source_files_properties(library_device.cpp PROPERTIES COMPILE_DEFINITIONS KERNELFORGE_HAS_CUB)
    file(STRINGS "${KERNELFORGE_cub_INCLUDE}/cub/version.cuh" version REGEX "^#define CUB_VERSION [0-9]+")
    if(version MATCHES "CUB_VERSION ([0-9]+)")
        math(EXPR major "${CMAKE_MATCH_1} / 100000")
        math(EXPR minor "${CMAKE_MATCH_1} / 100 % 1000")
        math(EXPR patch "${CMAKE_MATCH_1} % 100")
        set_source_files_properties(library_primitives.cpp PROPERTIES COMPILE_DEFINITIONS
            "KERNELFORGE_CUB_VERSION=\"${major}.${minor}.${patch}\"")
    endif()
endif()
