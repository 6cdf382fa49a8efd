// SPDX-License-Identifier: Apache-2.0
#include "wire/codec_fields.hpp"

namespace kernelforge::wire {

KERNELFORGE_WIRE_FIELDS(Axis, name, kind, value, expression, description)
KERNELFORGE_WIRE_FIELDS(TensorSpec, name, shape, scalar, dtype, description)
KERNELFORGE_WIRE_FIELDS(Definition, name, op_type, description, axes, inputs, outputs, reference,
                        constraints)
KERNELFORGE_WIRE_FIELDS(Workload, uuid, axes, scalars, weight)
KERNELFORGE_WIRE_FIELDS(InitSpec, kind, mean, stddev, low, high, bound, used_by, varied)
KERNELFORGE_WIRE_FIELDS(CompareSpec, kind, tier, slack, custom, index, offsets, ties, probabilities)
KERNELFORGE_WIRE_FIELDS(BaselineSpec, name, kind, source, source_path, command)
KERNELFORGE_WIRE_FIELDS(Policy, vector_fp32_only, library_calls)
KERNELFORGE_WIRE_FIELDS(Task, definition, workloads, emulator_workloads, emulator_axes,
                        reference_cuda, reference_cuda_path, baselines, init, compare, inplace,
                        unused_inputs, constant_inputs, axis_ranges, flops, bytes, policy, folder)
KERNELFORGE_WIRE_FIELDS(Candidate, source, bindings)

KERNELFORGE_WIRE_CODEC(Definition)
KERNELFORGE_WIRE_CODEC(Workload)
KERNELFORGE_WIRE_CODEC(BaselineSpec)
KERNELFORGE_WIRE_CODEC(Task)
KERNELFORGE_WIRE_CODEC(Candidate)

template <>
DType decode<DType>(const JsonNode& node) {
    return decode_enum<DType>(node);
}
template <>
PrecisionTier decode<PrecisionTier>(const JsonNode& node) {
    return decode_enum<PrecisionTier>(node);
}

}  // namespace kernelforge::wire
