// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <thread>

#include "contract/llm_backend_contract.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;
using Clock = std::chrono::steady_clock;

namespace {

/// What ended a call that must fail.
struct Failure {
    std::optional<ErrorCode> code;
    std::string message;
};

Failure failure_of(LlmBackend& backend, const ChatRequest& request, std::stop_token stop = {}) {
    try {
        static_cast<void>(backend.complete(request, stop));
    } catch (const Error& error) {
        return {error.code(), error.what()};
    }
    return {};
}

}  // namespace

TEST_CASE("every LLM backend answers each request with its own completion", "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        INFO(subject.name);
        const auto backend = subject.make();
        for (const std::uint64_t expansion : {5, 0, 7}) {
            const ChatReply reply = backend->complete(request_of(expansion), {});
            CHECK(reply.status == ChatStatus::ok);
            CHECK(reply.content == content_of(expansion));
            CHECK(reply.time.count() >= 0);
        }
    }
}

TEST_CASE("every LLM backend gives the same completion for the same request", "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        INFO(subject.name);
        const auto backend = subject.make();
        CHECK(backend->complete(request_of(1), {}).content == content_of(1));
        CHECK(backend->complete(request_of(1), {}).content == content_of(1));
    }
}

TEST_CASE("every LLM backend serves concurrent requests without mixing them up",
          "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        INFO(subject.name);
        const auto backend = subject.make();
        std::array<std::string, 8> contents;
        {
            std::vector<std::jthread> threads;
            for (std::uint64_t expansion = 0; expansion < contents.size(); ++expansion) {
                threads.emplace_back([&, expansion] {
                    try {
                        contents[expansion] = backend->complete(request_of(expansion), {}).content;
                    } catch (const Error& error) {
                        contents[expansion] = error.what();
                    }
                });
            }
        }
        for (std::uint64_t expansion = 0; expansion < contents.size(); ++expansion) {
            CHECK(contents[expansion] == content_of(expansion));
        }
    }
}

TEST_CASE("every LLM backend refuses a request without messages", "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        INFO(subject.name);
        ChatRequest request = request_of(0);
        request.messages.clear();
        const Failure failure = failure_of(*subject.make(), request);
        CHECK(failure.code == ErrorCode::invalid_argument);
        CHECK_THAT(failure.message, ContainsSubstring("expected at least one message"));
    }
}

TEST_CASE("every LLM backend is cancelled by a stop that came before", "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        INFO(subject.name);
        const auto backend = subject.make();
        std::stop_source source;
        source.request_stop();
        CHECK(failure_of(*backend, request_of(0), source.get_token()).code == ErrorCode::cancelled);
        // It is still usable.
        CHECK(backend->complete(request_of(0), {}).content == content_of(0));
    }
}

TEST_CASE("every LLM backend that waits returns within a second of a stop", "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        if (!subject.make_slow) continue;
        INFO(subject.name);
        const auto backend = subject.make_slow();
        std::stop_source source;
        std::jthread stopper([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            source.request_stop();
        });
        const auto start = Clock::now();
        CHECK(failure_of(*backend, request_of(0), source.get_token()).code == ErrorCode::cancelled);
        CHECK(Clock::now() - start < std::chrono::milliseconds(1100));
    }
}

TEST_CASE("no LLM backend is harmed by a prompt that is not valid UTF-8", "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        INFO(subject.name);
        ChatRequest request = request_of(2);
        request.messages[0].content = std::string("\xff\xfe\x80\0 prompt 2", 13);
        CHECK(subject.make()->complete(request, {}).content == content_of(2));
    }
}

TEST_CASE("every LLM backend refuses an unknown option, naming it and the known ones",
          "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        if (!subject.make_from_options) continue;
        INFO(subject.name);
        const auto error = error_of([&] { subject.make_from_options(R"({"no_such_option":1})"); });
        REQUIRE(error);
        CHECK_THAT(*error, ContainsSubstring("\"no_such_option\""));
        CHECK_THAT(*error, ContainsSubstring(subject.known_option));
    }
}

TEST_CASE("every LLM backend refuses options that are no JSON object", "[contract][llm]") {
    for (const LlmBackendSubject& subject : llm_backend_subjects()) {
        if (!subject.make_from_options) continue;
        INFO(subject.name);
        for (const char* options : {"", "[]", "{", "7", "{\"a\":1,\"a\":2}"}) {
            INFO(options);
            CHECK_THAT(error_of([&] { subject.make_from_options(options); }).value_or(""),
                       ContainsSubstring("options:1"));
        }
    }
}
