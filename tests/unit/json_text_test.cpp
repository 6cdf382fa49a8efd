// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.hpp"

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;

namespace {

std::string failure(const char* text, const std::function<void(const JsonNode&)>& use = {}) {
    return test::error_of([&] {
               const JsonDocument document(text, "f.json");
               if (use) use(document.root());
           })
        .value_or("");
}

}  // namespace

TEST_CASE("malformed JSON is reported where it breaks", "[base]") {
    CHECK_THAT(failure("{\n  \"a\": [1, }"), ContainsSubstring("f.json:2:12: expected JSON"));
    CHECK_THAT(failure(""), ContainsSubstring("f.json:1:1: expected JSON"));
    CHECK_THAT(failure("{\"a\": 1, \"a\": 2}"), ContainsSubstring("appears twice"));
    CHECK_THAT(failure(std::string(500, '[').c_str()), ContainsSubstring("nested levels"));
    CHECK_THAT(failure("\"\xff\""), ContainsSubstring("expected JSON"));
}

TEST_CASE("a wrong value is reported where it starts", "[base]") {
    CHECK_THAT(failure("{\"a\":\n  [1,  true]}",
                       [](const JsonNode& root) { (void)root.at("a").at(1).as_integer(); }),
               ContainsSubstring("f.json:2:8: expected an integer, found true"));
    CHECK_THAT(failure("{\"a\": {\"b\": [1, {\"c/~d\": \"x\"}]}}",
                       [](const JsonNode& root) {
                           (void)root.at("a").at("b").at(1).at("c/~d").as_number();
                       }),
               ContainsSubstring("f.json:1:26: expected a number, found \"x\""));
    CHECK_THAT(failure("{\"e\": 1e999}"), ContainsSubstring("f.json:1: expected numbers"));
    CHECK_THAT(failure("{}", [](const JsonNode& root) { (void)root.at("x"); }),
               ContainsSubstring("f.json:1:1: expected a member \"x\""));
    CHECK_THAT(failure("{\"x\": 1,\n \"y\": 2}",
                       [](const JsonNode& root) {
                           root.only_members({"x", "z"});
                       }),
               ContainsSubstring("f.json:2:7: unknown member \"y\", expected one of: x, z"));
}

TEST_CASE("a repeated member and too deep nesting are reported where they stand", "[base]") {
    CHECK_THAT(failure("{\"a\": {\"b\": \"a\"},\n  \"c\": [\"d\", {\"b\": 1}],\n  \"a\" : 2}"),
               ContainsSubstring("f.json:3:3: member \"a\" appears twice"));
    CHECK_THAT(failure("{\"a\\\"\": 1,\n\"a\\u0022\": 2}"),
               ContainsSubstring("f.json:2:1: member \"a\"\" appears twice"));
    CHECK_THAT(failure(("{\"[[\":\n" + std::string(199, '[') + "[1").c_str()),
               ContainsSubstring("f.json:2:200: expected at most 200 nested levels, found more"));
    CHECK(failure((std::string(200, '[') + std::string(200, ']')).c_str()).empty());
}

TEST_CASE("a byte order mark does not disturb positions of values", "[base]") {
    CHECK_THAT(failure("\xef\xbb\xbf{\"a\": \"x\"}",
                       [](const JsonNode& root) { (void)root.at("a").as_integer(); }),
               ContainsSubstring("f.json:1:10: expected an integer, found \"x\""));
}

TEST_CASE("the time of reading a long array of objects grows with its length only", "[base]") {
    std::string text = "[";
    for (int i = 0; i < 800'000; ++i) text += "{},[],";
    text += "0]";
    // Several minutes, and so the test's time limit, where each element looks at all before it.
    const JsonDocument document(text, "long.json");
    CHECK(document.root().array_size() == 1'600'001);
}
