// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_REDUCE_NAME i64
#define KERNELFORGE_REDUCE_IN long long
#define KERNELFORGE_REDUCE_SUM long long
#include "worker/library/reduce.cuh"
