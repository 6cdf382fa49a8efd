// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/plugin.hpp"

KERNELFORGE_PLUGIN(wrong_epoch) = {.abi_epoch = KERNELFORGE_ABI_EPOCH + 41,
                                   .build_stamp = KERNELFORGE_BUILD_STAMP,
                                   .name = "wrong_epoch",
                                   .version = "1"};
