# SPDX-License-Identifier: Apache-2.0
kernelforge_add_room(measure_role
    SOURCES cupti_recorder.cpp driver.cpp measure_bench.cpp measure_collect.cpp measure_command.cpp
            measure_device.cpp measure_evaluate.cpp measure_memory.cpp measure_program.cpp measure_role.cpp
            measure_roofs.cpp measure_spans.cpp measure_timer.cpp nvml.cpp
    LIBRARIES kernelforge kernelforge_wire kernelforge_plan kernelforge_referee KernelForge::cuda_headers
              fmt::fmt-header-only Threads::Threads ${CMAKE_DL_LIBS})
# CUPTI of the toolkit that was built with is tried after the paths that a host gives.
if(KERNELFORGE_cupti_LIBRARY)
    set_source_files_properties(measure_role.cpp PROPERTIES COMPILE_DEFINITIONS
        "KERNELFORGE_CUPTI_LIBRARY=\"${KERNELFORGE_cupti_LIBRARY}\"")
endif()
