// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/recording.hpp"

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <future>

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using kernelforge::test::error_of;

namespace {

const std::string head =
    R"({"format":"kernelforge-recording","version":1,"author":"a","definition":"d","created":"c","note":"n"})"
    "\n";

/// A backend that is a function.
class FunctionBackend final : public LlmBackend {
  public:
    using Function = std::function<ChatReply(const ChatRequest&)>;
    explicit FunctionBackend(Function function) : function_(std::move(function)) {}
    ChatReply complete(const ChatRequest& request, std::stop_token) override {
        return function_(request);
    }

  private:
    Function function_;
};

std::unique_ptr<LlmBackend> backend(FunctionBackend::Function function) {
    return std::make_unique<FunctionBackend>(std::move(function));
}

ChatRequest request_of(std::uint64_t expansion, std::string text = "make it faster") {
    ChatRequest request;
    request.key = {expansion, 0};
    request.messages.push_back({.role = ChatRole::user, .content = std::move(text)});
    return request;
}

ChatReply full_reply() {
    ChatReply reply;
    reply.status = ChatStatus::truncated;
    reply.content = "line one\nline \"two\"\t\xc3\xa9";
    reply.tool_calls = {{"call_1", "profile", "{\"what\":1}"}};
    reply.usage = {
        .input_tokens = 100, .cached_input_tokens = 60, .output_tokens = 7, .cost_usd = 0.25};
    reply.model = "m-1";
    reply.message = "the model ran into the output limit";
    reply.time = std::chrono::duration<double>(1.5);
    return reply;
}

std::string fails(const std::string& text) {
    return error_of([&] { static_cast<void>(parse_recording(text, "r.jsonl")); }).value_or("");
}

}  // namespace

TEST_CASE("what was recorded is read back unchanged", "[recording]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "r.jsonl").string();
    {
        const auto recorder =
            record(backend([](const ChatRequest&) { return full_reply(); }), path,
                   {.author = "somebody", .definition = "add", .created = "", .note = "a note"});
        CHECK(recorder->complete(request_of(3), {}).content == full_reply().content);
    }
    const Recording recording = read_recording(path);
    CHECK(recording.header.author == "somebody");
    CHECK(recording.header.definition == "add");
    CHECK(recording.header.note == "a note");
    CHECK(recording.header.created.size() == std::string("2026-01-31T12:00:00Z").size());
    CHECK_FALSE(recording.torn);
    REQUIRE(recording.completions.size() == 1);
    const RecordedCompletion& completion = recording.completions[0];
    CHECK(completion.key == CompletionKey{3, 0});
    CHECK(completion.prompt_sha256 == prompt_sha256(request_of(3)));
    const ChatReply expected = full_reply();
    CHECK(completion.reply.status == expected.status);
    CHECK(completion.reply.content == expected.content);
    REQUIRE(completion.reply.tool_calls.size() == 1);
    CHECK(completion.reply.tool_calls[0].arguments == expected.tool_calls[0].arguments);
    CHECK(completion.reply.usage.input_tokens == expected.usage.input_tokens);
    CHECK(completion.reply.usage.cached_input_tokens == expected.usage.cached_input_tokens);
    CHECK(completion.reply.usage.output_tokens == expected.usage.output_tokens);
    CHECK(completion.reply.usage.cost_usd == expected.usage.cost_usd);
    CHECK(completion.reply.model == expected.model);
    CHECK(completion.reply.message == expected.message);
    CHECK(completion.reply.time == expected.time);
}

TEST_CASE("a completion is on disk before it is returned", "[recording]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "r.jsonl").string();
    const auto recorder =
        record(backend([](const ChatRequest&) { return full_reply(); }), path, {});
    static_cast<void>(recorder->complete(request_of(0), {}));
    CHECK(read_recording(path).completions.size() == 1);
}

TEST_CASE("a pending reply is not recorded and may be asked for again", "[recording]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "r.jsonl").string();
    int calls = 0;
    const auto recorder = record(backend([&](const ChatRequest&) {
                                     ChatReply reply;
                                     reply.status =
                                         ++calls == 1 ? ChatStatus::pending : ChatStatus::ok;
                                     reply.content = "done";
                                     return reply;
                                 }),
                                 path, {});
    CHECK(recorder->complete(request_of(0), {}).status == ChatStatus::pending);
    CHECK(read_recording(path).completions.empty());
    CHECK(recorder->complete(request_of(0), {}).content == "done");
    CHECK(read_recording(path).completions.size() == 1);
}

TEST_CASE("a recorded key is not asked again, and another prompt under it is refused",
          "[recording]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "r.jsonl").string();
    int calls = 0;
    const auto make = [&] {
        return record(backend([&](const ChatRequest&) {
                          ++calls;
                          return full_reply();
                      }),
                      path, {.author = "a", .definition = "d", .created = "", .note = ""});
    };
    static_cast<void>(make()->complete(request_of(1), {}));
    const auto again = make();
    CHECK(again->complete(request_of(1), {}).content == full_reply().content);
    CHECK(calls == 1);
    const auto error =
        error_of([&] { static_cast<void>(again->complete(request_of(1, "other"), {})); });
    REQUIRE(error);
    CHECK_THAT(*error,
               ContainsSubstring("expansion 1, turn 0 is recorded already, for another prompt"));
    CHECK(calls == 1);
    CHECK(read_recording(path).completions.size() == 1);
}

TEST_CASE("a key that is being asked is refused to a second caller", "[recording]") {
    const TemporaryFolder folder;
    std::promise<void> entered;
    std::promise<void> leave;
    const auto recorder = record(backend([&](const ChatRequest&) {
                                     entered.set_value();
                                     leave.get_future().wait();
                                     return full_reply();
                                 }),
                                 (folder.path() / "r.jsonl").string(), {});
    auto first =
        std::async(std::launch::async, [&] { return recorder->complete(request_of(0), {}); });
    entered.get_future().wait();
    const auto error = error_of([&] { static_cast<void>(recorder->complete(request_of(0), {})); });
    leave.set_value();
    CHECK(first.get().content == full_reply().content);
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("expansion 0, turn 0 is being asked already"));
}

TEST_CASE("a failed request may be asked again", "[recording]") {
    const TemporaryFolder folder;
    int calls = 0;
    const auto recorder = record(backend([&](const ChatRequest&) -> ChatReply {
                                     if (++calls == 1) {
                                         throw Error(ErrorCode::backend_failed, "no network");
                                     }
                                     return full_reply();
                                 }),
                                 (folder.path() / "r.jsonl").string(), {});
    CHECK(error_of([&] { static_cast<void>(recorder->complete(request_of(0), {})); }) ==
          "no network");
    CHECK(recorder->complete(request_of(0), {}).content == full_reply().content);
}

TEST_CASE("a full disk loses no completion: asking again only writes it again", "[recording]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "r.jsonl").string();
    int calls = 0;
    const auto recorder = record(backend([&](const ChatRequest&) {
                                     ++calls;
                                     return full_reply();
                                 }),
                                 path, {});
    // A limit on the file's size fails writes as a full disk does.
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit tight = before;
    tight.rlim_cur = std::filesystem::file_size(path) + 10;
    setrlimit(RLIMIT_FSIZE, &tight);
    const auto error = error_of([&] { static_cast<void>(recorder->complete(request_of(0), {})); });
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, old_handler);
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("cannot append to"));
    CHECK(read_recording(path).completions.empty());
    CHECK(recorder->complete(request_of(0), {}).content == full_reply().content);
    CHECK(calls == 1);
    CHECK(read_recording(path).completions.size() == 1);
}

TEST_CASE("a recording by another author or for another definition is not continued",
          "[recording]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "r.jsonl").string();
    const auto make = [&](const char* author, const char* definition) {
        static_cast<void>(
            record(backend([](const ChatRequest&) { return full_reply(); }), path,
                   {.author = author, .definition = definition, .created = "", .note = ""}));
    };
    make("a", "d");
    make("a", "d");
    make("", "");
    CHECK_THAT(error_of([&] { make("b", "d"); }).value_or(""),
               ContainsSubstring("author \"b\" to continue, found author \"a\""));
    CHECK_THAT(error_of([&] { make("a", "e"); }).value_or(""),
               ContainsSubstring("definition \"e\" to continue, found definition \"d\""));
}

TEST_CASE("recording needs a backend", "[recording]") {
    CHECK_THAT(error_of([] { static_cast<void>(record(nullptr, "x", {})); }).value_or(""),
               ContainsSubstring("no backend"));
}

TEST_CASE("an incomplete last line is dropped with a warning, and cut off when continued",
          "[recording]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "r.jsonl").string();
    std::ofstream(path) << head << R"({"expansion":0,"turn":0,"content":"x"})"
                        << "\n"
                        << R"({"expansion":1,"tu)";
    std::string logged;
    const LogSink log = [&](LogLevel, std::string_view line) { logged = line; };
    const Recording recording = read_recording(path, log);
    CHECK(recording.torn);
    CHECK(recording.completions.size() == 1);
    CHECK(logged == path + ":3: dropped an incomplete last line");

    const auto recorder =
        record(backend([](const ChatRequest&) { return full_reply(); }), path, {}, log);
    CHECK_THAT(logged, ContainsSubstring("an incomplete last line was cut off"));
    static_cast<void>(recorder->complete(request_of(1), {}));
    CHECK_FALSE(read_recording(path).torn);
    CHECK(read_recording(path).completions.size() == 2);
}

TEST_CASE("a malformed recording is refused with file, line and column", "[recording]") {
    CHECK(fails("") == "r.jsonl:1:1: expected a recording, found an empty file");
    CHECK_THAT(fails(R"({"format":)"), ContainsSubstring("r.jsonl:1:1: expected the first line"));
    CHECK_THAT(fails("{}\n"), ContainsSubstring("r.jsonl:1:1: expected a recording"));
    CHECK_THAT(fails("[]\n"), ContainsSubstring("r.jsonl:1:1: expected an object"));
    CHECK_THAT(
        fails(R"({"format":"kernelforge-recording","version":2})"
              "\n"),
        ContainsSubstring("r.jsonl:1:45: expected a recording of version 1, found version 2"));
    CHECK_THAT(fails(head + "nonsense\n"), ContainsSubstring("r.jsonl:2:2: expected JSON"));
    CHECK_THAT(fails(head + "\n"), ContainsSubstring("r.jsonl:2:1: expected JSON"));
    CHECK_THAT(fails(head + R"({"expansion":-1,"turn":0,"content":"x"})"
                            "\n"),
               ContainsSubstring("r.jsonl:2:14: expected an integer from 0"));
    CHECK_THAT(fails(head + R"({"expansion":0,"turn":0})"
                            "\n"),
               ContainsSubstring("r.jsonl:2:1: expected a member \"content\""));
    CHECK_THAT(fails(head + R"({"expansion":0,"turn":0,"content":"x","status":"pending"})"
                            "\n"),
               ContainsSubstring("r.jsonl:2:48: expected \"ok\", \"truncated\" or \"refused\""));
    CHECK_THAT(fails(head + R"({"expansion":0,"turn":0,"content":"x","status":"fine"})"
                            "\n"),
               ContainsSubstring("r.jsonl:2:48: expected \"ok\", \"pending\""));
    CHECK_THAT(fails(head + R"({"expansion":0,"turn":0,"content":"x","time_s":-1})"
                            "\n"),
               ContainsSubstring("expected a number that is not negative, found -1"));
    CHECK_THAT(fails(head + R"({"expansion":0,"turn":0,"content":"x","usage":{"cost_usd":-1}})"
                            "\n"),
               ContainsSubstring("expected a number that is not negative, found -1"));
    CHECK_THAT(fails(head + R"({"expansion":0,"turn":0,"content":"x","colour":1})"
                            "\n"),
               ContainsSubstring("unknown member \"colour\", expected one of: expansion, turn"));
    CHECK_THAT(
        fails(head + R"({"expansion":0,"turn":0,"content":"x"})"
                     "\n"
                     R"({"expansion":0,"turn":0,"content":"y"})"
                     "\n"),
        ContainsSubstring("r.jsonl:3:14: expansion 0, turn 0 was recorded in line 2 already"));
}

TEST_CASE("a missing recording is an error that names it", "[recording]") {
    CHECK_THAT(error_of([] { static_cast<void>(read_recording("/no/such/r.jsonl")); }).value_or(""),
               ContainsSubstring("/no/such/r.jsonl"));
}

TEST_CASE("the hash of a prompt covers messages and tools, not key and limits", "[recording]") {
    const ChatRequest base = request_of(0);
    ChatRequest other = request_of(5);
    other.max_output_tokens = 1;
    other.temperature = 0.5;
    CHECK(prompt_sha256(base) == prompt_sha256(other));
    other.tools.push_back({"t", "", "{}"});
    CHECK(prompt_sha256(base) != prompt_sha256(other));
    CHECK(prompt_sha256(base) != prompt_sha256(request_of(0, "another")));
    ChatRequest system = base;
    system.messages[0].role = ChatRole::system;
    CHECK(prompt_sha256(base) != prompt_sha256(system));
}
