// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace kernelforge {

/// `dlopen` of an NVRTC by its path. NVRTC opens its `libnvrtc-builtins` by name alone, which the
/// loader only finds in folders it was told of: not in those of NVIDIA's Python wheels, nor in
/// those of a toolkit that nobody told it of. So what lies beside the library is opened before it;
/// the loader then takes that for the name. Null where it cannot be loaded: `dlerror` says why.
/// Never unloaded.
inline void* open_nvrtc(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code cause;
    const fs::path folder = fs::canonical(path, cause).parent_path();
    for (fs::directory_iterator at(folder, cause), end; !cause && at != end; at.increment(cause)) {
        if (at->path().filename().string().starts_with("libnvrtc-builtins.so")) {
            (void)::dlopen(at->path().c_str(), RTLD_NOW | RTLD_LOCAL);
        }
    }
    return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace kernelforge
