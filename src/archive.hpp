// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files.hpp"
#include "kernelforge/candidate.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/llm_backend.hpp"
#include "kernelforge/profiler_tool.hpp"
#include "kernelforge/search_strategy.hpp"

// The record of a run, `archive.jsonl` and `candidates/` in the run folder
// (docs/archive_format.md).

namespace kernelforge {

/// What a strategy asked for. Written before its first completion is requested.
struct ExpansionRecord {
    std::uint64_t ordinal = 0;  ///< of the expansion within the run, from 0; unique in the archive
    std::uint64_t round = 0;    ///< with generations: its round, from 0; otherwise 0
    Expansion expansion;
    std::chrono::duration<double> elapsed{0};  ///< run time when written, over all resumes
};

/// A completion, paid for. On disk before it is used.
struct ReplyRecord {
    CompletionKey key;  ///< unique in the archive; its expansion has a record before
    ChatReply reply;    ///< never `pending`
    std::chrono::duration<double> elapsed{0};
};

/// What of a compilation is kept.
struct CompileSummary {
    CompileStatus status = CompileStatus::ok;
    std::string message;
    std::vector<CompileDiagnostic> diagnostics;  ///< at most `max_diagnostics`
    std::vector<KernelFacts> kernels;

    static constexpr std::size_t max_diagnostics = 20;
};

/// The summary of `result`, with its first diagnostics.
[[nodiscard]] CompileSummary summarise(const CompileResult& result);

/// What became of one turn of an expansion, or of a candidate that was given.
struct NodeRecord {
    NodeId id;                               ///< of `candidate`; empty when there is none
    NodeId parent;                           ///< empty for a draft
    std::optional<std::uint64_t> expansion;  ///< ordinal; absent for a candidate that was given
    ExpansionAction action = ExpansionAction::draft;
    std::uint32_t turn = 0;
    /// Whether the expansion ended with this record: exactly one such record an expansion. False: a
    /// repair turn follows.
    bool final = true;
    /// Absent when the reply held none. The source is in `source_file`, not in the record.
    std::optional<Candidate> candidate;
    std::string source_file;  ///< `candidates/<sha256 of the source>.cu`; set by the archive
    std::string change_class;
    std::string plan;
    std::vector<ExpectedChange> expect;
    std::string lesson_of_parent;
    std::optional<CompileSummary> compile;
    ExpansionOutcome outcome = ExpansionOutcome::evaluated;
    EvaluationStatus status = EvaluationStatus::ok;  ///< of the last judgement, when evaluated
    std::optional<Evaluation> evaluation;            ///< the screen
    std::optional<Evaluation> promotion;
    std::optional<double> speedup;  ///< geometric mean over workloads, over the baseline
    bool leader = false;            ///< became the leader
    std::string message;            ///< one sentence, empty when all is well
    std::optional<Diagnosis> diagnosis;
    std::chrono::duration<double> elapsed{0};
};

using ArchiveRecord = std::variant<ExpansionRecord, ReplyRecord, NodeRecord>;

/// Everything in an archive.
struct ArchiveContents {
    std::string header;  ///< the caller's members of the first line, a JSON object as text
    std::vector<ArchiveRecord> records;  ///< in file order
    std::vector<std::string> warnings;   ///< a torn last line was dropped
};

/// Which records may follow: ordinals and keys are unique, replies and nodes belong to an expansion
/// that is there, and an expansion ends once.
class ArchiveIndex {
  public:
    /// Why `record` cannot come next; empty when it can.
    [[nodiscard]] std::string objection(const ArchiveRecord& record) const;
    void add(const ArchiveRecord& record);

  private:
    std::set<std::uint64_t> expansions_;
    std::set<std::uint64_t> ended_;
    std::set<CompletionKey> replies_;
};

/// The archive of one run, open for writing. [control]
class Archive {
  public:
    static constexpr int version = 1;

    /// Creates the run folder and the archive with `header` in its first line, or opens what is
    /// there, reads all of it and leaves its first line alone. Locks the archive while the object
    /// lives.
    /// @param header  an object without the members `format` and `version`; compare with
    ///                `contents().header` to see whether this is the same run
    /// @throws Error parse (file:line:column; another format), unsupported (a newer version),
    ///         not_found (a candidate's file), io (also: another process has it open),
    ///         invalid_argument (`header`)
    [[nodiscard]] static Archive open(const std::filesystem::path& folder,
                                      const nlohmann::ordered_json& header);

    /// What is on disk: what was read, and what was appended since.
    [[nodiscard]] const ArchiveContents& contents() const noexcept { return contents_; }
    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

    /// Each is on disk when the call returns. References into `contents()` are then invalid.
    /// @throws Error io, invalid_argument (an ordinal or key that is there already, an expansion
    /// that
    ///         is not, a pending reply, an id that is not the candidate's)
    void append_expansion(ExpansionRecord record);
    void append_reply(ReplyRecord record);
    /// Writes the file of the candidate's source first. Sets `source_file`, and `id`
    /// where it is empty.
    void append_node(NodeRecord record);

    /// The archived reply, or null.
    [[nodiscard]] const ChatReply* find_reply(const CompletionKey& key) const noexcept;
    /// The last record of that node, or null.
    [[nodiscard]] const NodeRecord* find_node(const NodeId& id) const noexcept;

  private:
    Archive(std::filesystem::path folder, AppendFile file, ArchiveContents contents);
    std::filesystem::path folder_;
    AppendFile file_;
    ArchiveContents contents_;
    ArchiveIndex index_;

    void append(ArchiveRecord record, const std::string& line);
};

/// Reads the archive of a run folder without locking or changing it, also while a run writes it.
/// @throws Error as `Archive::open`
[[nodiscard]] ArchiveContents read_archive(const std::filesystem::path& folder);

/// Reads the text of an `archive.jsonl`. A last line without its newline is dropped with a warning.
/// Candidates have no source yet: `candidate->source` is empty.
/// @throws Error parse, unsupported
[[nodiscard]] ArchiveContents parse_archive(std::string_view text, const std::string& file);

}  // namespace kernelforge
