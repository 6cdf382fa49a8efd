// SPDX-License-Identifier: Apache-2.0
// The first byte chooses the type, the rest is the JSON text. What is read must survive being
// written and read again.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/json_text.hpp"
#include "kernelforge/error.hpp"
#include "wire/codec.hpp"

namespace {

using namespace kernelforge;

template <class T>
void round_trip(const std::string& text) {
    std::string written;
    try {
        const JsonDocument document(text, "input");
        written = dump_json(wire::encode(wire::decode<T>(document.root())));
    } catch (const Error&) {
        return;  // refused with a sentence, which is right for most inputs
    }
    // A map's key that is not UTF-8 cannot get here, because the parser refused it.
    const JsonDocument again(written, "output");
    if (dump_json(wire::encode(wire::decode<T>(again.root()))) != written) std::abort();
}

constexpr std::array<void (*)(const std::string&), 12> types = {
    round_trip<EvaluationRequest>, round_trip<Evaluation>, round_trip<CollectRequest>,
    round_trip<ProfileData>,       round_trip<Diagnosis>,  round_trip<CompileRequest>,
    round_trip<CompileResult>,     round_trip<DeviceInfo>, round_trip<Task>,
    round_trip<ChatRequest>,       round_trip<ChatReply>,  round_trip<NodeSummary>};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    types[data[0] % types.size()](std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
    return 0;
}
