// SPDX-License-Identifier: Apache-2.0
#include "referee/limits.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernelforge/error.hpp"

namespace kernelforge::referee {
namespace {

/// Derivation of each: docs/referee.md, "Limits".
double rms_limit(PrecisionTier tier) {
    switch (tier) {
        case PrecisionTier::float64:
            return 1e-10;
        case PrecisionTier::float32:
            return 1e-5;
        case PrecisionTier::tensor_float32:
        case PrecisionTier::float16:
            return 1.1e-3;
        case PrecisionTier::bfloat16:
            return 6e-3;
        case PrecisionTier::float8:
            return 0.1;
    }
    throw Error(ErrorCode::invalid_argument, "precision tier: not one of the known values");
}

PrecisionTier tier_of(DType dtype) {
    switch (dtype) {
        case DType::float64:
            return PrecisionTier::float64;
        case DType::float16:
            return PrecisionTier::float16;
        case DType::bfloat16:
            return PrecisionTier::bfloat16;
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            return PrecisionTier::float8;
        default:
            return PrecisionTier::float32;
    }
}

bool floating(DType dtype) {
    switch (dtype) {
        case DType::float64:
        case DType::float32:
        case DType::float16:
        case DType::bfloat16:
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            return true;
        default:
            return false;
    }
}

}  // namespace

Limits limits_of(PrecisionTier tier, double slack, std::uint64_t count) {
    if (!std::isfinite(slack) || slack <= 0.0) {
        throw Error(ErrorCode::invalid_argument,
                    "comparison slack: expected a positive number, found " + std::to_string(slack));
    }
    double rms = rms_limit(tier) * slack;
    if (count > 0 && count < 64) rms *= std::sqrt(64.0 / static_cast<double>(count));
    return {.rms = rms, .tile = 2.0 * rms, .element = std::min(16.0 * rms, 0.5)};
}

Limits limits_of(const CompareSpec& spec, std::uint64_t count) {
    // An error d of log2(s) is one of d ln 2 of s; that of log(s) is allowed as much.
    constexpr double log2_e = 1.4426950408889634;
    const double scale = spec.kind == CompareSpec::Kind::lse ? log2_e : 1.0;
    return limits_of(spec.tier, spec.slack * scale, count);
}

CompareSpec default_compare(DType output) {
    if (output == DType::float4_e2m1) {
        throw Error(ErrorCode::unsupported, "outputs of type float4_e2m1 cannot be compared yet");
    }
    CompareSpec spec;
    spec.kind = floating(output) ? CompareSpec::Kind::rms : CompareSpec::Kind::exact;
    spec.tier = tier_of(output);
    return spec;
}

CompareSpec compare_of(const Task& task, const TensorSpec& output) {
    const auto found = task.compare.find(output.name);
    return found != task.compare.end() ? found->second : default_compare(output.dtype);
}

}  // namespace kernelforge::referee
