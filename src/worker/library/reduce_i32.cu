// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_REDUCE_NAME i32
#define KERNELFORGE_REDUCE_IN int
#define KERNELFORGE_REDUCE_SUM long long
#include "worker/library/reduce.cuh"
