# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit formats
    SOURCES archive_test.cpp candidate_test.cpp definition_test.cpp reply_test.cpp
    LIBRARIES KernelForge::kernelforge kernelforge_wire kernelforge_plan kernelforge_base)
