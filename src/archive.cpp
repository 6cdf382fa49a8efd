// SPDX-License-Identifier: Apache-2.0
#include "archive.hpp"

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "wire/codec_fields.hpp"

namespace kernelforge {
namespace {

constexpr std::string_view format_name = "kernelforge-archive";
constexpr std::size_t max_archive_bytes = std::size_t{1} << 30;
constexpr std::size_t max_candidate_bytes = std::size_t{16} << 20;

// The lines as they stand in the file; member names are the names here.

struct ExpansionLine {
    std::string record;
    std::uint64_t ordinal = 0;
    std::uint64_t round = 0;
    Expansion expansion;
    std::chrono::duration<double> elapsed{0};
};

struct ReplyLine {
    std::string record;
    CompletionKey key;
    ChatReply reply;
    std::chrono::duration<double> elapsed{0};
};

struct CompileLine {
    CompileStatus status = CompileStatus::ok;
    std::string message;
    std::vector<CompileDiagnostic> diagnostics;
    std::vector<KernelFacts> kernels;
};

struct NodeLine {
    std::string record;
    NodeId id;
    NodeId parent;
    std::optional<std::uint64_t> expansion;
    ExpansionAction action = ExpansionAction::draft;
    std::uint32_t turn = 0;
    bool final = true;
    std::optional<std::string> source_file;
    std::optional<Bindings> bindings;
    std::string change_class;
    std::string plan;
    std::vector<ExpectedChange> expect;
    std::string lesson_of_parent;
    std::optional<CompileLine> compile;
    ExpansionOutcome outcome = ExpansionOutcome::evaluated;
    EvaluationStatus status = EvaluationStatus::ok;
    std::optional<Evaluation> evaluation;
    std::optional<Evaluation> promotion;
    std::optional<double> speedup;
    bool leader = false;
    std::string message;
    std::optional<Diagnosis> diagnosis;
    std::chrono::duration<double> elapsed{0};
};

}  // namespace

namespace wire {

KERNELFORGE_WIRE_FIELDS(CompletionKey, expansion, turn)
KERNELFORGE_WIRE_FIELDS(ExpectedChange, metric, direction, factor)
KERNELFORGE_WIRE_FIELDS(ExpansionLine, record, ordinal, round, expansion, elapsed)
KERNELFORGE_WIRE_FIELDS(ReplyLine, record, key, reply, elapsed)
KERNELFORGE_WIRE_FIELDS(CompileLine, status, message, diagnostics, kernels)
KERNELFORGE_WIRE_FIELDS(NodeLine, record, id, parent, expansion, action, turn, final, source_file,
                        bindings, change_class, plan, expect, lesson_of_parent, compile, outcome,
                        status, evaluation, promotion, speedup, leader, message, diagnosis, elapsed)

}  // namespace wire

namespace {

bool is_hexadecimal(std::string_view text) {
    return text.size() == 64 &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string candidate_file(const std::string& source) {
    return "candidates/" + sha256_hex(source) + ".cu";
}

bool is_candidate_file(std::string_view name) {
    return name.starts_with("candidates/") && name.ends_with(".cu") && name.size() == 11 + 64 + 3 &&
           is_hexadecimal(name.substr(11, 64));
}

std::string line_of(const ExpansionRecord& record) {
    return dump_json(wire::encode_object(ExpansionLine{"expansion", record.ordinal, record.round,
                                                       record.expansion, record.elapsed}));
}

std::string line_of(const ReplyRecord& record) {
    return dump_json(
        wire::encode_object(ReplyLine{"reply", record.key, record.reply, record.elapsed}));
}

std::string line_of(const NodeRecord& record) {
    NodeLine line;
    line.record = "node";
    line.id = record.id;
    line.parent = record.parent;
    line.expansion = record.expansion;
    line.action = record.action;
    line.turn = record.turn;
    line.final = record.final;
    if (record.candidate) {
        line.source_file = record.source_file;
        line.bindings = record.candidate->bindings;
    }
    line.change_class = record.change_class;
    line.plan = record.plan;
    line.expect = record.expect;
    line.lesson_of_parent = record.lesson_of_parent;
    if (record.compile) {
        line.compile = CompileLine{record.compile->status, record.compile->message,
                                   record.compile->diagnostics, record.compile->kernels};
    }
    line.outcome = record.outcome;
    line.status = record.status;
    line.evaluation = record.evaluation;
    line.promotion = record.promotion;
    line.speedup = record.speedup;
    line.leader = record.leader;
    line.message = record.message;
    line.diagnosis = record.diagnosis;
    line.elapsed = record.elapsed;
    return dump_json(wire::encode_object(line));
}

void check_node_names(const JsonNode& node, const NodeLine& line) {
    if (!line.id.empty() && !is_hexadecimal(line.id.value)) {
        node.at("id").expected("64 lower-case hexadecimal digits, or an empty text");
    }
    if (!line.parent.empty() && !is_hexadecimal(line.parent.value)) {
        node.at("parent").expected("64 lower-case hexadecimal digits, or an empty text");
    }
    if (line.source_file && !is_candidate_file(*line.source_file)) {
        node.at("source_file").expected("\"candidates/<64 hexadecimal digits>.cu\"");
    }
    if (line.source_file && !line.bindings) {
        node.fail(ErrorCode::parse, "expected a member \"bindings\" beside \"source_file\"");
    }
    if (line.bindings && !line.source_file) {
        node.fail(ErrorCode::parse, "expected a member \"source_file\" beside \"bindings\"");
    }
    if (line.source_file && line.id.empty()) {
        node.at("id").expected("the id of the candidate in \"source_file\"");
    }
}

NodeRecord read_node(const JsonNode& node) {
    NodeLine line = wire::decode_object<NodeLine>(node);
    check_node_names(node, line);
    NodeRecord record;
    record.id = std::move(line.id);
    record.parent = std::move(line.parent);
    record.expansion = line.expansion;
    record.action = line.action;
    record.turn = line.turn;
    record.final = line.final;
    if (line.source_file) {
        record.source_file = std::move(*line.source_file);
        record.candidate = Candidate{"", std::move(*line.bindings)};
    }
    record.change_class = std::move(line.change_class);
    record.plan = std::move(line.plan);
    record.expect = std::move(line.expect);
    record.lesson_of_parent = std::move(line.lesson_of_parent);
    if (line.compile) {
        record.compile =
            CompileSummary{line.compile->status, std::move(line.compile->message),
                           std::move(line.compile->diagnostics), std::move(line.compile->kernels)};
    }
    record.outcome = line.outcome;
    record.status = line.status;
    record.evaluation = std::move(line.evaluation);
    record.promotion = std::move(line.promotion);
    record.speedup = line.speedup;
    record.leader = line.leader;
    record.message = std::move(line.message);
    record.diagnosis = std::move(line.diagnosis);
    record.elapsed = line.elapsed;
    return record;
}

ArchiveRecord read_record(const JsonNode& node) {
    const JsonNode kind = node.at("record");
    const std::string name = kind.as_string();
    if (name == "expansion") {
        ExpansionLine line = wire::decode_object<ExpansionLine>(node);
        return ExpansionRecord{line.ordinal, line.round, std::move(line.expansion), line.elapsed};
    }
    if (name == "reply") {
        ReplyLine line = wire::decode_object<ReplyLine>(node);
        return ReplyRecord{line.key, std::move(line.reply), line.elapsed};
    }
    if (name == "node") return read_node(node);
    kind.expected("one of: expansion, reply, node");
}

std::string header_line(const Json& header) {
    if (!header.is_object() || header.contains("format") || header.contains("version")) {
        throw Error(ErrorCode::invalid_argument,
                    "archive header: expected an object without format and version, found " +
                        dump_json(header).substr(0, 60));
    }
    Json first = Json::object();
    first["format"] = std::string(format_name);
    first["version"] = Archive::version;
    for (const auto& [key, value] : header.items()) first[key] = value;
    return dump_json(first);
}

/// The caller's part of the first line.
std::string read_header(std::string line, const std::string& file) {
    const JsonDocument document(std::move(line), file);
    const JsonNode format = document.root().at("format");
    if (format.json() != std::string(format_name)) {
        format.expected("\"" + std::string(format_name) + "\"");
    }
    const JsonNode version = document.root().at("version");
    if (version.as_integer(1, INT64_MAX) > Archive::version) {
        version.fail(ErrorCode::unsupported, "archive version " +
                                                 std::to_string(version.as_integer()) +
                                                 " is newer than this program, which reads up to " +
                                                 std::to_string(Archive::version));
    }
    Json header = document.value();
    header.erase("format");
    header.erase("version");
    return dump_json(header);
}

/// Whether a first line without newline is what an interrupted creation leaves.
bool is_torn_header(std::string_view line) {
    const std::string start = "{\"format\":\"" + std::string(format_name) +
                              "\",\"version\":" + std::to_string(Archive::version);
    const std::size_t common = std::min(line.size(), start.size());
    return line.substr(0, common) == std::string_view(start).substr(0, common);
}

std::string torn_warning(const std::string& file, std::size_t line) {
    return file + ":" + std::to_string(line) +
           ": the last line was cut off by an interruption and is dropped";
}

/// Gives every candidate its source and checks it against its names.
void load_sources(ArchiveContents& contents, const std::filesystem::path& folder) {
    for (std::size_t i = 0; i < contents.records.size(); ++i) {
        auto* node = std::get_if<NodeRecord>(&contents.records[i]);
        if (node == nullptr || !node->candidate) continue;
        // One record a line, after the header.
        const SourcePosition position{(folder / "archive.jsonl").string(), i + 2, 1};
        const std::filesystem::path path = folder / node->source_file;
        try {
            node->candidate->source = read_file(path, max_candidate_bytes);
        } catch (const Error& error) {
            throw Error(error.code(), position, error.what());
        }
        if (candidate_file(node->candidate->source) != node->source_file) {
            throw Error(ErrorCode::parse, position,
                        path.string() + ": expected the SHA-256 that its name says, found " +
                            sha256_hex(node->candidate->source) + ": the file was changed");
        }
        if (node_id(*node->candidate) != node->id) {
            throw Error(ErrorCode::parse, position,
                        "expected the id " + node_id(*node->candidate).value +
                            " of source and bindings, found " + node->id.value);
        }
    }
}

}  // namespace

CompileSummary summarise(const CompileResult& result) {
    CompileSummary summary{result.status, result.message, result.diagnostics, result.kernels};
    if (summary.diagnostics.size() > CompileSummary::max_diagnostics) {
        summary.diagnostics.resize(CompileSummary::max_diagnostics);
    }
    return summary;
}

std::string ArchiveIndex::objection(const ArchiveRecord& record) const {
    if (const auto* expansion = std::get_if<ExpansionRecord>(&record)) {
        if (!expansions_.contains(expansion->ordinal)) return {};
        return "expected an ordinal that no other expansion has, found " +
               std::to_string(expansion->ordinal) + " again";
    }
    if (const auto* reply = std::get_if<ReplyRecord>(&record)) {
        const std::string name = "the reply to expansion " + std::to_string(reply->key.expansion) +
                                 ", turn " + std::to_string(reply->key.turn);
        if (!expansions_.contains(reply->key.expansion)) {
            return name + ": expected a record of that expansion before, found none";
        }
        if (replies_.contains(reply->key)) return name + ": expected one such record, found two";
        if (reply->reply.status == ChatStatus::pending) {
            return name + ": expected a completion, found one that is pending";
        }
        return {};
    }
    const auto& node = std::get<NodeRecord>(record);
    if (!node.expansion) return {};
    const std::string name = "a node of expansion " + std::to_string(*node.expansion);
    if (!expansions_.contains(*node.expansion)) {
        return name + ": expected a record of that expansion before, found none";
    }
    if (ended_.contains(*node.expansion)) {
        return name + ": expected nothing after its final node, found another";
    }
    return {};
}

void ArchiveIndex::add(const ArchiveRecord& record) {
    if (const auto* expansion = std::get_if<ExpansionRecord>(&record)) {
        expansions_.insert(expansion->ordinal);
    } else if (const auto* reply = std::get_if<ReplyRecord>(&record)) {
        replies_.insert(reply->key);
    } else if (const auto& node = std::get<NodeRecord>(record); node.expansion && node.final) {
        ended_.insert(*node.expansion);
    }
}

ArchiveContents parse_archive(std::string_view text, const std::string& file) {
    ArchiveContents contents;
    ArchiveIndex index;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) {
            if (number == 1 && !is_torn_header(text)) {
                (void)read_header(std::string(text), file);  // says what is wrong with it
            }
            contents.warnings.push_back(torn_warning(file, number));
            break;
        }
        std::string line(text.substr(0, end));
        text.remove_prefix(end + 1);
        if (number == 1) {
            contents.header = read_header(std::move(line), file);
            continue;
        }
        const JsonDocument document(std::move(line), file, number);
        ArchiveRecord record = read_record(document.root());
        if (const std::string objection = index.objection(record); !objection.empty()) {
            document.root().fail(ErrorCode::parse, objection);
        }
        index.add(record);
        contents.records.push_back(std::move(record));
    }
    return contents;
}

ArchiveContents read_archive(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "archive.jsonl";
    ArchiveContents contents = parse_archive(read_file(path, max_archive_bytes), path.string());
    load_sources(contents, folder);
    return contents;
}

Archive::Archive(std::filesystem::path folder, AppendFile file, ArchiveContents contents)
    : folder_(std::move(folder)), file_(std::move(file)), contents_(std::move(contents)) {
    for (const ArchiveRecord& record : contents_.records) index_.add(record);
}

Archive Archive::open(const std::filesystem::path& folder, const Json& header) {
    const std::string first_line = header_line(header);
    const std::filesystem::path path = folder / "archive.jsonl";
    make_folder(folder / "candidates");
    // Before opening for writing, which cuts off an unfinished line: that must not happen to a file
    // that is no archive.
    std::error_code failure;
    const bool exists = std::filesystem::exists(path, failure);
    if (failure) {
        throw Error(ErrorCode::io, path.string() + ": cannot be looked at: " + failure.message());
    }
    if (exists) {
        (void)parse_archive(read_file(path, max_archive_bytes), path.string());
    }
    AppendFile file(path);
    ArchiveContents contents = read_archive(folder);
    if (file.was_torn()) {
        const std::size_t lines = contents.header.empty() ? 0 : contents.records.size() + 1;
        contents.warnings.push_back(torn_warning(path.string(), lines + 1));
    }
    if (contents.header.empty()) {
        file.append(first_line);
        contents.header = dump_json(header);
    }
    return {folder, std::move(file), std::move(contents)};
}

void Archive::append(ArchiveRecord record, const std::string& line) {
    if (const std::string objection = index_.objection(record); !objection.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    (folder_ / "archive.jsonl").string() + ": " + objection);
    }
    file_.append(line);
    index_.add(record);
    contents_.records.push_back(std::move(record));
}

void Archive::append_expansion(ExpansionRecord record) {
    const std::string line = line_of(record);
    append(std::move(record), line);
}

void Archive::append_reply(ReplyRecord record) {
    const std::string line = line_of(record);
    append(std::move(record), line);
}

void Archive::append_node(NodeRecord record) {
    record.source_file.clear();
    if (record.candidate) {
        const NodeId id = node_id(*record.candidate);
        if (!record.id.empty() && record.id != id) {
            throw Error(ErrorCode::invalid_argument, "archive node: expected the id " + id.value +
                                                         " of its candidate, found " +
                                                         record.id.value);
        }
        record.id = id;
        record.source_file = candidate_file(record.candidate->source);
    }
    if (record.compile && record.compile->diagnostics.size() > CompileSummary::max_diagnostics) {
        record.compile->diagnostics.resize(CompileSummary::max_diagnostics);
    }
    if (const std::string objection = index_.objection(record); !objection.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    (folder_ / "archive.jsonl").string() + ": " + objection);
    }
    if (record.candidate) {
        // Always written: a file of that name that an interrupted copy left short is repaired.
        write_file_atomically(folder_ / record.source_file, record.candidate->source);
    }
    const std::string line = line_of(record);
    append(std::move(record), line);
}

const ChatReply* Archive::find_reply(const CompletionKey& key) const noexcept {
    for (const ArchiveRecord& record : contents_.records) {
        const auto* reply = std::get_if<ReplyRecord>(&record);
        if (reply != nullptr && reply->key == key) return &reply->reply;
    }
    return nullptr;
}

const NodeRecord* Archive::find_node(const NodeId& id) const noexcept {
    for (auto record = contents_.records.rbegin(); record != contents_.records.rend(); ++record) {
        const auto* node = std::get_if<NodeRecord>(&*record);
        if (node != nullptr && node->id == id) return node;
    }
    return nullptr;
}

}  // namespace kernelforge
