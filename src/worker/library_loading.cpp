// SPDX-License-Identifier: Apache-2.0
#include "worker/library_loading.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "kernelforge/error.hpp"

namespace kernelforge::worker::library {

namespace {

struct Attempts {
    std::string tried;
    std::string reason;  ///< of the last file that was there and did not load, or of the last name

    void* open(const std::string& path) {
        tried += (tried.empty() ? "" : ", ") + path;
        // RTLD_LOCAL: the host's own copy, if there is one, stays what its code is bound to.
        void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            const char* text = ::dlerror();
            reason = text == nullptr ? "no reason given" : text;
        }
        return handle;
    }
};

}  // namespace

std::vector<std::string> wheel_folders(std::string_view folder, std::string_view component) {
    const std::string base(folder);
    const std::string name(component);
    return {base,
            base + "/lib64",
            base + "/lib",
            base + "/" + name + "/lib",
            base + "/cu13/lib",
            base + "/nvidia/" + name + "/lib",
            base + "/nvidia/cu13/lib"};
}

LoadedLibrary::LoadedLibrary(std::string what, const std::vector<std::string>& names,
                             const std::vector<std::string>& folders)
    : what_(std::move(what)) {
    Attempts attempts;
    for (const std::string& folder : folders) {
        for (const std::string& name : names) {
            const std::string path = folder + "/" + name;
            std::error_code ignored;
            if (!std::filesystem::exists(path, ignored)) continue;
            handle_ = attempts.open(path);
            if (handle_ == nullptr) continue;
            path_ = path;
            return;
        }
    }
    for (const std::string& name : names) {
        handle_ = attempts.open(name);
        if (handle_ == nullptr) continue;
        path_ = name;
        return;
    }
    std::string looked;
    for (const std::string& folder : folders) looked += (looked.empty() ? "" : ", ") + folder;
    throw Error(ErrorCode::unsupported, what_ + " is not there: tried " + attempts.tried +
                                            (looked.empty() ? "" : ", looked in " + looked) + ": " +
                                            attempts.reason);
}

void* LoadedLibrary::symbol(const char* name) const {
    void* address = ::dlsym(handle_, name);
    if (address == nullptr) {
        throw Error(ErrorCode::unsupported,
                    what_ + " (" + path_ + ") has no function " + name + ": it is too old");
    }
    return address;
}

}  // namespace kernelforge::worker::library
