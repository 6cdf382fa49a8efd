// SPDX-License-Identifier: Apache-2.0
#include "referee/device_code.hpp"

#include <map>
#include <regex>
#include <string>

#include "referee/device/admission_parameters.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge::referee;

namespace {

/// Size of the one parameter of every entry; 0 where there is none.
std::map<std::string, std::size_t> entries(std::string_view ptx) {
    std::map<std::string, std::size_t> result;
    static constexpr std::string_view mark = ".visible .entry ";
    for (std::size_t at = ptx.find(mark); at != std::string_view::npos;
         at = ptx.find(mark, at + 1)) {
        const std::string_view rest = ptx.substr(at + mark.size());
        const std::string_view name = rest.substr(0, rest.find('('));
        const std::string_view list = rest.substr(name.size(), rest.find(')') - name.size());
        const std::size_t open = list.rfind('[');
        result[std::string(name)] =
            open == std::string_view::npos ? 0 : std::stoul(std::string(list.substr(open + 1)));
    }
    return result;
}

}  // namespace

TEST_CASE("the referee's PTX has every documented kernel with the documented parameter",
          "[referee]") {
    const std::map<std::string, std::size_t> expected = {
        {"kf_admit_sum", sizeof(AdmissionParameters)},
        {"kf_admit_spread", sizeof(AdmissionParameters)},
        {"kf_admit_copy", sizeof(AdmissionParameters)},
        {"kf_admit_round", sizeof(AdmissionParameters)},
        {"kf_fill", sizeof(FillParameters)},
        {"kf_poison", sizeof(PoisonParameters)},
        {"kf_count_nonzero", sizeof(CountNonzeroParameters)},
        {"kf_compare_tiles", sizeof(CompareParameters)},
        {"kf_compare_reduce", sizeof(CompareParameters)},
        {"kf_compare_elements", sizeof(CompareParameters)},
        {"kf_compare_finish", sizeof(CompareParameters)},
        {"kf_digest_tiles", sizeof(DigestParameters)},
        {"kf_digest_sample", sizeof(DigestParameters)},
        {"kf_digest_judge", sizeof(DigestParameters)},
        {"kf_flush_write", sizeof(StreamParameters)},
        {"kf_flush_read", sizeof(StreamParameters)},
        {"kf_roof_read", sizeof(StreamParameters)},
        {"kf_roof_copy", sizeof(StreamParameters)},
        {"kf_roof_write", sizeof(StreamParameters)},
        {"kf_roof_fma", sizeof(ComputeParameters)},
        {"kf_roof_mma_bf16", sizeof(ComputeParameters)},
        {"kf_empty", 0},
        {"kf_scrub_shared", sizeof(ScrubParameters)},
        {"kf_scrub_local_256", sizeof(ScrubParameters)},
        {"kf_scrub_local_1024", sizeof(ScrubParameters)},
        {"kf_scrub_local_4096", sizeof(ScrubParameters)},
        {"kf_scrub_local_16384", sizeof(ScrubParameters)},
        {"kf_stamp", sizeof(StampParameters)},
    };
    CHECK(entries(device_ptx()) == expected);
    CHECK(entries(hopper_ptx()) ==
          std::map<std::string, std::size_t>{{"kf_roof_wgmma_bf16", sizeof(ComputeParameters)}});
    CHECK(device_ptx().find(".target sm_80") != std::string_view::npos);
    CHECK(hopper_ptx().find(".target sm_90a") != std::string_view::npos);
    CHECK(device_ptx().data()[device_ptx().size()] == '\0');
    CHECK(hopper_ptx().data()[hopper_ptx().size()] == '\0');
}

TEST_CASE("the compiler keeps the frames of the local scrub, and stores to them", "[referee]") {
    for (const int bytes : {256, 1024, 4096, 16384}) {
        const std::string_view ptx = device_ptx();
        const std::string name = std::string(scrub_local_kernel(bytes)) + "(";
        const std::size_t begin = ptx.find(".visible .entry " + name);
        REQUIRE(begin != std::string_view::npos);
        const std::string entry(ptx.substr(begin, ptx.find("\n}", begin) - begin));
        CHECK(std::regex_search(entry, std::regex("\\.local .*__local_depot[0-9]+\\[" +
                                                  std::to_string(bytes) + "\\]")));
        CHECK_THAT(entry, ContainsSubstring("st.local"));
    }
}

TEST_CASE("launch shapes fill the device and never exceed what there is to do", "[referee]") {
    FillParameters fill;
    fill.count = 1;
    CHECK(fill_shape(fill, 132).blocks == 1);
    fill.count = std::uint64_t{1} << 40;
    CHECK(fill_shape(fill, 132).blocks == 132 * 8);
    fill.count = 0;
    CHECK(fill_shape(fill, 132).blocks == 1);
    StreamParameters stream;
    stream.bytes = std::uint64_t{1} << 30;
    CHECK(stream_shape(stream, 132).blocks == 132 * 4);
    CHECK(wgmma_shape(132).dynamic_shared_bytes > 48 * 1024);
}

TEST_CASE("scrubbing takes every thread that fits and the smallest frame that covers",
          "[referee]") {
    CHECK(scrub_shared_shape(132, 232'448).blocks == 132);
    CHECK(scrub_shared_shape(132, 232'448).dynamic_shared_bytes == 232'448);
    CHECK(scrub_local_shape(132, 2048).blocks == 132 * 8);
    CHECK(scrub_local_shape(84, 1536).blocks == 84 * 6);
    CHECK(scrub_local_kernel(0).empty());
    CHECK(scrub_local_kernel(8) == "kf_scrub_local_256");
    CHECK(scrub_local_kernel(256) == "kf_scrub_local_256");
    CHECK(scrub_local_kernel(257) == "kf_scrub_local_1024");
    CHECK(scrub_local_kernel(4096) == "kf_scrub_local_4096");
    CHECK(scrub_local_kernel(most_local_bytes) == "kf_scrub_local_16384");
    const auto error =
        kernelforge::test::error_of([] { (void)scrub_local_kernel(most_local_bytes + 1); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("16385") && ContainsSubstring("at most 16384"));
}

TEST_CASE("operations of the compute roofs are counted by their inner loops", "[referee]") {
    ComputeParameters parameters;
    parameters.iterations = 10;
    // 8 chains of 16 multiply-adds a thread and iteration.
    CHECK(fma_operations(parameters, {2, 256, 0}) == 2.0 * 256 * 10 * 8 * 16 * 2);
    // 16 products of 16 x 8 x 16 a warp and iteration.
    CHECK(mma_operations(parameters, {2, 256, 0}) == 2.0 * 8 * 10 * 16 * (16 * 8 * 16) * 2);
    // 16 products of 64 x 256 x 16 a warp group and iteration.
    CHECK(wgmma_operations(parameters, {2, 256, 0}) == 2.0 * 2 * 10 * 16 * (64 * 256 * 16) * 2);
}
