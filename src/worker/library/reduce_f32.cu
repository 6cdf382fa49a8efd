// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_REDUCE_NAME f32
#define KERNELFORGE_REDUCE_IN float
#define KERNELFORGE_REDUCE_SUM float
#include "worker/library/reduce.cuh"
