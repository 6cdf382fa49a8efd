// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/export.hpp"
#include "kernelforge/llm_backend.hpp"
#include "kernelforge/log.hpp"

namespace kernelforge {

/// Where the completions of a recording come from. Format: docs/recording_format.md.
struct RecordingHeader {
    std::string author;      ///< who wrote the completions: a model's name, a person
    std::string definition;  ///< name of the definition that they were asked for
    std::string created;     ///< UTC, `2026-01-31T12:00:00Z`; empty: `record` fills in the present
    std::string note;
};

/// One recorded completion.
struct RecordedCompletion {
    CompletionKey key;
    std::string prompt_sha256;  ///< of the request that it answered; empty: not known
    ChatReply reply;            ///< never pending
};

/// All of one recording. No key appears twice.
struct Recording {
    RecordingHeader header;
    std::vector<RecordedCompletion> completions;  ///< in file order
    bool torn = false;                            ///< an incomplete last line was dropped
};

/// SHA-256 over what the model sees of a request: messages and tools, not the key and not the
/// limits. 64 lower-case hexadecimal digits.
[[nodiscard]] KERNELFORGE_EXPORT std::string prompt_sha256(const ChatRequest& request);

/// Reads a recording. A last line without newline, the rest of an interrupted write, is dropped and
/// reported to `log`.
/// @throws Error parse (with file, line, column), unsupported (a later version), not_found, io
[[nodiscard]] KERNELFORGE_EXPORT Recording read_recording(const std::string& path,
                                                          const LogSink& log = {});

/// The same from text; `file` is its name in messages.
/// @throws Error parse, unsupported
[[nodiscard]] KERNELFORGE_EXPORT Recording parse_recording(std::string_view text,
                                                           const std::string& file,
                                                           const LogSink& log = {});

/// Wraps `inner` so that every completion is on disk before `complete` returns it. The file is
/// created, or continued when it exists; it stays locked as long as the object lives. A pending
/// reply is not recorded. A key that was recorded is not asked again: the same prompt is answered
/// from the recording, another prompt under that key is an error, as is a key that is being asked
/// just now.
/// @throws Error invalid_argument (no inner backend; the file is by another author or for another
///         definition), parse, unsupported, io. `complete` adds io (the disk is full): the
///         completion is kept in memory, and asking again with the same key only writes it again.
[[nodiscard]] KERNELFORGE_EXPORT std::unique_ptr<LlmBackend> record(
    std::unique_ptr<LlmBackend> inner, std::string path, RecordingHeader header, LogSink log = {});

}  // namespace kernelforge
