// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "reply.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kernelforge;
    Definition definition;
    definition.name = "scale";
    definition.axes = {{"rows", Axis::Kind::variable, 0, "", ""}};
    definition.inputs = {{"x", {"rows"}, false, DType::float32, ""}};
    definition.outputs = {{"y", {"rows"}, false, DType::float32, ""}};

    const ModelReply reply = parse_reply({reinterpret_cast<const char*>(data), size}, definition);
    const auto classes = change_classes();
    const bool known =
        std::find(classes.begin(), classes.end(), reply.change_class) != classes.end();
    if (!known || reply.plan.empty() || reply.notes.size() > 16 || reply.expect.size() > 16) {
        __builtin_trap();
    }
    if (reply.code.has_value() != reply.why_no_code.empty()) __builtin_trap();
    if (reply.code && reply.code->find('\r') != std::string::npos) __builtin_trap();
    return 0;
}
