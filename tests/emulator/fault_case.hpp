// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace kernelforge::test {

/// One file of tests/emulator/faults, as its first comments describe it:
///
///     // buffer: NAME TYPE[COUNT] CONTENT     TYPE f32, u32, u64; CONTENT input (varied),
///     counting,
///                                            ones, falling (all read-only), zeroed, output (unset)
///     // launch: KERNEL<<<BLOCKS, THREADS[, DYNAMIC BYTES][, cluster BLOCKS][, cooperative]>>>
///             (ARGUMENT, …)                  on one line;
///                                            ARGUMENT a buffer, an int, or null; in order of
///                                            launch
///     // check: NAME[INDEX] = VALUE          after the launches
///     // deadline: SECONDS                   60 where not stated
///     // expect: KIND …                      any of these kinds of Report, or nothing
///
/// Lines that the report may name end with `// HERE`.
struct FaultCase {
    enum class Content { input, counting, ones, falling, zeroed, output };
    struct Buffer {
        std::string name;
        std::string type;
        std::uint64_t count = 0;
        Content content = Content::input;
        [[nodiscard]] std::uint64_t element_bytes() const { return type == "u64" ? 8 : 4; }
        [[nodiscard]] std::uint64_t bytes() const { return count * element_bytes(); }
        [[nodiscard]] bool writable() const {
            return content == Content::zeroed || content == Content::output;
        }
    };
    struct Launch {
        std::string kernel;
        std::uint32_t blocks = 1, threads = 1, dynamic_bytes = 0, cluster = 1;
        bool cooperative = false;
        std::vector<std::string> arguments;
    };
    struct Check {
        std::string buffer;
        std::uint64_t index = 0, value = 0;
    };

    std::string name;    ///< of the file, without folder
    std::string source;  ///< the whole text
    std::vector<Buffer> buffers;
    std::vector<Launch> launches;
    std::vector<Check> checks;
    std::chrono::seconds deadline{60};
    std::set<std::string> kinds;  ///< empty: no report
    std::set<int> lines;

    [[nodiscard]] const Buffer& buffer(const std::string& name) const;
};

/// @throws Error parse: a line of the description is not as above
[[nodiscard]] FaultCase read_fault_case(const std::filesystem::path& path);

/// Bytes of a buffer before the first launch; empty for output.
[[nodiscard]] std::string initial_bytes(const FaultCase::Buffer& buffer);

}  // namespace kernelforge::test
