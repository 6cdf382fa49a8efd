// SPDX-License-Identifier: Apache-2.0
// The module for every supported device.
#include "referee/device/admission.cuh"
#include "referee/device/compare.cuh"
#include "referee/device/digest.cuh"
#include "referee/device/fill.cuh"
#include "referee/device/roofs.cuh"
#include "referee/device/state.cuh"
