// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#define KERNELFORGE_SORT_KEY __nv_bfloat16
#define KERNELFORGE_SORT_IS_FLOAT true
#include "worker/library/sort.cuh"
