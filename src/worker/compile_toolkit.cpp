// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_toolkit.hpp"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <fstream>
#include <set>
#include <system_error>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "kernelforge/error.hpp"

namespace kernelforge::compile {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t max_header_bytes = std::size_t{16} << 20;

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

fs::path resolved(const fs::path& path) {
    std::error_code cause;
    fs::path result = fs::canonical(path, cause);
    return cause ? path : result;
}

/// Sub-folders of `folder` by name; empty when there is no such folder.
std::vector<fs::path> subfolders(const fs::path& folder) {
    std::vector<fs::path> result;
    std::error_code cause;
    for (fs::directory_iterator at(folder, cause), end; !cause && at != end; at.increment(cause)) {
        std::error_code ignored;
        if (at->is_directory(ignored)) result.push_back(at->path());
    }
    std::sort(result.begin(), result.end());
    return result;
}

/// Folders that may hold libnvrtc, in order: what the build was configured with, then toolkits,
/// then NVIDIA's Python wheels of the system's interpreters.
std::vector<fs::path> library_folders() {
    std::vector<fs::path> folders;
#ifdef KERNELFORGE_NVRTC_LIBRARY
    folders.push_back(fs::path(KERNELFORGE_NVRTC_LIBRARY).parent_path());
#endif
    for (const char* root : {"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"}) {
        for (const char* part : {"lib64", "lib", "targets/x86_64-linux/lib"}) {
            folders.push_back(fs::path(root) / part);
        }
    }
    folders.push_back("/usr/lib/x86_64-linux-gnu");
    for (const char* root : {"/usr/local/lib", "/usr/lib", "/opt/venv/lib"}) {
        for (const fs::path& python : subfolders(root)) {
            if (!python.filename().string().starts_with("python3")) continue;
            for (const char* packages : {"site-packages", "dist-packages"}) {
                for (const fs::path& wheel : subfolders(python / packages / "nvidia")) {
                    folders.push_back(wheel / "lib");
                }
            }
        }
    }
    return folders;
}

std::string library_in(const fs::path& folder) {
    for (const char* name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) {
        if (is_there(folder / name)) return resolved(folder / name).string();
    }
    return {};
}

std::string find_library(const CompilerOptions& options) {
    if (!options.nvrtc_library.empty()) {
        if (is_there(options.nvrtc_library)) return resolved(options.nvrtc_library).string();
        throw Error(ErrorCode::unsupported,
                    "option nvrtc_library: no file " + options.nvrtc_library);
    }
    const std::vector<fs::path> folders = library_folders();
    std::string places;
    for (const fs::path& folder : folders) {
        const std::string found = library_in(folder);
        if (!found.empty()) return found;
        if (places.size() < 600) places += (places.empty() ? "" : ", ") + folder.string();
    }
    throw Error(ErrorCode::unsupported,
                "no NVRTC: libnvrtc.so (CUDA 12.6 or newer) was looked for in " + places +
                    "; install the CUDA Toolkit or NVIDIA's Python wheels and set the option "
                    "nvrtc_library to the file");
}

/// Folders for -I that belong to a toolkit's or a wheel's include folder. CUDA 13 keeps libcu++ and
/// CUB in `cccl`, older ones beside the other headers.
void add_include_folder(std::vector<std::string>& folders, const fs::path& folder) {
    for (const fs::path& one : {folder, folder / "cccl"}) {
        const std::string text = resolved(one).string();
        if (is_there(one) && std::find(folders.begin(), folders.end(), text) == folders.end()) {
            folders.push_back(text);
        }
    }
}

std::vector<std::string> find_include_folders(const CompilerOptions& options,
                                              const std::string& library) {
    std::vector<std::string> folders;
    for (const std::string& folder : options.include_folders) {
        if (!is_there(folder)) {
            throw Error(ErrorCode::unsupported, "option include_folders: no folder " + folder);
        }
        add_include_folder(folders, folder);
    }
    if (!folders.empty()) return folders;
    const fs::path root = fs::path(library).parent_path().parent_path();
    std::vector<fs::path> places = {root / "include", root / "targets/x86_64-linux/include"};
#ifdef KERNELFORGE_CUDA_INCLUDE
    places.push_back(KERNELFORGE_CUDA_INCLUDE);
#endif
    // Wheels of CUDA 12 have a folder a package: nvidia/cuda_nvrtc/lib,
    // nvidia/cuda_runtime/include.
    places.push_back(root.parent_path() / "cuda_runtime/include");
    for (const char* usual : {"/usr/local/cuda/include", "/opt/cuda/include", "/usr/include"}) {
        places.push_back(usual);
    }
    for (const fs::path& place : places) {
        if (!is_there(place / "cuda_fp16.h")) continue;
        add_include_folder(folders, place);
        const fs::path cccl = root.parent_path() / "cuda_cccl/include";
        if (is_there(cccl)) add_include_folder(folders, cccl);
        return folders;
    }
    throw Error(ErrorCode::unsupported,
                "no CUDA headers: cuda_fp16.h was looked for in " + places.front().string() +
                    " and the usual toolkit folders; install the CUDA Toolkit's headers or set the "
                    "option include_folders");
}

std::int64_t nanoseconds(const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// Stands for the notes of a 64-bit ELF file, the GNU build id among them; empty when there are
/// none.
std::string build_id(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<char, 65536> start{};
    file.read(start.data(), start.size());
    const auto size = static_cast<std::size_t>(file.gcount());
    Elf64_Ehdr header;
    if (size < sizeof header) return {};
    std::memcpy(&header, start.data(), sizeof header);
    std::string notes;
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
        const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
        if (header.e_phoff > size || at + sizeof(Elf64_Phdr) > size) break;
        Elf64_Phdr segment;
        std::memcpy(&segment, start.data() + at, sizeof segment);
        if (segment.p_type != PT_NOTE || segment.p_offset > size ||
            segment.p_filesz > size - segment.p_offset) {
            continue;
        }
        notes.append(start.data() + segment.p_offset, segment.p_filesz);
    }
    return notes.empty() ? "" : sha256_hex(notes).substr(0, 16);
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

CompilerOptions read_compiler_options(std::string_view json) {
    const JsonDocument document{std::string(json), "compiler options"};
    const JsonNode root = document.root();
    root.only_members(
        {"nvrtc_library", "include_folders", "include_roots", "precompiled_headers", "parallel"});
    CompilerOptions options;
    options.nvrtc_library = root.string_or("nvrtc_library", "");
    if (const auto folders = root.find("include_folders")) {
        for (std::size_t i = 0; i < folders->array_size(); ++i) {
            options.include_folders.push_back(folders->at(i).as_string());
        }
    }
    if (const auto roots = root.find("include_roots")) {
        roots->for_each_member([&options](const std::string& name, const JsonNode& folder) {
            if (name.empty() || !std::all_of(name.begin(), name.end(), is_word)) {
                folder.fail(ErrorCode::invalid_argument,
                            "include root \"" + name +
                                "\": expected the first folder of an include, "
                                "as in \"cute\"");
            }
            options.include_roots.emplace_back(name, folder.as_string());
        });
    }
    if (const auto count = root.find("precompiled_headers")) {
        options.precompiled_headers = static_cast<int>(count->as_integer(0, 64));
    }
    if (const auto count = root.find("parallel")) {
        options.parallel = static_cast<int>(count->as_integer(0, 1024));
    }
    return options;
}

std::string write_compiler_options(const CompilerOptions& options) {
    Json roots = Json::object();
    for (const auto& [name, folder] : options.include_roots) roots[name] = folder;
    return dump_json(Json{{"nvrtc_library", options.nvrtc_library},
                          {"include_folders", options.include_folders},
                          {"include_roots", roots},
                          {"precompiled_headers", options.precompiled_headers},
                          {"parallel", options.parallel}});
}

Toolkit find_toolkit(const CompilerOptions& options) {
    Toolkit toolkit;
    toolkit.library = find_library(options);
    toolkit.include_folders = find_include_folders(options, toolkit.library);
    for (const auto& [name, folder] : options.include_roots) {
        if (!is_there(fs::path(folder) / name)) {
            throw Error(ErrorCode::unsupported,
                        "option include_roots: no folder " + (fs::path(folder) / name).string());
        }
        toolkit.root_names.push_back(name);
        const std::string text = resolved(folder).string();
        auto& folders = toolkit.include_folders;
        if (std::find(folders.begin(), folders.end(), text) == folders.end())
            folders.push_back(text);
    }
    return toolkit;
}

std::string library_identity(const std::string& library) {
    std::vector<std::string> files = {library};
    std::error_code cause;
    for (fs::directory_iterator at(fs::path(library).parent_path(), cause), end;
         !cause && at != end; at.increment(cause)) {
        const std::string name = at->path().filename().string();
        std::error_code ignored;
        if (name.starts_with("libnvrtc-builtins") && !at->is_symlink(ignored)) {
            files.push_back(at->path().string());
        }
    }
    std::sort(files.begin() + 1, files.end());
    std::string identity;
    for (const std::string& file : files) {
        struct stat status {};
        if (::stat(file.c_str(), &status) != 0) {
            throw Error(ErrorCode::io,
                        "cannot read " + file + ": " + std::generic_category().message(errno));
        }
        identity += fs::path(file).filename().string() + " " + std::to_string(status.st_size) +
                    " " + std::to_string(nanoseconds(status.st_mtim)) + " " + build_id(file) + "\n";
    }
    return identity;
}

HeaderIndex::HeaderIndex(std::vector<std::string> include_folders)
    : folders_(std::move(include_folders)) {}

HeaderIndex::Stamp HeaderIndex::stamp(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    return {true, static_cast<std::uintmax_t>(status.st_size), nanoseconds(status.st_mtim)};
}

std::string HeaderIndex::find(const Include& include, const std::string& from) const {
    if (include.quoted) {
        const std::string beside =
            (fs::path(from).parent_path() / include.name).lexically_normal().string();
        if (stamp(beside).exists) return beside;
    }
    for (const std::string& folder : folders_) {
        const std::string path = (fs::path(folder) / include.name).lexically_normal().string();
        if (stamp(path).exists) return path;
    }
    return {};
}

/// Finds `include` and `__has_include` followed by a header's name, whatever stands around them: a
/// name too many costs a cache miss at most.
HeaderIndex::Header HeaderIndex::read(const std::string& path, const Stamp& now) {
    Header result;
    result.size = now.size;
    result.time_ns = now.time_ns;
    const std::string text = read_file(path, max_header_bytes);
    result.hash = sha256_hex(text);
    constexpr std::string_view word = "include";
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
        const std::size_t begin = at;
        at += word.size();
        std::size_t before = begin;
        while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\t')) --before;
        const bool directive = before > 0 && text[before - 1] == '#';
        const bool query = begin >= 6 && text.compare(begin - 6, 6, "__has_") == 0;
        if (!directive && !query) continue;
        while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '(')) ++at;
        if (at >= text.size()) break;
        if (text[at] != '<' && text[at] != '"') {
            result.computed = result.computed || (directive && is_word(text[at]));
            continue;
        }
        const std::size_t end = text.find_first_of(text[at] == '<' ? ">\n" : "\"\n", at + 1);
        if (end == std::string::npos || text[end] == '\n') continue;
        result.includes.push_back({text.substr(at + 1, end - at - 1), text[at] == '"'});
    }
    return result;
}

const HeaderIndex::Header& HeaderIndex::header(const std::string& path, const Stamp& now) {
    const auto known = headers_.find(path);
    if (known != headers_.end() && known->second.size == now.size &&
        known->second.time_ns == now.time_ns) {
        return known->second;
    }
    return headers_[path] = read(path, now);
}

/// Names, sizes and times of all files below a folder: stands for the contents where an include's
/// name is made by macros.
std::string HeaderIndex::listing(const std::string& folder) {
    std::vector<std::string> lines;
    std::error_code cause;
    for (fs::recursive_directory_iterator at(folder, cause), end; !cause && at != end;
         at.increment(cause)) {
        const std::string path = at->path().string();
        const Stamp now = stamp(path);
        if (!now.exists) continue;
        lines.push_back(path.substr(folder.size()) + " " + std::to_string(now.size) + " " +
                        std::to_string(now.time_ns));
    }
    std::sort(lines.begin(), lines.end());
    Sha256 hash;
    for (const std::string& line : lines) hash.field(line);
    return hash.hex();
}

std::string HeaderIndex::fingerprint(const std::vector<std::string>& includes) {
    const std::lock_guard lock(mutex_);
    Sha256 hash;
    std::set<std::string> seen;
    std::set<std::string> listed;
    std::deque<std::string> open;
    const auto visit = [&](const Include& include, const std::string& from) {
        const std::string path = find(include, from);
        if (path.empty()) {
            if (seen.insert("?" + include.name).second) hash.field("absent " + include.name);
        } else if (seen.insert(path).second) {
            open.push_back(path);
        }
    };
    for (const std::string& name : includes) visit({name, false}, {});
    while (!open.empty()) {
        const std::string path = open.front();
        open.pop_front();
        const Header& known = header(path, stamp(path));
        hash.field(path);
        hash.field(known.hash);
        for (const Include& include : known.includes) visit(include, path);
        if (!known.computed) continue;
        for (const std::string& folder : folders_) {
            if (path.starts_with(folder + "/") && listed.insert(folder).second) {
                hash.field(listing(folder));
            }
        }
    }
    return hash.hex();
}

}  // namespace kernelforge::compile
