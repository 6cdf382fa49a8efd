# SPDX-License-Identifier: Apache-2.0
set(sources checker.cpp checker_access.cpp checker_block.cpp checker_clock.cpp checker_launch.cpp checker_report.cpp
            checker_shadow.cpp)
kernelforge_add_room(emulator_checker
    SOURCES ${sources}
    LIBRARIES kernelforge_base)
# Called for every access of a kernel: unoptimised, tests of whole kernels would take minutes. Loops over words are made
# vector ones.
set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-O3")
