// SPDX-License-Identifier: Apache-2.0
#include "wire/codec_fields.hpp"

namespace kernelforge::wire {

KERNELFORGE_WIRE_FIELDS(Roofs, read_bytes_per_s, copy_bytes_per_s, write_bytes_per_s,
                        fp32_flop_per_s, bf16_flop_per_s, empty_kernel_s)
KERNELFORGE_WIRE_FIELDS(DeviceInfo, index, name, uuid, arch, slots, wants_cubin, wants_ptx,
                        emulated, multiprocessors, warp_size, max_threads_per_block,
                        max_threads_per_multiprocessor, max_blocks_per_multiprocessor,
                        registers_per_multiprocessor, shared_bytes_per_multiprocessor,
                        max_shared_bytes_per_block, reserved_shared_bytes_per_block, l2_bytes,
                        memory_bytes, clock_khz, memory_clock_khz, driver_version, roofs)
KERNELFORGE_WIRE_FIELDS(EvaluationRequest, id, task, workloads, hidden, candidate, reference,
                        opponent, command, depth, seed, device, fresh_worker, time_limit)
KERNELFORGE_WIRE_FIELDS(Timing, median_s, trimmed_mean_s, p10_s, p90_s, samples, provenance, clock,
                        events_median_s, globaltimer_median_s)
KERNELFORGE_WIRE_FIELDS(PairedRatio, ratio, low, high, quads)
KERNELFORGE_WIRE_FIELDS(OutputError, output, ok, normalised_rms, max_tile_rms, rms_limit,
                        tile_limit, mismatches, first_index, expected, found, distribution)
KERNELFORGE_WIRE_FIELDS(LaunchFacts, kernel, grid, block, cluster, dynamic_shared_bytes,
                        blocks_per_multiprocessor, mean_s)
KERNELFORGE_WIRE_FIELDS(WorkloadResult, workload, status, message, outputs, timing, opponent_timing,
                        paired, launches, prepare_s, library_steps)
KERNELFORGE_WIRE_FIELDS(HiddenResult, hidden, status, refused, message, outputs)
KERNELFORGE_WIRE_FIELDS(SanitizerResult, tool, status, message)
KERNELFORGE_WIRE_FIELDS(AdmissionCheck, name, ok, message)
KERNELFORGE_WIRE_FIELDS(DeviceState, sm_clock_mhz_before, sm_clock_mhz_after, memory_clock_mhz,
                        temperature_c, throttle_reasons, other_processes, calibration_before_s,
                        calibration_after_s)
KERNELFORGE_WIRE_FIELDS(Evaluation, id, status, message, rule, workloads, hidden, sanitizer,
                        admission, device_state, device, evaluator, output, compile_time,
                        check_time, timing_time, total_time)

KERNELFORGE_WIRE_CODEC(Roofs)
KERNELFORGE_WIRE_CODEC(DeviceInfo)
KERNELFORGE_WIRE_CODEC(EvaluationRequest)
KERNELFORGE_WIRE_CODEC(Timing)
KERNELFORGE_WIRE_CODEC(PairedRatio)
KERNELFORGE_WIRE_CODEC(OutputError)
KERNELFORGE_WIRE_CODEC(LaunchFacts)
KERNELFORGE_WIRE_CODEC(WorkloadResult)
KERNELFORGE_WIRE_CODEC(DeviceState)
KERNELFORGE_WIRE_CODEC(Evaluation)

template <>
EvaluationStatus decode<EvaluationStatus>(const JsonNode& node) {
    return decode_enum<EvaluationStatus>(node);
}
template <>
EvaluationDepth decode<EvaluationDepth>(const JsonNode& node) {
    return decode_enum<EvaluationDepth>(node);
}

}  // namespace kernelforge::wire
