// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what the library exports when it is built as a shared one; all else is hidden.
#define KERNELFORGE_EXPORT __attribute__((visibility("default")))
