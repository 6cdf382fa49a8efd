// SPDX-License-Identifier: Apache-2.0
#include "base/base64.hpp"

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;

TEST_CASE("base64 gives the vectors of RFC 4648", "[base]") {
    const std::pair<const char*, const char*> vectors[] = {
        {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}};
    for (const auto& [plain, encoded] : vectors) {
        CHECK(base64_encode(plain) == encoded);
        CHECK(base64_decode(encoded) == plain);
    }
}

TEST_CASE("base64 returns every byte", "[base]") {
    std::string bytes;
    for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
    CHECK(base64_decode(base64_encode(bytes)) == bytes);
}

TEST_CASE("base64 refuses what it cannot have made", "[base]") {
    CHECK(test::error_of([] { (void)base64_decode("Zg="); }));
    CHECK(test::error_of([] { (void)base64_decode("Zg!="); }));
    CHECK(test::error_of([] { (void)base64_decode("Z==="); }));
    CHECK(test::error_of([] { (void)base64_decode("Zg==Zg=="); }));
}
