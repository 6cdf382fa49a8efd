// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <fstream>
#include <utility>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "contract/llm_backend_contract.hpp"
#include "kernelforge/recording.hpp"
#include "support/http_server.hpp"

KERNELFORGE_DECLARE_PLUGIN(llm_batch);
KERNELFORGE_DECLARE_PLUGIN(llm_command);
KERNELFORGE_DECLARE_PLUGIN(llm_replay);
#ifdef KERNELFORGE_TEST_OPENAI
KERNELFORGE_DECLARE_PLUGIN(llm_anthropic);
KERNELFORGE_DECLARE_PLUGIN(llm_openai);
#endif

namespace kernelforge::test {
namespace {

constexpr std::uint64_t completions = 8;

/// A backend together with what it needs.
template <class Needs>
struct Owned {
    std::unique_ptr<Needs> needs;
    std::unique_ptr<LlmBackend> backend;
};

template <class Needs>
std::shared_ptr<LlmBackend> own(std::unique_ptr<Needs> needs, std::unique_ptr<LlmBackend> backend) {
    auto owned = std::make_shared<Owned<Needs>>(Owned<Needs>{std::move(needs), std::move(backend)});
    return {owned, owned->backend.get()};
}

std::unique_ptr<LlmBackend> create(const PluginDescriptor& plugin, const Json& options) {
    return plugin.llm_backends[0].create(dump_json(options), {});
}

LlmBackendSubject batch() {
    const auto make = [] {
        auto folder = std::make_unique<TemporaryFolder>();
        std::ofstream output(folder->path() / "output.jsonl");
        for (std::uint64_t e = 0; e < completions; ++e) {
            output << dump_json({{"custom_id", "kf-" + std::to_string(e) + "-0"},
                                 {"content", content_of(e)}})
                   << "\n";
        }
        output.close();
        auto backend = create(kernelforge_plugin_llm_batch,
                              {{"folder", folder->path().string()}, {"model", "m"}});
        return own(std::move(folder), std::move(backend));
    };
    return {
        .name = "batch",
        .make = make,
        .make_slow = {},
        .make_from_options =
            [](const std::string& options) {
                static_cast<void>(kernelforge_plugin_llm_batch.llm_backends[0].create(options, {}));
            },
        .known_option = "folder"};
}

LlmBackendSubject command() {
    const auto make = [](const std::string& line) {
        return std::shared_ptr<LlmBackend>(
            create(kernelforge_plugin_llm_command,
                   {{"argv", {"/bin/sh", "-c", line}}, {"format", "text"}}));
    };
    return {
        .name = "command",
        // The prompt's last word is the number.
        .make =
            [make] { return make("printf 'content %s' $(tail -n 1 | LC_ALL=C sed 's/.* //')"); },
        .make_slow = [make] { return make("sleep 30"); },
        .make_from_options =
            [](const std::string& options) {
                static_cast<void>(
                    kernelforge_plugin_llm_command.llm_backends[0].create(options, {}));
            },
        .known_option = "argv"};
}

std::string write_recording(const TemporaryFolder& folder) {
    const std::string path = (folder.path() / "recording.jsonl").string();
    std::ofstream file(path);
    file << dump_json({{"format", "kernelforge-recording"}, {"version", 1}}) << "\n";
    for (std::uint64_t e = 0; e < completions; ++e) {
        file << dump_json({{"expansion", e}, {"turn", 0}, {"content", content_of(e)}}) << "\n";
    }
    return path;
}

std::shared_ptr<LlmBackend> make_replay() {
    auto folder = std::make_unique<TemporaryFolder>();
    auto backend = create(kernelforge_plugin_llm_replay, {{"file", write_recording(*folder)}});
    return own(std::move(folder), std::move(backend));
}

LlmBackendSubject replay() {
    return {.name = "replay",
            .make = make_replay,
            .make_slow = {},
            .make_from_options =
                [](const std::string& options) {
                    static_cast<void>(
                        kernelforge_plugin_llm_replay.llm_backends[0].create(options, {}));
                },
            .known_option = "file"};
}

LlmBackendSubject recorder(std::string name, const LlmBackendSubject& inner) {
    const auto wrap = [](const std::function<std::shared_ptr<LlmBackend>()>& make_inner) {
        /// `record` owns its inner backend alone; this shares one with what it needs.
        class Shared final : public LlmBackend {
          public:
            explicit Shared(std::shared_ptr<LlmBackend> backend) : backend_(std::move(backend)) {}
            ChatReply complete(const ChatRequest& request, std::stop_token stop) override {
                return backend_->complete(request, stop);
            }

          private:
            std::shared_ptr<LlmBackend> backend_;
        };
        auto folder = std::make_unique<TemporaryFolder>();
        const std::string path = (folder->path() / "new.jsonl").string();
        return own(std::move(folder), record(std::make_unique<Shared>(make_inner()), path, {}));
    };
    return {.name = std::move(name),
            .make = [wrap, make = inner.make] { return wrap(make); },
            .make_slow = inner.make_slow ? [wrap, make = inner.make_slow] { return wrap(make); }
                                         : std::function<std::shared_ptr<LlmBackend>()>(),
            .make_from_options = {},
            .known_option = {}};
}

#ifdef KERNELFORGE_TEST_OPENAI
/// A backend over HTTP: `answer` makes a reply's body from the text of the prompt.
LlmBackendSubject over_http(std::string name, const PluginDescriptor& plugin,
                            std::function<std::string(const Json& body)> answer) {
    const auto serve = [&plugin](HttpServer::Script script) {
        auto server = std::make_unique<HttpServer>(std::vector{std::move(script)});
        auto backend = create(plugin, {{"base_url", server->url()}, {"model", "m"}});
        return own(std::move(server), std::move(backend));
    };
    const HttpServer::Script reply = [answer = std::move(answer)](const HttpRequest& request,
                                                                  HttpConnection& connection) {
        connection.send(http_response(200, "application/json", answer(Json::parse(request.body))));
    };
    const HttpServer::Script think = [](const HttpRequest&, HttpConnection& connection) {
        connection.pause(std::chrono::seconds(30));
    };
    return {.name = std::move(name),
            .make = [serve, reply] { return serve(reply); },
            .make_slow = [serve, think] { return serve(think); },
            .make_from_options =
                [&plugin](const std::string& options) {
                    static_cast<void>(plugin.llm_backends[0].create(options, {}));
                },
            .known_option = "base_url"};
}

std::string numbered(const std::string& prompt) {
    return "content " + prompt.substr(prompt.rfind(' ') + 1);
}

LlmBackendSubject openai() {
    return over_http("openai", kernelforge_plugin_llm_openai, [](const Json& body) {
        const std::string content = numbered(body["messages"][0]["content"]);
        return dump_json(Json{{"choices", {{{"message", {{"content", content}}}}}}});
    });
}

LlmBackendSubject anthropic() {
    return over_http("anthropic", kernelforge_plugin_llm_anthropic, [](const Json& body) {
        const std::string content = numbered(body["messages"][0]["content"][0]["text"]);
        return dump_json(Json{{"type", "message"},
                              {"content", {{{"type", "text"}, {"text", content}}}},
                              {"stop_reason", "end_turn"}});
    });
}
#endif

}  // namespace

std::string prompt_of(std::uint64_t expansion) {
    return "prompt " + std::to_string(expansion);
}

std::string content_of(std::uint64_t expansion) {
    return "content " + std::to_string(expansion);
}

ChatRequest request_of(std::uint64_t expansion) {
    ChatRequest request;
    request.key = {expansion, 0};
    request.messages = {{.role = ChatRole::user, .content = prompt_of(expansion)}};
    return request;
}

std::vector<LlmBackendSubject> llm_backend_subjects() {
    std::vector<LlmBackendSubject> subjects = {batch(), command(), replay(),
                                               recorder("recorder around replay", replay()),
                                               recorder("recorder around command", command())};
#ifdef KERNELFORGE_TEST_OPENAI
    subjects.push_back(anthropic());
    subjects.push_back(openai());
#endif
    return subjects;
}

}  // namespace kernelforge::test
