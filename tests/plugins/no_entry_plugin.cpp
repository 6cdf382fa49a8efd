// SPDX-License-Identifier: Apache-2.0
extern "C" __attribute__((visibility("default"))) int some_function();
int some_function() {
    return 1;
}
