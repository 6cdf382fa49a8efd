// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json_text.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/llm_backend.hpp"
#include "kernelforge/profile_data.hpp"
#include "kernelforge/profiler_tool.hpp"
#include "kernelforge/search_strategy.hpp"

// Values of the public headers as JSON, for the worker protocol, for job folders and for archives:
// an object with all members under their C++ names. An absent optional is left out; enumerators are
// their `to_string` names; durations are seconds; a pair is an array of two; `cubin` is base64;
// text that is not valid UTF-8 is {"base64": "…"}; non-finite numbers are the strings "nan", "inf",
// "-inf". Reading is strict: unknown and absent members, wrong types, numbers that do not fit and
// values outside an enum are Error parse with position. Include from .cpp files only.

namespace kernelforge::wire {

/// decode<T>(node) for every T below that `encode` takes, and for the enumerations listed last.
/// @throws Error parse
template <class T>
[[nodiscard]] T decode(const JsonNode& node);

// definition.hpp, candidate.hpp
[[nodiscard]] Json encode(const Definition& definition);
[[nodiscard]] Json encode(const Workload& workload);
[[nodiscard]] Json encode(const BaselineSpec& baseline);
[[nodiscard]] Json encode(const Task& task);
[[nodiscard]] Json encode(const Candidate& candidate);
template <>
Definition decode<Definition>(const JsonNode& node);
template <>
Workload decode<Workload>(const JsonNode& node);
template <>
BaselineSpec decode<BaselineSpec>(const JsonNode& node);
template <>
Task decode<Task>(const JsonNode& node);
template <>
Candidate decode<Candidate>(const JsonNode& node);

// compiler.hpp
[[nodiscard]] Json encode(const KernelFacts& facts);
[[nodiscard]] Json encode(const CompileDiagnostic& diagnostic);
[[nodiscard]] Json encode(const CompileRequest& request);
[[nodiscard]] Json encode(const CompileResult& result);
template <>
KernelFacts decode<KernelFacts>(const JsonNode& node);
template <>
CompileDiagnostic decode<CompileDiagnostic>(const JsonNode& node);
template <>
CompileRequest decode<CompileRequest>(const JsonNode& node);
template <>
CompileResult decode<CompileResult>(const JsonNode& node);

// evaluator.hpp. Requests hold their task by value.
/// @throws Error invalid_argument (a request without a task)
[[nodiscard]] Json encode(const EvaluationRequest& request);
[[nodiscard]] Json encode(const CompiledCandidate& candidate);
[[nodiscard]] Json encode(const Roofs& roofs);
[[nodiscard]] Json encode(const DeviceInfo& device);
[[nodiscard]] Json encode(const Timing& timing);
[[nodiscard]] Json encode(const PairedRatio& paired);
[[nodiscard]] Json encode(const OutputError& error);
[[nodiscard]] Json encode(const LaunchFacts& launch);
[[nodiscard]] Json encode(const WorkloadResult& result);
[[nodiscard]] Json encode(const DeviceState& state);
[[nodiscard]] Json encode(const Evaluation& evaluation);
template <>
EvaluationRequest decode<EvaluationRequest>(const JsonNode& node);
template <>
CompiledCandidate decode<CompiledCandidate>(const JsonNode& node);
template <>
Roofs decode<Roofs>(const JsonNode& node);
template <>
DeviceInfo decode<DeviceInfo>(const JsonNode& node);
template <>
Timing decode<Timing>(const JsonNode& node);
template <>
PairedRatio decode<PairedRatio>(const JsonNode& node);
template <>
OutputError decode<OutputError>(const JsonNode& node);
template <>
LaunchFacts decode<LaunchFacts>(const JsonNode& node);
template <>
WorkloadResult decode<WorkloadResult>(const JsonNode& node);
template <>
DeviceState decode<DeviceState>(const JsonNode& node);
template <>
Evaluation decode<Evaluation>(const JsonNode& node);

// profile_data.hpp, profiler_tool.hpp
/// @throws Error invalid_argument (a request without a task)
[[nodiscard]] Json encode(const CollectRequest& request);
[[nodiscard]] Json encode(const DataRequest& request);
[[nodiscard]] Json encode(const ProfileData& data);
[[nodiscard]] Json encode(const Bottleneck& bottleneck);
[[nodiscard]] Json encode(const Finding& finding);
[[nodiscard]] Json encode(const Diagnosis& diagnosis);
template <>
CollectRequest decode<CollectRequest>(const JsonNode& node);
template <>
DataRequest decode<DataRequest>(const JsonNode& node);
template <>
ProfileData decode<ProfileData>(const JsonNode& node);
template <>
Bottleneck decode<Bottleneck>(const JsonNode& node);
template <>
Finding decode<Finding>(const JsonNode& node);
template <>
Diagnosis decode<Diagnosis>(const JsonNode& node);

// search_strategy.hpp, llm_backend.hpp. A `NodeId` is its text.
[[nodiscard]] Json encode(const Expansion& expansion);
[[nodiscard]] Json encode(const NodeSummary& summary);
[[nodiscard]] Json encode(const ChatRequest& request);
[[nodiscard]] Json encode(const ChatReply& reply);
[[nodiscard]] Json encode(const Usage& usage);
template <>
Expansion decode<Expansion>(const JsonNode& node);
template <>
NodeSummary decode<NodeSummary>(const JsonNode& node);
template <>
ChatRequest decode<ChatRequest>(const JsonNode& node);
template <>
ChatReply decode<ChatReply>(const JsonNode& node);
template <>
Usage decode<Usage>(const JsonNode& node);

// Enumerations by their `to_string` names.
template <>
DType decode<DType>(const JsonNode& node);
template <>
PrecisionTier decode<PrecisionTier>(const JsonNode& node);
template <>
Provenance decode<Provenance>(const JsonNode& node);
template <>
EvaluationStatus decode<EvaluationStatus>(const JsonNode& node);
template <>
EvaluationDepth decode<EvaluationDepth>(const JsonNode& node);
template <>
OccupancyLimiter decode<OccupancyLimiter>(const JsonNode& node);
template <>
BottleneckKind decode<BottleneckKind>(const JsonNode& node);
template <>
Severity decode<Severity>(const JsonNode& node);
template <>
ExpansionAction decode<ExpansionAction>(const JsonNode& node);
template <>
ExpansionOutcome decode<ExpansionOutcome>(const JsonNode& node);
template <>
ChatRole decode<ChatRole>(const JsonNode& node);
template <>
ChatStatus decode<ChatStatus>(const JsonNode& node);

/// One request or answer of the worker protocol: `{"type": TYPE, "body": BODY}`.
[[nodiscard]] std::string message(std::string_view type, const Json& body);

}  // namespace kernelforge::wire
