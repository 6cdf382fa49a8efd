// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kernelforge::worker::library {

/// Where a library was found, and the functions of it. Never unloaded. [any]
class LoadedLibrary {
  public:
    /// Tries each of `names` (newest first) in each of `folders`, in the sub-folders that NVIDIA's
    /// Python wheels have below a folder, and then by the loader's own search. `what` names the
    /// library in messages ("cuBLASLt").
    /// @throws Error unsupported, listing what was tried and the loader's last reason
    LoadedLibrary(std::string what, const std::vector<std::string>& names,
                  const std::vector<std::string>& folders);

    /// @throws Error unsupported: the library has no such function (it is too old)
    template <class F>
    void find(F*& function, const char* name) const {
        function = reinterpret_cast<F*>(symbol(name));
    }
    /// The file that was opened, or the name that the loader found.
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

  private:
    [[nodiscard]] void* symbol(const char* name) const;

    std::string what_;
    std::string path_;
    void* handle_ = nullptr;
};

/// Sub-folders of a folder of Python wheels that may hold the libraries of `component`
/// ("cublas", "cudnn").
[[nodiscard]] std::vector<std::string> wheel_folders(std::string_view folder,
                                                     std::string_view component);

}  // namespace kernelforge::worker::library
