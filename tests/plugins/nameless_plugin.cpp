// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/plugin.hpp"

KERNELFORGE_PLUGIN(nameless) = {KERNELFORGE_PLUGIN_HEAD("", "1")};
