// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/plugin.hpp"

KERNELFORGE_PLUGIN(wrong_stamp) = {.abi_epoch = KERNELFORGE_ABI_EPOCH,
                                   .build_stamp = "other-compiler libother",
                                   .name = "wrong_stamp",
                                   .version = "1"};
