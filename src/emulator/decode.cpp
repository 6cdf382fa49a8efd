// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "emulator/decode_function.hpp"
#include "emulator/decode_layout.hpp"
#include "emulator/program.hpp"

namespace kernelforge::emulator {

const Entry* Code::find_entry(std::string_view name) const noexcept {
    const auto at = std::find_if(entries.begin(), entries.end(),
                                 [&](const Entry& entry) { return entry.name == name; });
    return at == entries.end() ? nullptr : &*at;
}

std::shared_ptr<const Code> decode(const Module& module, Isa isa) {
    auto code = std::make_shared<Code>();
    const decoding::ModuleLayout layout = decoding::lay_out(module, *code);
    decoding::FixedRows fixed(*code);
    for (const Function* function : layout.order) {
        decoding::FunctionDecoder(layout, layout.defined.at(function), *code, fixed, isa).run();
    }
    code->constants.resize(decoding::aligned(code->constants.size(), 128));
    return code;
}

}  // namespace kernelforge::emulator
