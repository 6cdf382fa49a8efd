# SPDX-License-Identifier: Apache-2.0
kernelforge_add_room(emulator_checker
    SOURCES checker.cpp checker_access.cpp checker_block.cpp checker_clock.cpp checker_launch.cpp
            checker_report.cpp checker_shadow.cpp
    LIBRARIES kernelforge_base)
