// SPDX-License-Identifier: Apache-2.0
#include "fault_case.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "kernelforge/error.hpp"

namespace kernelforge::test {
namespace {

using Content = FaultCase::Content;

[[noreturn]] void fail(const FaultCase& file, const std::string& line) {
    throw Error(ErrorCode::parse, file.name + ": the line \"" + line + "\" is not understood");
}

Content content_of(const FaultCase& file, const std::string& word) {
    if (word == "input") return Content::input;
    if (word == "counting") return Content::counting;
    if (word == "ones") return Content::ones;
    if (word == "falling") return Content::falling;
    if (word == "zeroed") return Content::zeroed;
    if (word == "output") return Content::output;
    fail(file, word);
}

std::uint32_t number(const std::ssub_match& match, std::uint32_t otherwise) {
    return match.matched ? static_cast<std::uint32_t>(std::stoul(match.str())) : otherwise;
}

void read_launch(FaultCase& file, const std::string& text) {
    static const std::regex form(
        R"((\w+)<<<(\d+), (\d+)(?:, (\d+))?(?:, cluster (\d+))?(, cooperative)?>>>\(([^)]*)\))");
    std::smatch match;
    if (!std::regex_match(text, match, form)) fail(file, text);
    FaultCase::Launch launch;
    launch.kernel = match[1];
    launch.blocks = number(match[2], 1);
    launch.threads = number(match[3], 1);
    launch.dynamic_bytes = number(match[4], 0);
    launch.cluster = number(match[5], 1);
    launch.cooperative = match[6].matched;
    std::istringstream arguments(match[7].str());
    for (std::string one; std::getline(arguments >> std::ws, one, ',');) {
        launch.arguments.push_back(one);
    }
    file.launches.push_back(std::move(launch));
}

void read_buffer(FaultCase& file, const std::string& text) {
    static const std::regex form(R"((\w+) (f32|u32|u64)\[(\d+)\] (\w+))");
    std::smatch match;
    if (!std::regex_match(text, match, form)) fail(file, text);
    file.buffers.push_back(
        {match[1], match[2], std::stoull(match[3].str()), content_of(file, match[4])});
}

void read_check(FaultCase& file, const std::string& text) {
    static const std::regex form(R"((\w+)\[(\d+)\] = (\d+))");
    std::smatch match;
    if (!std::regex_match(text, match, form)) fail(file, text);
    file.checks.push_back({match[1], std::stoull(match[2].str()), std::stoull(match[3].str())});
}

void read_line(FaultCase& file, const std::string& key, const std::string& text) {
    if (key == "launch") {
        read_launch(file, text);
    } else if (key == "buffer") {
        read_buffer(file, text);
    } else if (key == "check") {
        read_check(file, text);
    } else if (key == "deadline") {
        file.deadline = std::chrono::seconds(std::stoul(text));
    } else {
        std::istringstream words(text);
        for (std::string word; words >> word;) {
            if (word != "nothing") file.kinds.insert(word);
        }
    }
}

/// Varied, the same on every machine: the high bits of a multiplicative hash (Knuth).
std::uint32_t varied(std::uint64_t index) {
    return (static_cast<std::uint32_t>(index) * 2654435761u) >> 20;
}

std::uint64_t integer_at(const FaultCase::Buffer& buffer, std::uint64_t index) {
    switch (buffer.content) {
        case Content::input:
            return varied(index);
        case Content::counting:
            return index;
        case Content::ones:
            return 1;
        case Content::falling:
            return buffer.count - 1 - index;
        default:
            return 0;
    }
}

}  // namespace

const FaultCase::Buffer& FaultCase::buffer(const std::string& wanted) const {
    const auto found = std::find_if(buffers.begin(), buffers.end(),
                                    [&wanted](const Buffer& b) { return b.name == wanted; });
    if (found != buffers.end()) return *found;
    throw Error(ErrorCode::parse, name + ": there is no buffer " + wanted);
}

FaultCase read_fault_case(const std::filesystem::path& path) {
    FaultCase file;
    file.name = path.filename().string();
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    file.source = text.str();
    static const std::regex form(R"(// (launch|buffer|check|deadline|expect): (.*))");
    std::istringstream lines(file.source);
    bool expects = false;
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (line.ends_with("// HERE")) file.lines.insert(number);
        std::smatch match;
        if (!std::regex_match(line, match, form)) continue;
        expects = expects || match[1] == "expect";
        read_line(file, match[1], match[2]);
    }
    if (file.launches.empty() || !expects) {
        throw Error(ErrorCode::parse, file.name + ": expected a launch and what is expected");
    }
    return file;
}

std::string initial_bytes(const FaultCase::Buffer& buffer) {
    std::string result;
    if (buffer.content == Content::output) return result;
    result.resize(buffer.bytes());
    for (std::uint64_t i = 0; i < buffer.count; ++i) {
        const std::uint64_t integer = integer_at(buffer, i);
        char* const at = result.data() + i * buffer.element_bytes();
        if (buffer.type == "f32") {
            const auto value = static_cast<float>(integer % 64);
            std::memcpy(at, &value, sizeof value);
        } else {
            std::memcpy(at, &integer, buffer.element_bytes());
        }
    }
    return result;
}

}  // namespace kernelforge::test
