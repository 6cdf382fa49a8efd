// SPDX-License-Identifier: Apache-2.0
#include "wire/codec_fields.hpp"

namespace kernelforge::wire {

KERNELFORGE_WIRE_FIELDS(KernelFacts, name, lowered_name, registers_per_thread, stack_bytes,
                        spill_store_bytes, spill_load_bytes, static_shared_bytes, barriers,
                        max_threads_per_block, parameter_bytes, parameter_types, opcode_counts)
KERNELFORGE_WIRE_FIELDS(CompileRequest, source, file_name, arch, options, defines, kernels,
                        time_limit, memory_limit_bytes)
KERNELFORGE_WIRE_FIELDS(CompileDiagnostic, severity, position, message)
KERNELFORGE_WIRE_FIELDS(CompileResult, status, message, diagnostics, log, ptx, cubin, arch,
                        compiler, kernels, writable_globals, time, from_cache)
KERNELFORGE_WIRE_FIELDS(CompiledCandidate, candidate, builds, build_of_workload)

KERNELFORGE_WIRE_CODEC(KernelFacts)
KERNELFORGE_WIRE_CODEC(CompileRequest)
KERNELFORGE_WIRE_CODEC(CompileDiagnostic)
KERNELFORGE_WIRE_CODEC(CompileResult)
KERNELFORGE_WIRE_CODEC(CompiledCandidate)

}  // namespace kernelforge::wire
