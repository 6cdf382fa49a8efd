// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "kernelforge/error.hpp"
#include "kernelforge/plugin.hpp"

namespace {

using namespace kernelforge;

float value_at(std::span<const std::byte> bytes, std::size_t index) {
    float value = 0.0F;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
}

/// fp32 outputs that may have the other sign, as an eigenvector may. Wrong where the size of an
/// element is not the reference's, and where input `x` is not as long as the output.
class UpToSign final : public Comparator {
  public:
    [[nodiscard]] OutputError compare(const ComparisonInput& input) const override {
        if (input.dtype != DType::float32) {
            throw Error(ErrorCode::unsupported, "up_to_sign: expected float32");
        }
        OutputError error;
        if (input.input("x").size() != input.found.size()) {
            throw Error(ErrorCode::invalid_argument,
                        "up_to_sign: expected x as long as the output");
        }
        for (std::size_t i = 0; i < input.found.size() / sizeof(float); ++i) {
            const float found = value_at(input.found, i);
            const float expected = value_at(input.expected, i);
            if (std::fabs(found) == std::fabs(expected)) continue;
            if (error.mismatches++ > 0) continue;
            error.first_index = static_cast<std::int64_t>(i);
            error.found = found;
            error.expected = expected;
        }
        error.ok = error.mismatches == 0;
        return error;
    }
};

std::unique_ptr<Comparator> make(std::string_view, const PluginContext&) {
    return std::make_unique<UpToSign>();
}

constexpr Factory<Comparator> comparators[] = {{"up_to_sign", "Compares sizes, not signs.", make}};

}  // namespace

KERNELFORGE_PLUGIN(comparator_test_plugin) = {KERNELFORGE_PLUGIN_HEAD("signs", "1.0"),
                                              .comparators = comparators};
