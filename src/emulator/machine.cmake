# SPDX-License-Identifier: Apache-2.0
set(sources machine.cpp machine_address.cpp machine_async.cpp machine_barrier.cpp machine_bulk.cpp machine_groups.cpp
            machine_matrix.cpp machine_memory.cpp machine_print.cpp machine_report.cpp machine_schedule.cpp
            machine_special.cpp machine_sync.cpp machine_warp.cpp memory.cpp)
kernelforge_add_room(emulator_machine
    SOURCES ${sources}
    LIBRARIES kernelforge_emulator_matrix kernelforge_emulator_ops kernelforge_emulator_ptx Threads::Threads)
# A kernel's instructions are executed here: unoptimised, tests of whole kernels would take minutes.
set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-O2")
