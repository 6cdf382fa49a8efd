// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/device_text.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "wire/codec.hpp"

namespace kernelforge::folder {
namespace {

struct Range {
    const char* member;
    std::int64_t low;
    std::int64_t high;
};

constexpr std::int64_t most = INT32_MAX;

/// Zero is allowed where it means "not known" and nothing divides by it or compiles against it. The
/// warp size is what the plan language and the tools compute with; the threads of a block are the
/// most that any CUDA device has (CUDA C++ Programming Guide, "Technical Specifications").
constexpr std::array ranges = {
    Range{"index", 0, most},
    Range{"slots", 1, most},
    Range{"multiprocessors", 1, most},
    Range{"warp_size", 32, 32},
    Range{"max_threads_per_block", 1, 1024},
    Range{"max_threads_per_multiprocessor", 1, most},
    Range{"max_blocks_per_multiprocessor", 1, most},
    Range{"registers_per_multiprocessor", 1, most},
    Range{"shared_bytes_per_multiprocessor", 1, most},
    Range{"max_shared_bytes_per_block", 1, most},
    Range{"reserved_shared_bytes_per_block", 0, most},
    Range{"l2_bytes", 0, std::int64_t{1} << 50},
    Range{"memory_bytes", 0, std::int64_t{1} << 50},
    Range{"clock_khz", 0, most},
    Range{"memory_clock_khz", 0, most},
    Range{"driver_version", 0, most},
};

constexpr std::array roof_members = {"read_bytes_per_s", "copy_bytes_per_s", "write_bytes_per_s",
                                     "fp32_flop_per_s",  "bf16_flop_per_s",  "empty_kernel_s"};

[[noreturn]] void refuse(const JsonNode& node, const std::string& member,
                         const std::string& expected) {
    node.fail(ErrorCode::parse, "device member \"" + member + "\": expected " + expected +
                                    ", found " + dump_json(node.json()).substr(0, 80));
}

bool is_within(const Json& json, const Range& range) {
    if (json.is_number_unsigned()) {
        const auto number = json.get<std::uint64_t>();
        return number <= static_cast<std::uint64_t>(range.high) &&
               static_cast<std::int64_t>(number) >= range.low;
    }
    if (!json.is_number_integer()) return false;
    const auto number = json.get<std::int64_t>();
    return number >= range.low && number <= range.high;
}

/// Checks the members that are there.
void check_ranges(const JsonNode& node) {
    for (const Range& range : ranges) {
        const auto member = node.find(range.member);
        if (!member || is_within(member->json(), range)) continue;
        refuse(*member, range.member,
               range.low == range.high ? "the integer " + std::to_string(range.low)
                                       : "an integer from " + std::to_string(range.low) + " to " +
                                             std::to_string(range.high));
    }
    const auto roofs = node.find("roofs");
    if (!roofs) return;
    for (const char* const name : roof_members) {
        const auto roof = roofs->find(name);
        if (!roof) continue;
        const Json& json = roof->json();
        const double number = json.is_number() ? json.get<double>() : 0.0;
        if (!(number > 0.0) || !std::isfinite(number)) {
            refuse(*roof, "roofs." + std::string(name), "a finite number above 0");
        }
    }
}

/// What an H100 or H200 reports, with the memory of an H200 (CUDA C++ Programming Guide,
/// compute capability 9.0; cuDeviceGetAttribute).
DeviceInfo hopper() {
    DeviceInfo device;
    device.name = "assumed sm_90 device";
    device.multiprocessors = 132;
    device.shared_bytes_per_multiprocessor = 233'472;
    device.max_shared_bytes_per_block = 232'448;
    device.reserved_shared_bytes_per_block = 1'024;
    device.l2_bytes = 62'914'560;
    device.memory_bytes = 141'000'000'000;
    return device;
}

/// Without these no launch plan can be checked, and no value is right for every device.
void require_limits(const JsonNode& node, const std::string& arch) {
    std::string missing;
    for (const char* const name :
         {"multiprocessors", "shared_bytes_per_multiprocessor", "max_shared_bytes_per_block"}) {
        if (node.find(name)) continue;
        missing += (missing.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    }
    if (missing.empty()) return;
    node.fail(ErrorCode::parse, "device of architecture " + arch.substr(0, 80) +
                                    ": expected also " + missing +
                                    ", which are assumed for sm_90 only");
}

}  // namespace

DeviceInfo read_device(const JsonNode& node) {
    DeviceInfo device = wire::decode<DeviceInfo>(node);
    check_ranges(node);
    return device;
}

DeviceInfo read_assumed_device(const JsonNode& node) {
    const std::string arch = node.string_or("arch", DeviceInfo{}.arch);
    const bool is_hopper = arch.starts_with("sm_90");
    DeviceInfo assumed = is_hopper ? hopper() : DeviceInfo{};
    if (!is_hopper) assumed.name = "assumed device";
    Json merged = wire::encode(assumed);
    node.for_each_member([&](const std::string& key, const JsonNode& member) {
        if (!merged.contains(key)) {
            member.fail(ErrorCode::parse,
                        "unknown member \"" + key + "\", expected one of DeviceInfo's");
        }
        merged[key] = member.json();
    });
    check_ranges(node);
    if (!is_hopper) require_limits(node, arch);
    const JsonDocument document(dump_json(merged), "options of evaluator folder, device");
    return wire::decode<DeviceInfo>(document.root());
}

}  // namespace kernelforge::folder
