// SPDX-License-Identifier: Apache-2.0
#include "wire/codec_fields.hpp"

namespace kernelforge::wire {

KERNELFORGE_WIRE_FIELDS(Expansion, id, action, parent, role, thread, directive, inspirations,
                        memory_query)
KERNELFORGE_WIRE_FIELDS(NodeSummary, expansion, outcome, node, parent, status, speedup, leader,
                        change_class, message)
KERNELFORGE_WIRE_FIELDS(ToolSpec, name, description, parameters)
KERNELFORGE_WIRE_FIELDS(ChatMessage, role, content, tool_calls, tool_call_id)
KERNELFORGE_WIRE_FIELDS(CompletionKey, expansion, turn)
KERNELFORGE_WIRE_FIELDS(ChatRequest, key, messages, tools, max_output_tokens, temperature)
KERNELFORGE_WIRE_FIELDS(Usage, input_tokens, cached_input_tokens, output_tokens, cost_usd)
KERNELFORGE_WIRE_FIELDS(ChatReply, status, content, tool_calls, usage, model, message, time)

KERNELFORGE_WIRE_CODEC(Expansion)
KERNELFORGE_WIRE_CODEC(NodeSummary)
KERNELFORGE_WIRE_CODEC(ChatRequest)
KERNELFORGE_WIRE_CODEC(Usage)
KERNELFORGE_WIRE_CODEC(ChatReply)

template <>
ExpansionAction decode<ExpansionAction>(const JsonNode& node) {
    return decode_enum<ExpansionAction>(node);
}
template <>
ExpansionOutcome decode<ExpansionOutcome>(const JsonNode& node) {
    return decode_enum<ExpansionOutcome>(node);
}
template <>
ChatRole decode<ChatRole>(const JsonNode& node) {
    return decode_enum<ChatRole>(node);
}
template <>
ChatStatus decode<ChatStatus>(const JsonNode& node) {
    return decode_enum<ChatStatus>(node);
}

}  // namespace kernelforge::wire
