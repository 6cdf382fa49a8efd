// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_REDUCE_NAME bf16
#define KERNELFORGE_REDUCE_IN __nv_bfloat16
#define KERNELFORGE_REDUCE_SUM float
#include "worker/library/reduce.cuh"
