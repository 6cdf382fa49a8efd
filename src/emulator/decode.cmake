# SPDX-License-Identifier: Apache-2.0
kernelforge_add_room(emulator_decode
    SOURCES decode.cpp decode_layout.cpp decode_special.cpp decode_operands.cpp decode_function.cpp decode_memory.cpp
            decode_sync.cpp decode_async.cpp decode_matrix.cpp decode_wmma.cpp decode_rows.cpp decode_speculation.cpp
    LIBRARIES kernelforge_emulator_ptx kernelforge_emulator_ops kernelforge_emulator_matrix fmt::fmt-header-only)
