// SPDX-License-Identifier: Apache-2.0
#include "base/worker_path.hpp"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "kernelforge/error.hpp"

namespace kernelforge {

std::string find_worker(const std::string& configured) {
    std::vector<std::filesystem::path> places;
    if (!configured.empty()) {
        places.emplace_back(configured);
    } else {
        std::error_code ignored;
        const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
        if (!ignored) places.push_back(program.parent_path() / "kernelforge-worker");
        places.emplace_back(KERNELFORGE_INSTALLED_WORKER);
        places.emplace_back(KERNELFORGE_BUILT_WORKER);
    }
    std::string list;
    for (const auto& place : places) {
        if (::access(place.c_str(), X_OK) == 0) return place.string();
        list += (list.empty() ? "" : ", ") + place.string();
    }
    throw Error(ErrorCode::not_found, "no kernelforge-worker program, looked for " + list);
}

}  // namespace kernelforge
