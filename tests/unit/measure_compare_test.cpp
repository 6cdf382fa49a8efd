// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_compare.hpp"

#include <new>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::worker;

namespace {

class Throws final : public Comparator {
  public:
    explicit Throws(std::function<void()> thrower) : thrower_(std::move(thrower)) {}
    [[nodiscard]] OutputError compare(const ComparisonInput&) const override {
        thrower_();
        return {};
    }

  private:
    std::function<void()> thrower_;
};

std::string said(std::function<void()> thrower) {
    const Task task;
    const Workload workload;
    const ComparisonInput input{.task = task,
                                .workload = workload,
                                .output = "y",
                                .shape = {},
                                .found = {},
                                .expected = {},
                                .input = {}};
    const Throws comparator(std::move(thrower));
    return test::error_of([&] { (void)asked(comparator, "mine", input); }).value_or("nothing");
}

}  // namespace

TEST_CASE("whatever a comparator throws is an error that names it", "[measure]") {
    CHECK(said([] {}) == "nothing");
    CHECK(said([] { throw Error(ErrorCode::unsupported, "mine: expected float32"); }) ==
          "mine: expected float32");
    CHECK(said([] { throw std::bad_alloc(); }) == "comparator mine: it threw std::bad_alloc");
    CHECK(said([] { throw 5; }) == "comparator mine: it threw what is no exception");
}
