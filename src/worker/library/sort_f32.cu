// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_SORT_KEY float
#define KERNELFORGE_SORT_IS_FLOAT true
#include "worker/library/sort.cuh"
