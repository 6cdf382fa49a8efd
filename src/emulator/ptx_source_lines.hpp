// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

// Which line of the candidate a `.loc` means.

namespace kernelforge::emulator::ptx {

/// What `.loc` names: file number, line, column.
struct Location {
    std::uint64_t file = 0, line = 0, column = 0;
    [[nodiscard]] auto operator<=>(const Location&) const = default;
};

/// Follows `.loc` through one function after another.
class SourceLines {
  public:
    /// Looks for the `.file` directives of the whole text first, since they stand at its end.
    SourceLines(std::string_view text, std::string_view own_file);

    void begin_function() { lines_.clear(); }
    /// @returns the line of the candidate's file; 0: none
    [[nodiscard]] int at(const Location& location);
    /// The same for code that was inlined at `caller`. NVRTC gives the chain from the outermost
    /// call inwards, each link as a `.loc` of its own before the next.
    [[nodiscard]] int inlined(const Location& location, const Location& caller);

  private:
    [[nodiscard]] bool own(const Location& location) const {
        return own_files_.count(location.file) != 0;
    }
    std::set<std::uint64_t> own_files_;
    std::map<Location, int> lines_;  ///< of places in other files: what calls them
};

}  // namespace kernelforge::emulator::ptx
