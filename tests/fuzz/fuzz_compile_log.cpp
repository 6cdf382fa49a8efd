// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "worker/compile_log.hpp"

/// The input is a log, a zero byte, and PTX.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kernelforge::compile;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::string_view log = text.substr(0, text.find('\0'));
    const std::string_view ptx = text.substr(log.size());
    const ScannedSource scanned = scan_source("#include <mma.h>\nint a;\n", "candidate.cu", {});
    const AssembledSource assembled = assemble_source(scanned, {});
    const std::string mapped = mapped_log(log, scanned, assembled);
    (void)read_diagnostics(mapped, scanned.body, scanned.file, ptx);
    (void)read_assembler_facts(mapped);
    (void)capped_log(mapped);
    return 0;
}
