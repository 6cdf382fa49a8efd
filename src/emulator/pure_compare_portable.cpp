// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_ISA portable
#include "emulator/pure_compare.inl"
