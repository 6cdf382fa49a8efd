// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.hpp"

#include "support/catch.hpp"

using namespace kernelforge;

TEST_CASE("sha256 gives the digests of FIPS 180-4", "[base]") {
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 in pieces equals sha256 at once", "[base]") {
    const std::string text(200, 'x');
    for (std::size_t cut = 0; cut <= text.size(); cut += 13) {
        Sha256 hash;
        hash.update(std::string_view(text).substr(0, cut));
        hash.update(std::string_view(text).substr(cut));
        CHECK(hash.hex() == sha256_hex(text));
    }
}

TEST_CASE("sha256 fields keep their boundaries", "[base]") {
    Sha256 one;
    one.field("ab");
    one.field("c");
    Sha256 two;
    two.field("a");
    two.field("bc");
    CHECK(one.hex() != two.hex());
}
