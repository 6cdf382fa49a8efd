// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Where NVRTC and the headers are, and which headers a compile reads.

namespace kernelforge::compile {

/// Options of the compiler `nvrtc` (docs/compiler.md).
struct CompilerOptions {
    std::string nvrtc_library;                 ///< empty: the usual places
    std::vector<std::string> include_folders;  ///< of the toolkit; empty: beside the library
    /// First path component of an include and the folder that holds it: {"cute", "/x/include"}.
    std::vector<std::pair<std::string, std::string>> include_roots;
    int precompiled_headers = 4;  ///< how many are held; 0: none is made
    int parallel = 0;             ///< compiles at a time; 0: one a processor
};

/// @throws Error parse naming the key
[[nodiscard]] CompilerOptions read_compiler_options(std::string_view json);
/// The same as JSON text, for the worker.
[[nodiscard]] std::string write_compiler_options(const CompilerOptions& options);

/// The library and the headers that belong together.
struct Toolkit {
    std::string library;                       ///< absolute path, links resolved
    std::vector<std::string> include_folders;  ///< for -I, in order; extra roots last
    std::vector<std::string> root_names;       ///< of the extra roots
};

/// @throws Error unsupported, with the places that were looked at and the remedy
[[nodiscard]] Toolkit find_toolkit(const CompilerOptions& options);

/// File name, size, time of change and build id of the library and of the built-ins beside it.
/// @throws Error io
[[nodiscard]] std::string library_identity(const std::string& library);

/// Knows what headers contain, so that a set of includes can be given a name that changes when any
/// header that it can reach changes. Follows every `#include` and `__has_include` in a header
/// without evaluating conditions, so it sees at least the headers that a compile reads. [any]
class HeaderIndex {
  public:
    explicit HeaderIndex(std::vector<std::string> include_folders);

    /// SHA-256 over names and contents of all headers that `includes` reach. Files whose size and
    /// time are as before are not read again.
    [[nodiscard]] std::string fingerprint(const std::vector<std::string>& includes);

  private:
    struct Include {
        std::string name;
        bool quoted = false;
    };
    struct Header {
        std::uintmax_t size = 0;
        std::int64_t time_ns = 0;
        std::string hash;
        std::vector<Include> includes;
        bool computed = false;  ///< has an `#include MACRO`
    };
    struct Stamp {
        bool exists = false;
        std::uintmax_t size = 0;
        std::int64_t time_ns = 0;
    };

    [[nodiscard]] static Stamp stamp(const std::string& path);
    [[nodiscard]] std::string find(const Include& include, const std::string& from) const;
    [[nodiscard]] const Header& header(const std::string& path, const Stamp& now);
    [[nodiscard]] static Header read(const std::string& path, const Stamp& now);
    [[nodiscard]] static std::string listing(const std::string& folder);

    std::vector<std::string> folders_;
    std::mutex mutex_;                       // guards headers_
    std::map<std::string, Header> headers_;  // by path
};

}  // namespace kernelforge::compile
