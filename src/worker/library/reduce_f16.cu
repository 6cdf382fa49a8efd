// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_REDUCE_NAME f16
#define KERNELFORGE_REDUCE_IN __half
#define KERNELFORGE_REDUCE_SUM float
#include "worker/library/reduce.cuh"
