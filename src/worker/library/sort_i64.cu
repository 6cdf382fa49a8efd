// SPDX-License-Identifier: Apache-2.0
#define KERNELFORGE_SORT_KEY long long
#define KERNELFORGE_SORT_IS_FLOAT false
#include "worker/library/sort.cuh"
