// SPDX-License-Identifier: Apache-2.0
#include "support/support.hpp"

namespace kernelforge::test {

std::filesystem::path source_folder() {
    return KERNELFORGE_TEST_SOURCE_FOLDER;
}
std::filesystem::path binary_folder() {
    return KERNELFORGE_TEST_BINARY_FOLDER;
}
std::string worker_path() {
    return (binary_folder() / "bin/kernelforge-worker").string();
}

}  // namespace kernelforge::test
