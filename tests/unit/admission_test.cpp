// SPDX-License-Identifier: Apache-2.0
#include "admission.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "referee/device/admission_elements.hpp"
#include "referee/distributions.hpp"
#include "support/catch.hpp"
#include "support/fakes.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

NullOutcome outcome(std::string shape, std::vector<std::string> refused,
                    std::vector<std::string> accepted, std::string skipped = "") {
    return {"zeros",           "y", std::move(shape), std::move(refused), std::move(accepted),
            std::move(skipped)};
}

Evaluation timed(const Task& task, double seconds) {
    Evaluation evaluation;
    evaluation.status = EvaluationStatus::ok;
    evaluation.device = "NVIDIA H200";
    for (std::size_t i = 0; i < task.workloads.size(); ++i) {
        WorkloadResult result;
        result.workload = i;
        result.timing = Timing{};
        result.timing->median_s = seconds;
        evaluation.workloads.push_back(result);
    }
    return evaluation;
}

}  // namespace

TEST_CASE("a null must be refused on every shape in one distribution at least", "[admission]") {
    const auto good = null_checks(
        {outcome("rows=1", {"scaled"}, {"natural"}), outcome("rows=9", {"natural", "scaled"}, {})});
    REQUIRE(good.size() == 1);
    CHECK(good[0].ok);
    CHECK(good[0].name == "zeros as y");
    CHECK(good[0].message == "refused on 2 of 2 shapes, in scaled, natural");
    const auto bad = null_checks(
        {outcome("rows=1", {"scaled"}, {}), outcome("rows=9", {}, {"natural", "scaled"})});
    CHECK_FALSE(bad[0].ok);
    CHECK(bad[0].message ==
          "accepted on rows=9 in all of: natural, scaled; expected a refusal in one");
    const auto skipped = null_checks({outcome("rows=1", {}, {}, "no sense in it")});
    CHECK(skipped[0].ok);
    CHECK(skipped[0].message == "skipped: no sense in it");
}

TEST_CASE("checks are one for each null and output", "[admission]") {
    NullOutcome other = outcome("rows=1", {"scaled"}, {});
    other.output = "z";
    CHECK(null_checks({outcome("rows=1", {"scaled"}, {}), other}).size() == 2);
}

TEST_CASE("the downcast is coarser than the comparison and than the input", "[admission]") {
    CHECK(downcast_bits(PrecisionTier::float64, DType::float64) == 23);
    CHECK(downcast_bits(PrecisionTier::float32, DType::float32) == 10);
    CHECK(downcast_bits(PrecisionTier::bfloat16, DType::float32) == 3);
    CHECK(downcast_bits(PrecisionTier::float32, DType::bfloat16) == 3);
    CHECK(downcast_bits(PrecisionTier::float16, DType::float16) == 7);
    CHECK(downcast_bits(PrecisionTier::bfloat16, DType::float8_e4m3fn) == 1);
    CHECK_FALSE(downcast_bits(PrecisionTier::float32, DType::int32));
}

TEST_CASE("the impossible line is the data sheet's", "[admission]") {
    Task task = fake_task();
    // 64 rows of 1024 floats, read and written.
    CHECK(*impossible_s(task, 0, "NVIDIA H200") == Approx(2.0 * 64 * 1024 * 4 / 4.8e12));
    CHECK_FALSE(impossible_s(task, 0, "Some GPU"));
    task.flops = "rows * 1000000000";
    CHECK(*impossible_s(task, 0, "NVIDIA H200") == Approx(64e9 / 989.5e12));
    task.policy.vector_fp32_only = true;
    CHECK(*impossible_s(task, 0, "NVIDIA H100 80GB HBM3") == Approx(64e9 / 67e12));
    task.policy.vector_fp32_only = false;
    task.definition.inputs[0].dtype = DType::float8_e4m3fn;
    CHECK(*impossible_s(task, 0, "NVIDIA H200") == Approx(64e9 / 1979e12));
}

TEST_CASE("a baseline below its bound or the impossible line is not admitted", "[admission]") {
    const Task task = fake_task();
    Roofs roofs;
    roofs.copy_bytes_per_s = 4e12;
    const auto all_ok = [](const std::vector<AdmissionCheck>& checks) {
        for (const AdmissionCheck& check : checks) {
            if (!check.ok) return false;
        }
        return !checks.empty();
    };
    CHECK(all_ok(time_checks(task, timed(task, 10e-6), roofs)));
    const auto fast = time_checks(task, timed(task, 0.2e-6), roofs);
    REQUIRE(fast.size() == 4);
    CHECK(fast[0].ok);
    CHECK_FALSE(fast[2].ok);
    CHECK(fast[2].message ==
          "baseline 0.20 us, bound 0.26 us, expected less than the baseline's time");
    CHECK_FALSE(fast[3].ok);
    CHECK(fast[3].message == "baseline 0.20 us, data sheet of NVIDIA H200 allows 0.22 us");
    CHECK_FALSE(all_ok(time_checks(task, Evaluation{}, roofs)));
    Evaluation elsewhere = timed(task, 10e-6);
    elsewhere.device = "Some GPU";
    CHECK_THAT(time_checks(task, elsewhere, {})[1].message, ContainsSubstring("no data sheet"));
}

TEST_CASE("the first check that does not hold is the verdict of an admission", "[admission]") {
    Evaluation evaluation = timed(fake_task(), 10e-6);
    CHECK_FALSE(is_admitted(evaluation));  // nothing was checked
    evaluation.admission = {{"zeros as y", true, "refused"}};
    conclude_admission(evaluation);
    CHECK(is_admitted(evaluation));
    evaluation.admission.push_back({"input x", false, "no output changes"});
    evaluation.admission.push_back({"input z", false, "no output changes"});
    CHECK_FALSE(is_admitted(evaluation));
    conclude_admission(evaluation);
    CHECK(evaluation.status == EvaluationStatus::rejected);
    CHECK(evaluation.rule == "admission");
    CHECK(evaluation.message == "input x: no output changes");
}

TEST_CASE("the downcast rounds the significand to nearest even and leaves the exponent alone",
          "[admission]") {
    using referee::rounded_to;
    CHECK(rounded_to(1.0 + 0x1p-11, 10) == 1.0);  // a tie: to even
    CHECK(rounded_to(1.0 + 3 * 0x1p-11, 10) == 1.0 + 2 * 0x1p-10);
    CHECK(rounded_to(1.0 + 0x1.1p-11, 10) == 1.0 + 0x1p-10);
    CHECK(rounded_to(-1.9, 1) == -2.0);
    CHECK(rounded_to(0x1.8p-900, 1) == 0x1.8p-900);
    CHECK(rounded_to(0.0, 3) == 0.0);
    CHECK(std::isinf(rounded_to(std::numeric_limits<double>::infinity(), 3)));
    CHECK(std::isnan(rounded_to(std::numeric_limits<double>::quiet_NaN(), 3)));
    // Seven bits are bfloat16's, where its range suffices.
    for (double value = 0.37; value < 1e6; value *= 1.37) {
        std::array<std::byte, 2> stored{};
        referee::store_element(DType::bfloat16, value, stored);
        CHECK(rounded_to(value, 7) == referee::element_value(DType::bfloat16, stored));
    }
}
