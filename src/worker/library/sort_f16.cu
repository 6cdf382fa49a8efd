// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

#define KERNELFORGE_SORT_KEY __half
#define KERNELFORGE_SORT_IS_FLOAT true
#include "worker/library/sort.cuh"
