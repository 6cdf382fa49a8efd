// SPDX-License-Identifier: Apache-2.0
#include "archive.hpp"

#include <filesystem>
#include <functional>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;

namespace {

const std::string source = "//@kernelforge 1\n__global__ void k() {}\n";

Json header() {
    Json json = Json::object();
    json["task"] = "scale_add";
    json["seed"] = 7;
    return json;
}

ExpansionRecord expansion(std::uint64_t ordinal) {
    ExpansionRecord record;
    record.ordinal = ordinal;
    record.round = 2;
    record.expansion.id = 40 + ordinal;
    record.expansion.action = ExpansionAction::draft;
    record.expansion.directive = "use wider loads\nand \"quotes\"";
    record.expansion.inspirations = {NodeId{std::string(64, 'a')}};
    record.elapsed = std::chrono::duration<double>(1.5);
    return record;
}

ReplyRecord reply(std::uint64_t expansion, std::uint32_t turn) {
    ReplyRecord record;
    record.key = {expansion, turn};
    record.reply.status = ChatStatus::truncated;
    record.reply.content = "plan: x\n```cuda\n\xe2\x86\x91\n";
    record.reply.tool_calls = {{"1", "f", "{\"a\":1}"}};
    record.reply.usage.input_tokens = 100;
    record.reply.usage.cost_usd = 0.25;
    record.reply.model = "m";
    record.reply.message = "output limit";
    record.reply.time = std::chrono::duration<double>(2.25);
    return record;
}

Evaluation evaluation() {
    Evaluation value;
    value.id = "e1";
    value.status = EvaluationStatus::ok;
    WorkloadResult result;
    result.workload = 1;
    result.timing = Timing{1e-5, 1.1e-5, 0.9e-5, 1.2e-5, 10, Provenance::measured, "cupti"};
    result.paired = PairedRatio{1.25, 1.2, 1.3, 10};
    value.workloads.push_back(result);
    value.device = "NVIDIA H200";
    return value;
}

NodeRecord node(std::uint64_t expansion) {
    NodeRecord record;
    record.candidate = Candidate{source, {{"THREADS", 256}}};
    record.expansion = expansion;
    record.action = ExpansionAction::improve;
    record.turn = 1;
    record.parent = NodeId{std::string(64, 'b')};
    record.change_class = "tiling";
    record.plan = "larger tiles";
    record.expect = {{"dram__throughput", ExpectedChange::Direction::up, {}}};
    record.lesson_of_parent = "loads were narrow";
    CompileSummary compile;
    compile.diagnostics.assign(
        25,
        CompileDiagnostic{CompileDiagnostic::Severity::warning, {"candidate.cu", 3, 4}, "unused"});
    KernelFacts facts;
    facts.name = "k";
    facts.registers_per_thread = 32;
    facts.opcode_counts = {{"ffma", 12}};
    compile.kernels = {facts};
    record.compile = compile;
    record.evaluation = evaluation();
    record.promotion = evaluation();
    record.speedup = 1.25;
    record.leader = true;
    Diagnosis diagnosis;
    diagnosis.bottlenecks.push_back({{1, 0}, BottleneckKind::memory, 0.5, 0.1, 1e-6, 2.0, "half"});
    diagnosis.missing.push_back({"dram", "no counters"});
    record.diagnosis = diagnosis;
    record.elapsed = std::chrono::duration<double>(9);
    return record;
}

std::string text_of(const std::filesystem::path& folder) {
    return read_file(folder / "archive.jsonl");
}

ErrorCode code_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const Error& error) {
        return error.code();
    }
    FAIL("expected an Error");
    return ErrorCode::internal;
}

/// Writes an archive with one record of each kind.
void write_archive(const std::filesystem::path& folder) {
    Archive archive = Archive::open(folder, header());
    archive.append_expansion(expansion(0));
    archive.append_reply(reply(0, 0));
    archive.append_node(node(0));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

const std::string first_line =
    "{\"format\":\"kernelforge-archive\",\"version\":1,\"task\":\"scale_add\",\"seed\":7}\n";

std::string failure(const std::string& text) {
    return test::error_of([&] { (void)parse_archive(text, "archive.jsonl"); }).value_or("accepted");
}

}  // namespace

TEST_CASE("an archive is read back as it was written", "[archive]") {
    const TemporaryFolder folder;
    const std::filesystem::path run = folder.path() / "runs" / "one";
    write_archive(run);
    CHECK(text_of(run).starts_with(first_line));

    const Archive archive = Archive::open(run, Json::object());
    const ArchiveContents& contents = archive.contents();
    CHECK(contents.header == "{\"task\":\"scale_add\",\"seed\":7}");
    CHECK(contents.warnings.empty());
    REQUIRE(contents.records.size() == 3);

    const auto& first = std::get<ExpansionRecord>(contents.records[0]);
    CHECK(first.ordinal == 0);
    CHECK(first.round == 2);
    CHECK(first.expansion.id == 40);
    CHECK(first.expansion.directive == "use wider loads\nand \"quotes\"");
    CHECK(first.expansion.inspirations == std::vector<NodeId>{NodeId{std::string(64, 'a')}});
    CHECK(first.elapsed.count() == 1.5);

    const auto& second = std::get<ReplyRecord>(contents.records[1]);
    CHECK(second.key == CompletionKey{0, 0});
    CHECK(second.reply.status == ChatStatus::truncated);
    CHECK(second.reply.content == "plan: x\n```cuda\n\xe2\x86\x91\n");
    CHECK(second.reply.tool_calls.at(0).arguments == "{\"a\":1}");
    CHECK(second.reply.usage.input_tokens == 100);
    CHECK_FALSE(second.reply.usage.output_tokens.has_value());
    CHECK(second.reply.usage.cost_usd == 0.25);
    CHECK(second.reply.time.count() == 2.25);

    const auto& third = std::get<NodeRecord>(contents.records[2]);
    REQUIRE(third.candidate.has_value());
    CHECK(*third.candidate == Candidate{source, {{"THREADS", 256}}});
    CHECK(third.id == node_id(*third.candidate));
    CHECK(third.source_file == "candidates/" + sha256_hex(source) + ".cu");
    CHECK(third.expansion == std::uint64_t{0});
    CHECK(third.action == ExpansionAction::improve);
    CHECK(third.turn == 1);
    CHECK(third.final);
    CHECK(third.change_class == "tiling");
    CHECK(third.expect.at(0).direction == ExpectedChange::Direction::up);
    REQUIRE(third.compile.has_value());
    CHECK(third.compile->diagnostics.size() == CompileSummary::max_diagnostics);
    CHECK(third.compile->diagnostics[0].position.line == 3);
    CHECK(third.compile->kernels.at(0).registers_per_thread == 32);
    CHECK(third.compile->kernels.at(0).opcode_counts.at("ffma") == 12);
    REQUIRE(third.evaluation.has_value());
    CHECK(third.evaluation->workloads.at(0).timing->median_s == 1e-5);
    CHECK(third.promotion->workloads.at(0).paired->ratio == 1.25);
    CHECK(third.speedup == 1.25);
    CHECK(third.leader);
    CHECK(third.diagnosis->bottlenecks.at(0).kind == BottleneckKind::memory);
    CHECK(third.diagnosis->missing.at(0).why == "no counters");

    REQUIRE(archive.find_reply({0, 0}) != nullptr);
    CHECK(archive.find_reply({0, 0})->model == "m");
    CHECK(archive.find_reply({0, 1}) == nullptr);
    REQUIRE(archive.find_node(third.id) != nullptr);
    CHECK(archive.find_node(NodeId{}) == nullptr);
}

TEST_CASE("a node without a candidate is kept", "[archive]") {
    const TemporaryFolder folder;
    {
        Archive archive = Archive::open(folder.path(), header());
        archive.append_expansion(expansion(5));
        NodeRecord record;
        record.expansion = 5;
        record.outcome = ExpansionOutcome::no_candidate;
        record.message = "the reply is empty";
        archive.append_node(record);
        NodeRecord given;
        given.candidate = Candidate{source, {}};
        archive.append_node(given);
    }
    const ArchiveContents contents = read_archive(folder.path());
    const auto& none = std::get<NodeRecord>(contents.records.at(1));
    CHECK(none.id.empty());
    CHECK_FALSE(none.candidate.has_value());
    CHECK(none.outcome == ExpansionOutcome::no_candidate);
    CHECK_FALSE(none.evaluation.has_value());
    CHECK_FALSE(none.speedup.has_value());
    CHECK_FALSE(std::get<NodeRecord>(contents.records.at(2)).expansion.has_value());
}

TEST_CASE("what is appended after reopening follows what was there", "[archive]") {
    const TemporaryFolder folder;
    write_archive(folder.path());
    {
        Archive archive = Archive::open(folder.path(), header());
        archive.append_expansion(expansion(1));
        CHECK(archive.contents().records.size() == 4);
    }
    const ArchiveContents contents = read_archive(folder.path());
    REQUIRE(contents.records.size() == 4);
    CHECK(std::get<ExpansionRecord>(contents.records[3]).ordinal == 1);
}

TEST_CASE("an archive cut off anywhere in its last line loses that line only", "[archive]") {
    const TemporaryFolder folder;
    write_archive(folder.path());
    const std::string text = text_of(folder.path());
    const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
    for (std::size_t size = last; size < text.size(); ++size) {
        INFO("cut to " << size << " of " << text.size() << " bytes");
        const ArchiveContents contents = parse_archive(text.substr(0, size), "a");
        REQUIRE(contents.records.size() == 2);
        REQUIRE(contents.warnings.size() == (size == last ? 0 : 1));
    }
    CHECK(parse_archive(text, "a").records.size() == 3);
    const ArchiveContents torn = parse_archive(text.substr(0, text.size() - 1), "a");
    CHECK(torn.warnings.at(0) ==
          "a:4: the last line was cut off by an interruption and is dropped");
}

TEST_CASE("a run goes on after its archive was cut off anywhere in its last line", "[archive]") {
    const TemporaryFolder folder;
    write_archive(folder.path());
    const std::string text = text_of(folder.path());
    const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
    // Every 40th place: each takes a few syncs.
    for (std::size_t size = last; size < text.size(); size += 40) {
        INFO("cut to " << size << " of " << text.size() << " bytes");
        write_file_atomically(folder.path() / "archive.jsonl", text.substr(0, size));
        {
            Archive archive = Archive::open(folder.path(), header());
            CHECK(archive.contents().warnings.size() == (size == last ? 0 : 1));
            CHECK(archive.contents().records.size() == 2);
            archive.append_node(node(0));
        }
        CHECK(text_of(folder.path()) == text);
    }
}

TEST_CASE("an archive cut off anywhere in its first line starts anew", "[archive]") {
    const TemporaryFolder folder;
    for (std::size_t size = 0; size < first_line.size(); ++size) {
        INFO("cut to " << size);
        write_file_atomically(folder.path() / "archive.jsonl", first_line.substr(0, size));
        const Archive archive = Archive::open(folder.path(), header());
        CHECK(text_of(folder.path()) == first_line);
        CHECK(archive.contents().header == "{\"task\":\"scale_add\",\"seed\":7}");
        CHECK(archive.contents().warnings.size() == (size == 0 ? 0 : 1));
    }
}

TEST_CASE("a file that is no archive is refused and left alone", "[archive]") {
    const TemporaryFolder folder;
    for (const std::string text :
         {"{\"format\":\"kernelforge-recording\",\"version\":1}", "notes of mine", "{}\n", "[]\n",
          "{\"format\":\"kernelforge-recording\",\"version\":1}\n", "{\"version\":1}\n",
          "{\"format\":\"kernelforge-archive\"}\n",
          "{\"format\":\"kernelforge-archive\",\"version\":\"1\"}\n",
          "{\"format\":\"kernelforge-archive\",\"version\":0}\n", "\n",
          "{\"format\":\"kernelforge-archive\",\"version\":2}\n"}) {
        INFO(text);
        write_file_atomically(folder.path() / "archive.jsonl", text);
        const auto message =
            test::error_of([&] { (void)Archive::open(folder.path(), header()); }).value_or("");
        CHECK_THAT(message, ContainsSubstring("archive.jsonl:1:"));
        CHECK(text_of(folder.path()) == text);
    }
    CHECK_THAT(
        failure("{\"format\":\"x\",\"version\":1}\n"),
        ContainsSubstring("archive.jsonl:1:11: expected \"kernelforge-archive\", found \"x\""));
    const std::string newer = "{\"format\":\"kernelforge-archive\",\"version\":2}\n";
    CHECK(failure(newer) ==
          "archive.jsonl:1:43: archive version 2 is newer than this program, "
          "which reads up to 1");
    CHECK(code_of([&] { (void)parse_archive(newer, "a"); }) == ErrorCode::unsupported);
}

TEST_CASE("a damaged line is reported with its place and what was expected", "[archive]") {
    const TemporaryFolder folder;
    write_archive(folder.path());
    const std::string text = text_of(folder.path());
    struct Case {
        std::string from;
        std::string to;
        std::string says;
    };
    const std::string file = "candidates/" + sha256_hex(source) + ".cu";
    const std::vector<Case> cases{
        {"{\"record\":\"expansion\"", "{\"record\":\"expansion\",,",
         "archive.jsonl:2:23: expected JSON"},
        {"{\"record\":\"expansion\",", "{", "archive.jsonl:2:1: expected a member \"record\""},
        {"\"record\":\"reply\"", "\"record\":\"replies\"",
         "archive.jsonl:3:11: expected one of: expansion, reply, node, found \"replies\""},
        {"\"record\":\"node\"", "\"record\":5", "archive.jsonl:4:11: expected a string, found 5"},
        {"\"ordinal\":0", "\"ordinal\":-1", "archive.jsonl:2:33: expected an integer from 0"},
        {"\"ordinal\":0", "\"number\":0", "archive.jsonl:2:1: expected a member \"ordinal\""},
        {"\"action\":\"draft\"", "\"action\":\"invent\"",
         "expected one of: draft, improve, repair, tune, found \"invent\""},
        {"\"turn\":0", "\"turn\":4294967296",
         "archive.jsonl:3:47: expected an integer from 0 to 4294967295, found 4294967296"},
        {"\"expansion\":0,\"turn\":0", "\"expansion\":3,\"turn\":0",
         "archive.jsonl:3:1: the reply to expansion 3, turn 0: expected a record of that "
         "expansion before, found none"},
        {"\"status\":\"truncated\"", "\"status\":\"pending\"",
         "archive.jsonl:3:1: the reply to expansion 0, turn 0: expected a completion, found one "
         "that is pending"},
        {"\"outcome\":\"evaluated\"", "\"outcome\":\"done\"",
         "expected one of: evaluated, duplicate, no_candidate, guarded, failed, found \"done\""},
        {"\"leader\":true", "\"leader\":1", "expected true or false, found 1"},
        {"\"leader\":true", "\"leader\":true,\"extra\":1",
         "unknown member \"extra\", expected one of: record, id, parent,"},
        {file, "../" + file, "expected \"candidates/<64 hexadecimal digits>.cu\""},
        {file, "candidates/../../../etc/passwd",
         "expected \"candidates/<64 hexadecimal digits>.cu\""},
        {"\"bindings\":{\"THREADS\":256},", "",
         "archive.jsonl:4:1: expected a member \"bindings\" beside \"source_file\""},
        {"\"source_file\":\"" + file + "\",", "",
         "archive.jsonl:4:1: expected a member \"source_file\" beside \"bindings\""},
        {"\"THREADS\":256", "\"THREADS\":0.5", "expected an integer, found 0.5"},
        {"\"id\":\"" + node_id(*node(0).candidate).value, "\"id\":\"",
         "archive.jsonl:4:23: expected the id of the candidate in \"source_file\", found \"\""},
        {"\"id\":\"" + node_id(*node(0).candidate).value, "\"id\":\"XY",
         "archive.jsonl:4:23: expected 64 lower-case hexadecimal digits, or an empty text"},
        {std::string(64, 'b'), "b",
         "expected 64 lower-case hexadecimal digits, or an empty text, found \"b\""},
        {"\"speedup\":1.25", "\"speedup\":\"fast\"",
         "expected a number, \"nan\", \"inf\" or \"-inf\", found \"fast\""},
        {"\n{\"record\":\"reply\"", "\n\n{\"record\":\"reply\"",
         "archive.jsonl:3:1: expected JSON"},
    };
    for (const Case& entry : cases) {
        INFO(entry.from << " -> " << entry.to);
        CHECK_THAT(failure(replaced(text, entry.from, entry.to)), ContainsSubstring(entry.says));
    }

    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at) + 1;
        lines.push_back(text.substr(at, end - at));
        at = end;
    }
    REQUIRE(lines.size() == 4);
    CHECK_THAT(failure(text + lines[1]),
               ContainsSubstring("archive.jsonl:5:1: expected an ordinal that no other expansion "
                                 "has, found 0 again"));
    CHECK_THAT(failure(text + lines[2]),
               ContainsSubstring("archive.jsonl:5:1: the reply to expansion 0, turn 0: expected "
                                 "one such record, found two"));
    CHECK_THAT(failure(text + lines[3]),
               ContainsSubstring("archive.jsonl:5:1: a node of expansion 0: expected nothing after "
                                 "its final node, found another"));
    CHECK_THAT(failure(lines[0] + lines[3]),
               ContainsSubstring("archive.jsonl:2:1: a node of expansion 0: expected a record of "
                                 "that expansion before"));
    // Only the last line may be torn.
    CHECK_THAT(failure(lines[0] + lines[1].substr(0, 30) + "\n" + lines[2]),
               ContainsSubstring("archive.jsonl:2:31: expected JSON"));
}

TEST_CASE("no cut of a complete archive crashes the reader", "[archive]") {
    const TemporaryFolder folder;
    write_archive(folder.path());
    const std::string text = text_of(folder.path());
    for (std::size_t size = 0; size <= text.size(); ++size) {
        const ArchiveContents contents = parse_archive(text.substr(0, size), "a");
        CHECK(contents.records.size() <= 3);
    }
}

TEST_CASE("a candidate's file that is gone or was changed is reported", "[archive]") {
    const TemporaryFolder folder;
    write_archive(folder.path());
    const std::filesystem::path file = folder.path() / "candidates" / (sha256_hex(source) + ".cu");
    CHECK(read_file(file) == source);
    write_file_atomically(file, source + "// edited\n");
    CHECK_THAT(test::error_of([&] { (void)read_archive(folder.path()); }).value_or(""),
               ContainsSubstring("archive.jsonl:4:1: " + file.string() +
                                 ": expected the SHA-256 that its name says"));
    std::filesystem::remove(file);
    CHECK_THAT(test::error_of([&] { (void)read_archive(folder.path()); }).value_or(""),
               ContainsSubstring("archive.jsonl:4:1: cannot open " + file.string()));
    CHECK(code_of([&] { (void)Archive::open(folder.path(), header()); }) == ErrorCode::not_found);

    write_file_atomically(file, source);
    const std::string text = text_of(folder.path());
    write_file_atomically(folder.path() / "archive.jsonl",
                          replaced(text, "\"THREADS\":256", "\"THREADS\":128"));
    CHECK_THAT(test::error_of([&] { (void)read_archive(folder.path()); }).value_or(""),
               ContainsSubstring("archive.jsonl:4:1: expected the id "));
}

TEST_CASE("records that contradict the archive are refused before anything is written",
          "[archive]") {
    const TemporaryFolder folder;
    write_archive(folder.path());
    const std::string text = text_of(folder.path());
    {
        Archive archive = Archive::open(folder.path(), header());
        const auto refused = [&](const std::function<void()>& f) {
            CHECK(code_of(f) == ErrorCode::invalid_argument);
            CHECK(text_of(folder.path()) == text);
            CHECK(archive.contents().records.size() == 3);
        };
        refused([&] { archive.append_expansion(expansion(0)); });
        refused([&] { archive.append_reply(reply(0, 0)); });
        refused([&] { archive.append_reply(reply(1, 0)); });
        refused([&] { archive.append_node(node(0)); });
        refused([&] { archive.append_node(node(1)); });
        refused([&] {
            ReplyRecord pending = reply(0, 1);
            pending.reply.status = ChatStatus::pending;
            archive.append_reply(pending);
        });
        refused([&] {
            NodeRecord record = node(0);
            record.id = NodeId{std::string(64, 'c')};
            archive.append_node(record);
        });
    }
    Json reserved = Json::object();
    reserved["format"] = "x";
    CHECK(code_of([&] { (void)Archive::open(folder.path() / "new", reserved); }) ==
          ErrorCode::invalid_argument);
    CHECK(code_of([&] { (void)Archive::open(folder.path() / "new", Json::array()); }) ==
          ErrorCode::invalid_argument);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "new"));
}

TEST_CASE("repair turns come before the final node of an expansion", "[archive]") {
    const TemporaryFolder folder;
    Archive archive = Archive::open(folder.path(), header());
    archive.append_expansion(expansion(0));
    NodeRecord first = node(0);
    first.final = false;
    first.turn = 0;
    archive.append_node(first);
    archive.append_reply(reply(0, 1));
    archive.append_node(node(0));
    CHECK(read_archive(folder.path()).records.size() == 4);
}

TEST_CASE("an archive is open for writing once, and can be read meanwhile", "[archive]") {
    const TemporaryFolder folder;
    const Archive archive = Archive::open(folder.path(), header());
    CHECK_THAT(test::error_of([&] { (void)Archive::open(folder.path(), header()); }).value_or(""),
               ContainsSubstring("another process is writing it"));
    CHECK(read_archive(folder.path()).header == "{\"task\":\"scale_add\",\"seed\":7}");
    CHECK(code_of([&] { (void)read_archive(folder.path() / "none"); }) == ErrorCode::not_found);
}

TEST_CASE("a summary of a compilation keeps the first diagnostics", "[archive]") {
    CompileResult result;
    result.status = CompileStatus::error;
    result.message = "one error";
    for (int i = 0; i < 30; ++i) {
        result.diagnostics.push_back({CompileDiagnostic::Severity::error, {}, std::to_string(i)});
    }
    result.kernels.resize(2);
    const CompileSummary summary = summarise(result);
    CHECK(summary.status == CompileStatus::error);
    CHECK(summary.message == "one error");
    REQUIRE(summary.diagnostics.size() == 20);
    CHECK(summary.diagnostics.back().message == "19");
    CHECK(summary.kernels.size() == 2);
}

TEST_CASE("the example of the archive's documentation is an archive", "[archive]") {
    const std::string text = read_file(test::source_folder() / "docs" / "archive_format.md");
    const std::string fence = "```jsonl\n";
    const std::size_t start = text.find(fence) + fence.size();
    const ArchiveContents contents =
        parse_archive(text.substr(start, text.find("```", start) - start), "archive_format.md");
    REQUIRE(contents.records.size() == 3);
    CHECK(std::get<NodeRecord>(contents.records[2]).outcome == ExpansionOutcome::no_candidate);
}

TEST_CASE("an archive that is a loop of links is an io error", "[archive]") {
    const TemporaryFolder folder;
    std::filesystem::create_symlink("archive.jsonl", folder.path() / "archive.jsonl");
    CHECK(code_of([&] { (void)Archive::open(folder.path(), header()); }) == ErrorCode::io);
}
