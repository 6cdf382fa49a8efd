# SPDX-License-Identifier: Apache-2.0
kernelforge_add_room(emulator_ptx
    SOURCES ptx_body.cpp ptx_module.cpp ptx_parser.cpp ptx_scopes.cpp ptx_source_lines.cpp ptx_text.cpp ptx_variable.cpp
    LIBRARIES kernelforge_base)
