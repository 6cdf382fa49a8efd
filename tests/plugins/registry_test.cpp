// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/registry.hpp"

#include <thread>

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;

KERNELFORGE_DECLARE_PLUGIN(right_test_plugin);
KERNELFORGE_DECLARE_PLUGIN(comparator_test_plugin);

namespace {

std::string plugin_path(const std::string& name) {
    return std::string(KERNELFORGE_TEST_PLUGIN_FOLDER) + "/" + name + ".so";
}

const std::string right = plugin_path("libright_test_plugin");

std::string refusal(Registry& registry, const std::string& path) {
    return test::error_of([&] { registry.load(path); }).value_or("(accepted)");
}

std::string reply(const LlmBackend* backend, const std::string& text) {
    ChatRequest request;
    request.messages.push_back({ChatRole::user, text, {}, {}});
    return const_cast<LlmBackend*>(backend)->complete(request, {}).content;
}

}  // namespace

TEST_CASE("a plugin works the same loaded and linked in", "[registry]") {
    Registry loaded;
    loaded.load(right);
    Registry linked;
    linked.add(kernelforge_plugin_right_test_plugin);
    for (const Registry* registry : {&loaded, &linked}) {
        const auto entries = registry->entries();
        REQUIRE(entries.size() == 2);
        CHECK(entries[0].interface == "llm_backend");
        CHECK(entries[0].name == "echo");
        CHECK(entries[1].interface == "profiler_tool");
        CHECK(entries[1].version == "1.2.3");
        CHECK(reply(registry->make<LlmBackend>("echo", "{}").get(), "hello") == "{}hello");
        CHECK(registry->make<ProfilerTool>("one_finding")->needs().metrics.empty());
    }
    CHECK(loaded.entries()[0].path == right);
    CHECK(linked.entries()[0].path.empty());
}

TEST_CASE("an error of a plugin is caught by type in the host", "[registry]") {
    Registry registry;
    registry.load(right);
    const auto backend = registry.make<LlmBackend>("echo");
    try {
        (void)backend->complete({}, {});
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::backend_failed);
        CHECK(std::string(error.what()) == "nothing to echo");
    }
}

TEST_CASE("objects outlive the registry that made them", "[registry]") {
    std::unique_ptr<LlmBackend> backend;
    {
        Registry registry;
        registry.load(right);
        backend = registry.make<LlmBackend>("echo");
    }
    CHECK(reply(backend.get(), "x") == "{}x");
}

TEST_CASE("a plugin that does not fit is refused with path and cause", "[registry]") {
    Registry registry;
    const auto refused = [&](const char* name, const std::string& cause) {
        const std::string path = plugin_path(std::string(name) + "_test_plugin");
        CHECK(refusal(registry, path) == "plugin " + path + ": " + cause);
    };
    refused("wrong_epoch", "abi epoch differs, plugin " +
                               std::to_string(KERNELFORGE_ABI_EPOCH + 41) + ", host " +
                               std::to_string(KERNELFORGE_ABI_EPOCH));
    refused("wrong_stamp", "build stamp differs, plugin \"other-compiler libother\", host \"" +
                               std::string(KERNELFORGE_BUILD_STAMP) + "\"");
    refused("no_entry", "it exports no symbol kernelforge_plugin, so it is not a plugin");
    refused("nameless", "it has no name or no version");
    const std::string undefined = plugin_path("undefined_symbol_test_plugin");
    CHECK_THAT(refusal(registry, undefined),
               ContainsSubstring("plugin " + undefined) &&
                   ContainsSubstring("cannot be loaded, undefined symbol") &&
                   ContainsSubstring("function_that_nobody_defines"));
    CHECK(registry.entries().empty());
}

TEST_CASE("a file that is no library and a file that is not there are refused", "[registry]") {
    Registry registry;
    const TemporaryFolder folder;
    const std::string text = (folder.path() / "text.so").string();
    write_file_atomically(text, "hello");
    CHECK_THAT(refusal(registry, text),
               ContainsSubstring(text) && ContainsSubstring("cannot be loaded"));
    CHECK_THAT(refusal(registry, "/none/such.so"),
               ContainsSubstring("/none/such.so: no such file"));
    CHECK_THAT(refusal(registry, folder.path().string()), ContainsSubstring("no such file"));
}

TEST_CASE("a name that is taken refuses the whole plugin", "[registry]") {
    Registry registry;
    registry.load(right);
    const std::string path = plugin_path("duplicate_name_test_plugin");
    CHECK(refusal(registry, path) ==
          "plugin " + path + ": llm_backend \"echo\" is there already, from plugin \"right\"");
    CHECK(registry.entries().size() == 2);
    CHECK_THAT(refusal(registry, right),
               ContainsSubstring("a plugin named \"right\" is there already"));
}

TEST_CASE("whatever a factory throws becomes one sentence", "[registry]") {
    Registry registry;
    const std::string path = plugin_path("throwing_factory_test_plugin");
    registry.load(path);
    const auto failure = [&](const char* name) {
        return test::error_of([&] { (void)registry.make<ProfilerTool>(name); }).value_or("(made)");
    };
    CHECK(failure("throws_error") ==
          "plugin " + path + ": profiler_tool \"throws_error\": needs a barometer");
    CHECK(failure("throws_standard") ==
          "plugin " + path + ": making profiler_tool \"throws_standard\" threw: too long");
    CHECK_THAT(failure("throws_int"), ContainsSubstring("not a std::exception"));
    CHECK_THAT(failure("gives_nothing"), ContainsSubstring("gave nothing"));
}

TEST_CASE("a name that nobody brings is answered with the known ones", "[registry]") {
    Registry registry;
    CHECK_THAT(*test::error_of([&] { (void)registry.make<LlmBackend>("echo"); }),
               ContainsSubstring("none is loaded"));
    registry.load(right);
    CHECK(*test::error_of([&] { (void)registry.make<LlmBackend>("ecco"); }) ==
          "no llm_backend named \"ecco\": known ones are echo");
}

TEST_CASE("a folder is loaded as far as it goes", "[registry]") {
    Registry registry;
    const auto refused = registry.load_folder(KERNELFORGE_TEST_PLUGIN_FOLDER);
    // duplicate_name sorts before libright, so "echo" is its own, and libright is the one refused.
    CHECK(registry.entries().size() == 2 + 4 + 1);
    CHECK(refused.size() == 6);
    CHECK_THAT(*test::error_of([&] { (void)registry.load_folder("/none/such"); }),
               ContainsSubstring("/none/such"));
}

TEST_CASE("a comparator is made by name and judges what it is given", "[registry]") {
    Registry loaded;
    loaded.load(plugin_path("libcomparator_test_plugin"));
    Registry linked;
    linked.add(kernelforge_plugin_comparator_test_plugin);
    const Task task;
    const Workload workload;
    const std::vector<std::int64_t> shape = {3};
    const std::vector<float> expected = {1.0F, -2.0F, 3.0F};
    for (const Registry* registry : {&loaded, &linked}) {
        REQUIRE(registry->entries().size() == 1);
        CHECK(registry->entries()[0].interface == "comparator");
        CHECK(registry->entries()[0].name == "up_to_sign");
        const auto comparator = registry->make<Comparator>("up_to_sign");
        const auto verdict = [&](const std::vector<float>& found, const std::vector<float>& x) {
            return comparator->compare(
                {.task = task,
                 .workload = workload,
                 .output = "y",
                 .dtype = DType::float32,
                 .shape = shape,
                 .found = std::as_bytes(std::span(found)),
                 .expected = std::as_bytes(std::span(expected)),
                 .input = [&](std::string_view) { return std::as_bytes(std::span(x)); }});
        };
        CHECK(verdict({-1.0F, 2.0F, -3.0F}, expected).ok);
        const OutputError error = verdict({1.0F, 2.5F, 0.0F}, expected);
        CHECK_FALSE(error.ok);
        CHECK(error.mismatches == 2);
        CHECK(error.first_index == 1);
        CHECK_THAT(*test::error_of([&] { (void)verdict(expected, {}); }),
                   ContainsSubstring("expected x as long"));
    }
    CHECK_THAT(*test::error_of([&] { (void)loaded.make<Comparator>("signs"); }),
               ContainsSubstring("no comparator named \"signs\": known ones are up_to_sign"));
}

TEST_CASE("make may be called from several threads", "[registry]") {
    Registry registry;
    registry.load(right);
    std::atomic<int> right_answers{0};
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                for (int k = 0; k < 100; ++k) {
                    right_answers += reply(registry.make<LlmBackend>("echo").get(), "y") == "{}y";
                }
            });
        }
    }
    CHECK(right_answers == 400);
}
