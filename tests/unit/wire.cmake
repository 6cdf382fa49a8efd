# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit wire
    SOURCES channel_test.cpp codec_test.cpp evaluator_folder_test.cpp
    LIBRARIES evaluator_folder kernelforge_wire kernelforge_base)
