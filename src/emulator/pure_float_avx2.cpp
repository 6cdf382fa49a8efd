// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_ISA avx2
#include "emulator/pure_float.inl"
