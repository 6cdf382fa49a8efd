// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/machine_runner.hpp"

// printf and assert of kernels.

namespace kernelforge::emulator::running {

namespace {

/// CUDA's printf takes at most 32 arguments beside the format string; texts are cut here.
constexpr std::size_t most_arguments = 32, most_text_bytes = 1024;

/// A conversion of a format string.
struct Conversion {
    std::string text;  ///< from '%' to before the length modifier
    bool is_long = false;
    char letter = 0;  ///< 0: malformed, print it as it is
    int stars = 0;
};

Conversion read_conversion(const std::string& format, std::size_t& at) {
    Conversion conversion;
    const auto take_while = [&](const char* allowed) {
        while (at < format.size() && std::strchr(allowed, format[at]) != nullptr) {
            if (format[at] == '*') ++conversion.stars;
            conversion.text += format[at++];
        }
    };
    conversion.text = format[at++];
    take_while("-+ #0");
    take_while("0123456789*");
    take_while(".");
    take_while("0123456789*");
    while (at < format.size() && std::strchr("hlLzjtq", format[at]) != nullptr) {
        // Only `l` in its different forms makes an integer wider than 32 bits.
        conversion.is_long = conversion.is_long || std::strchr("lzjtq", format[at]) != nullptr;
        ++at;
    }
    if (at < format.size()) conversion.letter = format[at++];
    return conversion;
}

template <class Value>
std::string formatted(const std::string& format, Value value) {
    std::array<char, 1280> text;
    // The format is one conversion that was checked to fit the value's type.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int length = std::snprintf(text.data(), text.size(), format.c_str(), value);
#pragma GCC diagnostic pop
    const auto most = static_cast<int>(text.size()) - 1;
    return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, most))};
}

/// A width or precision that is an argument, put into the conversion. Long ones are cut.
void replace_star(std::string& text, std::int32_t value) {
    const std::size_t star = text.find('*');
    text.replace(star, 1, std::to_string(std::clamp(value, -1000, 1000)));
}

/// The next argument, or arguments, as the conversion says. `argument` takes one of so many bytes,
/// `text` reads a string of the device.
template <class Argument, class Text>
std::string converted(const Conversion& conversion, const Argument& argument, const Text& text) {
    switch (conversion.letter) {
        case '%':
            return "%";
        case 'd':
        case 'i': {
            const std::uint64_t value = argument(conversion.is_long ? 8 : 4);
            return formatted(conversion.text + "lld", conversion.is_long
                                                          ? static_cast<long long>(value)
                                                          : static_cast<std::int32_t>(value));
        }
        case 'u':
        case 'x':
        case 'X':
        case 'o':
            return formatted(conversion.text + "ll" + conversion.letter,
                             static_cast<unsigned long long>(argument(conversion.is_long ? 8 : 4)));
        case 'c':
            return formatted(conversion.text + "c", static_cast<int>(argument(4) & 0xffU));
        case 'p':
            return formatted(conversion.text + "p", reinterpret_cast<void*>(argument(8)));
        case 's':
            return formatted(conversion.text + "s", text(argument(8)).c_str());
        case 'e':
        case 'E':
        case 'f':
        case 'F':
        case 'g':
        case 'G':
        case 'a':
        case 'A':
            return formatted(conversion.text + conversion.letter,
                             std::bit_cast<double>(argument(8)));
        case 0:
            return conversion.text;
        default:
            return conversion.text + conversion.letter;
    }
}

}  // namespace

Next Runner::system_call(Warp& warp, Group& group, const DecodedInstruction& in,
                         std::uint32_t mask) {
    const Rows rows = rows_of(warp, group);
    switch (static_cast<SystemFunction>(in.attribute)) {
        case SystemFunction::print:
            print(warp, rows, in, mask);
            break;
        case SystemFunction::assert_fail:
            assertion(warp, rows, in, mask);
        case SystemFunction::allocate: {
            // The device's heap is empty.
            const RowRef to = code_->operands[in.operands];
            if (to == no_row) break;
            each_lane(mask, [&](int lane) { rows.at<std::uint64_t>(to)[lane] = 0; });
            break;
        }
        case SystemFunction::release:
            break;
    }
    return Next::advance;
}

std::string Runner::text_at(Warp& warp, std::uint64_t address, std::size_t most, int lane,
                            const Place& place) {
    Request request;
    request.bytes = 1;
    std::string text;
    while (text.size() < most) {
        const std::byte* byte =
            range(warp, request, address + text.size(), 1, lane, place, nullptr);
        if (*byte == std::byte{0}) break;
        text += static_cast<char>(*byte);
    }
    return text;
}

void Runner::print(Warp& warp, const Rows& rows, const DecodedInstruction& in, std::uint32_t mask) {
    const RowRef* operands = code_->operands.data() + in.operands;
    each_lane(mask, [&](int lane) {
        const std::string format = text_at(warp, rows.at<std::uint64_t>(operands[1])[lane],
                                           most_text_bytes, lane, in.place);
        const Printed made =
            printed(warp, format, rows.at<std::uint64_t>(operands[2])[lane], lane, in.place);
        if (operands[0] != no_row) {
            // The number of arguments, as CUDA's printf returns.
            rows.at<std::uint32_t>(operands[0])[lane] = made.arguments;
        }
        const std::lock_guard lock(launch_->mutex);
        const std::size_t room = launch_->limits->most_output_bytes - launch_->output.size();
        launch_->output.append(made.text, 0, room);
    });
}

/// The text of one printf. Arguments lie as in a va_list of the device: each at a multiple of its
/// size, floats as doubles.
Runner::Printed Runner::printed(Warp& warp, const std::string& format, std::uint64_t arguments,
                                int lane, const Place& place) {
    Printed made;
    std::uint64_t offset = 0;
    const auto argument = [&](std::uint32_t bytes) {
        offset = (offset + bytes - 1) / bytes * bytes;
        Request request;
        request.bytes = bytes;
        std::uint64_t value = 0;
        if (made.arguments++ < most_arguments) {
            std::memcpy(&value,
                        range(warp, request, arguments + offset, bytes, lane, place, nullptr),
                        bytes);
        }
        offset += bytes;
        return value;
    };
    const auto text = [&](std::uint64_t address) {
        return text_at(warp, address, most_text_bytes, lane, place);
    };
    for (std::size_t at = 0; at < format.size();) {
        if (format[at] != '%') {
            made.text += format[at++];
            continue;
        }
        Conversion conversion = read_conversion(format, at);
        for (int i = 0; i < conversion.stars; ++i) {
            replace_star(conversion.text, static_cast<std::int32_t>(argument(4)));
        }
        made.text += converted(conversion, argument, text);
    }
    return made;
}

void Runner::assertion(Warp& warp, const Rows& rows, const DecodedInstruction& in,
                       std::uint32_t mask) {
    const RowRef* operands = code_->operands.data() + in.operands;
    const int lane = std::countr_zero(mask);
    const auto text = [&](int operand) {
        return text_at(warp, rows.at<std::uint64_t>(operands[operand])[lane], most_text_bytes, lane,
                       in.place);
    };
    throw Fault{report(Report::Kind::assertion, warp, lane, in.place,
                       "fails the assertion \"" + text(0) + "\" of " + text(1) + ":" +
                           std::to_string(rows.at<std::uint32_t>(operands[2])[lane]))};
}

}  // namespace kernelforge::emulator::running
