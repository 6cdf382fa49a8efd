# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit base
    SOURCES base64_test.cpp files_test.cpp json_text_test.cpp sha256_test.cpp subprocess_test.cpp
    LIBRARIES kernelforge_base)
