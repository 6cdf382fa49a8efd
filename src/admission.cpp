// SPDX-License-Identifier: Apache-2.0
#include "admission.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "builds.hpp"
#include "referee/limits.hpp"
#include "roofline.hpp"

namespace kernelforge {
namespace {

/// Decimal bytes and dense operations per second.
constexpr DataSheet h200 = {4.8e12, 67e12, 989.5e12, 1979e12};
constexpr DataSheet h100_sxm = {3.35e12, 67e12, 989.5e12, 1979e12};

bool is_float8(DType dtype) {
    return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2 ||
           dtype == DType::float4_e2m1;
}

/// Whether a right kernel could compute with 8-bit operands.
bool allows_8_bit(const Task& task) {
    const auto& inputs = task.definition.inputs;
    if (std::any_of(inputs.begin(), inputs.end(),
                    [](const TensorSpec& input) { return is_float8(input.dtype); })) {
        return true;
    }
    return std::any_of(task.definition.outputs.begin(), task.definition.outputs.end(),
                       [&](const TensorSpec& output) {
                           return !is_float8(output.dtype) &&
                                  referee::compare_of(task, output).tier == PrecisionTier::float8;
                       });
}

void append(std::vector<std::string>& list, const std::string& word) {
    if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
}

std::string joined(const std::vector<std::string>& words) {
    return fmt::format("{}", fmt::join(words, ", "));
}

/// The outcomes of one null and output over all shapes.
AdmissionCheck null_check(const std::vector<const NullOutcome*>& outcomes) {
    AdmissionCheck check;
    check.name = fmt::format("{} as {}", outcomes.front()->null, outcomes.front()->output);
    check.ok = true;
    std::vector<std::string> refused;
    std::size_t tried = 0;
    for (const NullOutcome* outcome : outcomes) {
        if (!outcome->skipped.empty()) continue;
        ++tried;
        for (const std::string& distribution : outcome->refused_in) append(refused, distribution);
        if (!outcome->refused_in.empty() || !check.ok) continue;
        check.ok = false;
        check.message = fmt::format("accepted on {} in all of: {}; expected a refusal in one",
                                    outcome->shape, joined(outcome->accepted_in));
    }
    if (tried == 0) {
        check.message = "skipped: " + outcomes.front()->skipped;
    } else if (check.ok) {
        check.message =
            fmt::format("refused on {} of {} shapes, in {}", tried, tried, joined(refused));
    }
    return check;
}

}  // namespace

std::optional<DataSheet> data_sheet(std::string_view device_name) {
    if (device_name.find("H200") != std::string_view::npos) return h200;
    if (device_name.find("H100") != std::string_view::npos &&
        device_name.find("HBM3") != std::string_view::npos) {
        return h100_sxm;
    }
    return std::nullopt;
}

std::optional<double> impossible_s(const Task& task, std::size_t workload,
                                   std::string_view device_name) {
    const std::optional<DataSheet> sheet = data_sheet(device_name);
    if (!sheet) return std::nullopt;
    const WorkloadCost cost = workload_cost(task, workload);
    double seconds = cost.bytes / sheet->bytes_per_s;
    if (!cost.operations) return seconds;
    const double rate = task.policy.vector_fp32_only ? sheet->fp32_flop_per_s
                        : allows_8_bit(task)         ? sheet->matrix8_flop_per_s
                                                     : sheet->matrix16_flop_per_s;
    return std::max(seconds, *cost.operations / rate);
}

int coarser_bits(PrecisionTier tier) {
    switch (tier) {
        case PrecisionTier::float64:
            return 23;
        case PrecisionTier::float32:
            return 10;
        case PrecisionTier::tensor_float32:
        case PrecisionTier::float16:
            return 7;
        case PrecisionTier::bfloat16:
            return 3;
        case PrecisionTier::float8:
            return 1;
    }
    return 1;
}

std::optional<int> coarser_bits(DType input) {
    switch (input) {
        case DType::float64:
            return coarser_bits(PrecisionTier::float64);
        case DType::float32:
            return coarser_bits(PrecisionTier::float32);
        case DType::float16:
            return coarser_bits(PrecisionTier::float16);
        case DType::bfloat16:
            return coarser_bits(PrecisionTier::bfloat16);
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            return coarser_bits(PrecisionTier::float8);
        default:
            return std::nullopt;
    }
}

std::optional<int> downcast_bits(PrecisionTier tier, DType input) {
    const std::optional<int> own = coarser_bits(input);
    if (!own) return std::nullopt;
    return std::min(*own, coarser_bits(tier));
}

std::vector<AdmissionCheck> null_checks(const std::vector<NullOutcome>& outcomes) {
    std::vector<AdmissionCheck> checks;
    std::vector<bool> done(outcomes.size(), false);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        if (done[i]) continue;
        std::vector<const NullOutcome*> same;
        for (std::size_t j = i; j < outcomes.size(); ++j) {
            if (outcomes[j].null != outcomes[i].null || outcomes[j].output != outcomes[i].output) {
                continue;
            }
            done[j] = true;
            same.push_back(&outcomes[j]);
        }
        checks.push_back(null_check(same));
    }
    return checks;
}

std::vector<AdmissionCheck> time_checks(const Task& task, const Evaluation& evaluation,
                                        const Roofs& roofs) {
    std::vector<AdmissionCheck> checks;
    for (const WorkloadResult& result : evaluation.workloads) {
        if (!result.timing || result.workload >= task.workloads.size()) continue;
        if (result.timing->provenance != Provenance::measured) {
            checks.push_back(
                {fmt::format("time on {}", describe_shape(task.workloads[result.workload])), true,
                 fmt::format("skipped: the baseline's time is {}, no measured one",
                             to_string(result.timing->provenance))});
            continue;
        }
        const double time = result.timing->median_s;
        const std::string shape = describe_shape(task.workloads[result.workload]);
        AdmissionCheck bound{fmt::format("bound on {}", shape), true, ""};
        if (const auto least = bound_s(task, result.workload, roofs)) {
            bound.ok = *least < time;
            bound.message = fmt::format(
                "baseline {:.2f} us, bound {:.2f} us, expected less than "
                "the baseline's time",
                time * 1e6, *least * 1e6);
        } else {
            bound.message = "skipped: no roof of this device was measured";
        }
        AdmissionCheck line{fmt::format("impossible line on {}", shape), true, ""};
        if (const auto least = impossible_s(task, result.workload, evaluation.device)) {
            line.ok = *least < time;
            line.message = fmt::format("baseline {:.2f} us, data sheet of {} allows {:.2f} us",
                                       time * 1e6, evaluation.device, *least * 1e6);
        } else {
            line.message = fmt::format("skipped: no data sheet of {} is known, only measured roofs",
                                       evaluation.device);
        }
        checks.push_back(std::move(bound));
        checks.push_back(std::move(line));
    }
    if (checks.empty()) checks.push_back({"time", false, "the baseline has no time"});
    return checks;
}

bool is_admitted(const Evaluation& evaluation) {
    return evaluation.status == EvaluationStatus::ok && !evaluation.admission.empty() &&
           std::all_of(evaluation.admission.begin(), evaluation.admission.end(),
                       [](const AdmissionCheck& check) { return check.ok; });
}

void conclude_admission(Evaluation& evaluation) {
    if (evaluation.status != EvaluationStatus::ok) return;
    for (const AdmissionCheck& check : evaluation.admission) {
        if (check.ok) continue;
        evaluation.status = EvaluationStatus::rejected;
        evaluation.rule = "admission";
        evaluation.message = fmt::format("{}: {}", check.name, check.message);
        return;
    }
}

}  // namespace kernelforge
