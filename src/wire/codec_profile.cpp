// SPDX-License-Identifier: Apache-2.0
#include "wire/codec_fields.hpp"

namespace kernelforge::wire {

KERNELFORGE_WIRE_FIELDS(DataRequest, metrics, sass_metrics, pc_samples, timeline, energy, custom)
KERNELFORGE_WIRE_FIELDS(CollectRequest, id, task, workloads, candidate, data, device, time_limit)
KERNELFORGE_WIRE_FIELDS(MetricValue, value, provenance)
KERNELFORGE_WIRE_FIELDS(LaunchProfile, kernel, metrics, custom)
KERNELFORGE_WIRE_FIELDS(ProfileData, launches, missing)
KERNELFORGE_WIRE_FIELDS(Bottleneck, key, kind, memory_fraction, compute_fraction, bound_s, headroom,
                        sentence)
KERNELFORGE_WIRE_FIELDS(ExpectedChange, metric, direction, factor)
KERNELFORGE_WIRE_FIELDS(Action, edit, example)
KERNELFORGE_WIRE_FIELDS(Finding, tool, cause, cause_group, severity, key, kernel, position, actions,
                        gain_limit, gain_basis, expected, forbidden)
KERNELFORGE_WIRE_FIELDS(Diagnosis, bottlenecks, findings, missing)

KERNELFORGE_WIRE_CODEC(DataRequest)
KERNELFORGE_WIRE_CODEC(CollectRequest)
KERNELFORGE_WIRE_CODEC(ProfileData)
KERNELFORGE_WIRE_CODEC(Bottleneck)
KERNELFORGE_WIRE_CODEC(Finding)
KERNELFORGE_WIRE_CODEC(Diagnosis)

template <>
Provenance decode<Provenance>(const JsonNode& node) {
    return decode_enum<Provenance>(node);
}
template <>
OccupancyLimiter decode<OccupancyLimiter>(const JsonNode& node) {
    return decode_enum<OccupancyLimiter>(node);
}
template <>
BottleneckKind decode<BottleneckKind>(const JsonNode& node) {
    return decode_enum<BottleneckKind>(node);
}
template <>
Severity decode<Severity>(const JsonNode& node) {
    return decode_enum<Severity>(node);
}

}  // namespace kernelforge::wire
