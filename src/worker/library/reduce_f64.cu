// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_REDUCE_NAME f64
#define KERNELFORGE_REDUCE_IN double
#define KERNELFORGE_REDUCE_SUM double
#include "worker/library/reduce.cuh"
