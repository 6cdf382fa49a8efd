// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernelforge::compile {

struct NvrtcLibrary;

/// What the compile role was configured with.
struct RoleSettings {
    std::string library;  ///< of NVRTC
    std::vector<std::string> include_folders;
    std::vector<std::string> root_names;
    int precompiled_headers = 4;
    int parallel = 0;
    std::string temporary_folder;  ///< private to this worker, empty at rest
};

/// Where the JSON of a request lies from when the role announces it until its keeper has read it.
/// On the socket it could fill the buffer while the keeper's own answer fills the other one.
[[nodiscard]] std::string request_path(const RoleSettings& settings, std::uint64_t id);

/// Messages between the role and a keeper: one letter, the request's number as 16 hexadecimal
/// digits, and for a result the message that goes to the host.
enum class KeeperMessage : char { compile = 'C', cancel = 'X', result = 'R', ready = 'K' };
[[nodiscard]] std::string keeper_message(KeeperMessage kind, std::uint64_t id,
                                         std::string_view text = {});
struct ParsedKeeperMessage {
    KeeperMessage kind = KeeperMessage::ready;
    std::uint64_t id = 0;
    std::string_view text;  ///< into the message that was parsed
};
/// @throws Error worker_failed
[[nodiscard]] ParsedKeeperMessage parse_keeper_message(std::string_view message);

/// Body of a keeper, a process that holds the precompiled header of one include block and forks a
/// child for every compile. First makes the header, when `include_block` is not empty and that
/// works, then says `ready`, then serves until the socket closes. Returns the exit code.
int run_keeper(int socket, const RoleSettings& settings, const NvrtcLibrary& nvrtc,
               const std::string& include_block, const std::vector<std::string>& front_end_options);

}  // namespace kernelforge::compile
