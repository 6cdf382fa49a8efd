// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <set>

#include "archive.hpp"
#include "base/json_text.hpp"
#include "support/catch.hpp"
#include "support/forge_world.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

namespace fs = std::filesystem;

/// A run in which most things happen: repairs, a duplicate, a failed call, new leaders, prose.
void fill(ForgeWorld& world) {
    world.options.max_repairs = 2;
    world.options.budget.evaluations = 7;
    world.expansions = 10;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 7'001, .status = EvaluationStatus::compile_error}, 0);
    world.reply(1, {.time_ns = 7'002, .status = EvaluationStatus::wrong_result}, 1);
    world.reply(1, {.time_ns = 7'000}, 2);
    world.llm->replies[{2, 0}] = "no code today";
    world.reply(3, {.time_ns = 8'000});
    world.llm->errors[{4, 0}] = ErrorCode::backend_failed;
    world.reply(5, {.time_ns = 6'500, .slower_in_promotion = 20});
    world.reply(6, {.time_ns = 5'000});
    world.reply(7, {.time_ns = 5'500});
    world.reply(8, {.time_ns = 5'200});
}

/// The archive without what differs from run to run: times.
std::vector<std::string> lines_of(const fs::path& archive) {
    std::vector<std::string> lines;
    const std::string text = read_file(archive);
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        Json line = Json::parse(text.substr(begin, end - begin));
        for (const char* timed : {"elapsed", "elapsed_s"}) {
            if (line.is_object()) line.erase(timed);
            for (auto& member : line) {
                if (member.is_object()) member.erase(timed);
            }
        }
        lines.push_back(line.dump());
        begin = end + 1;
    }
    return lines;
}

/// Every place at which a crash may leave the archive: after each line, and in the middle of each.
std::vector<std::size_t> cuts_of(const std::string& text) {
    std::vector<std::size_t> cuts = {0};
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin) + 1;
        cuts.push_back((begin + end) / 2);
        cuts.push_back(end);
        begin = end;
    }
    return cuts;
}

void check_same(const ForgeResult& a, const ForgeResult& b) {
    CHECK(a.stop_reason == b.stop_reason);
    CHECK(a.message == b.message);
    CHECK(a.best_node == b.best_node);
    CHECK(a.speedup == b.speedup);
    CHECK(a.evaluations == b.evaluations);
    CHECK(a.expansions == b.expansions);
    CHECK(a.usage.input_tokens == b.usage.input_tokens);
    CHECK(a.usage.cost_usd == b.usage.cost_usd);
}

void check_same(const std::vector<NodeSummary>& a, const std::vector<NodeSummary>& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].expansion == b[i].expansion);
        CHECK(a[i].outcome == b[i].outcome);
        CHECK(a[i].node == b[i].node);
        CHECK(a[i].parent == b[i].parent);
        CHECK(a[i].status == b[i].status);
        CHECK(a[i].speedup == b[i].speedup);
        CHECK(a[i].leader == b[i].leader);
        CHECK(a[i].message == b[i].message);
    }
}

std::set<CompletionKey> replies_in(const std::string& archive_text) {
    std::set<CompletionKey> keys;
    for (const ArchiveRecord& record : parse_archive(archive_text, "archive.jsonl").records) {
        if (const auto* reply = std::get_if<ReplyRecord>(&record)) keys.insert(reply->key);
    }
    return keys;
}

void configure(ForgeWorld& world, std::size_t generations, std::size_t in_flight) {
    world.options.generations = generations;
    world.options.max_in_flight = in_flight;
}

/// Crashes the finished run of `whole` at `cut`, goes on, and compares.
void resume_at(const ForgeWorld& whole, const ForgeResult& expected, const std::string& text,
               std::size_t cut, bool same_order) {
    INFO("cut at byte " << cut << " of " << text.size());
    ForgeWorld world;
    fill(world);
    configure(world, whole.options.generations, whole.options.max_in_flight);
    const fs::path from = whole.options.run_folder;
    const fs::path to = world.options.run_folder;
    make_folder(to);
    fs::copy(from / "candidates", to / "candidates");
    write_file_atomically(to / "archive.jsonl", text.substr(0, cut));
    const std::set<CompletionKey> paid =
        cut == 0 ? std::set<CompletionKey>{} : replies_in(text.substr(0, cut));

    const ForgeResult result = world.run();
    check_same(result, expected);
    check_same(world.strategy->tells, whole.strategy->tells);
    CHECK(world.llm->most_answered() <= 1);
    for (const CompletionKey& key : paid) CHECK_FALSE(world.llm->answered.contains(key));
    std::vector<std::string> found = lines_of(to / "archive.jsonl");
    std::vector<std::string> wanted = lines_of(from / "archive.jsonl");
    if (!same_order) {
        // Replies and the nodes of failed turns are written as they come.
        std::sort(found.begin(), found.end());
        std::sort(wanted.begin(), wanted.end());
    }
    CHECK((found == wanted));
}

void resume_everywhere(std::size_t generations, std::size_t in_flight) {
    ForgeWorld whole;
    fill(whole);
    configure(whole, generations, in_flight);
    const ForgeResult expected = whole.run();
    CHECK(expected.stop_reason == StopReason::budget);
    CHECK(*expected.speedup == Approx(2.0));
    CHECK(whole.told_once_each());
    const std::string text = read_file(fs::path(whole.options.run_folder) / "archive.jsonl");
    for (const std::size_t cut : cuts_of(text)) {
        resume_at(whole, expected, text, cut, generations == 0 && in_flight == 1);
    }
}

}  // namespace

TEST_CASE("a run that is killed anywhere ends as if it had not been", "[forge][resume]") {
    resume_everywhere(0, 1);
}

TEST_CASE("a run in generations that is killed anywhere ends as if it had not been",
          "[forge][resume]") {
    resume_everywhere(3, 1);
}

TEST_CASE("a run with four in flight that is killed anywhere ends as if it had not been",
          "[forge][resume]") {
    resume_everywhere(0, 4);
}

TEST_CASE("resuming a finished run asks and evaluates nothing", "[forge][resume]") {
    ForgeWorld world;
    fill(world);
    const ForgeResult first = world.run();
    const std::vector<NodeSummary> tells = world.strategy->tells;
    const int answered = world.llm->total_answered();
    const std::size_t evaluated = world.evaluator->requests.size();
    const ForgeResult second = world.run();
    check_same(first, second);
    check_same(tells, world.strategy->tells);
    CHECK(world.llm->total_answered() == answered);
    CHECK(world.evaluator->requests.size() == evaluated);
    CHECK(second.time >= first.time);
}

TEST_CASE("a damaged archive and a changed candidate are refused", "[forge][resume]") {
    ForgeWorld world;
    fill(world);
    static_cast<void>(world.run());
    const fs::path archive = fs::path(world.options.run_folder) / "archive.jsonl";
    std::string text = read_file(archive);
    text.insert(text.find('\n') + 1, "{\"no\": \"record\"}\n");
    write_file_atomically(archive, text);
    CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
               ContainsSubstring("archive.jsonl:2"));
}
