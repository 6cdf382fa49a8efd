// SPDX-License-Identifier: Apache-2.0
#include "fuzz_number.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kernelforge::fuzz {
namespace {

constexpr int quad_bias = 16383;

Wide bits_of(Quad value) {
    Wide bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
int exponent_of(Quad value) {
    return static_cast<int>(static_cast<u64>(bits_of(value) >> 112) & 0x7fff) - quad_bias;
}
Quad power_of_two(int exponent) {
    const Wide bits = static_cast<Wide>(exponent + quad_bias) << 112;
    Quad value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
bool is_power_of_two(Quad value) {
    return (bits_of(value) << 16) == 0;
}
int sign_of(Quad value) {
    return value > 0 ? 1 : value < 0 ? -1 : 0;
}
Quad infinity() {
    return std::numeric_limits<double>::infinity();
}

/// Whether a magnitude is rounded away from zero. `side`: of its fraction against one half.
bool rounds_up(Rounding mode, bool minus, bool odd, int side, bool inexact) {
    switch (mode) {
        case Rounding::nearest:
            return side > 0 || (side == 0 && odd);
        case Rounding::zero:
            return false;
        case Rounding::up:
            return !minus && inexact;
        case Rounding::down:
            return minus && inexact;
    }
    return false;
}

}  // namespace

bool negative(Quad value) {
    return static_cast<u64>(bits_of(value) >> 127) != 0;
}

u64 round_to(Format format, Exact exact, Rounding mode) {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const u64 top = (u64{1} << format.exponent_bits) - 1;
    const u64 hidden = u64{1} << format.fraction_bits;
    const bool minus = negative(exact.value);
    const u64 sign = u64{minus} << (format.exponent_bits + format.fraction_bits);
    if (exact.value != exact.value) return top * hidden + hidden / 2;
    const Quad size = minus ? -exact.value : exact.value;
    if (size == infinity()) return sign | top * hidden;
    if (size == 0) return sign;
    const int rest = minus ? -exact.rest : exact.rest;

    int exponent = exponent_of(size);
    if (rest < 0 && is_power_of_two(size)) --exponent;
    exponent = std::max(exponent, 1 - bias);
    const Quad scaled = size * power_of_two(format.fraction_bits - exponent);
    u64 whole = static_cast<u64>(scaled);
    const Quad fraction = scaled - static_cast<Quad>(whole);
    int side = fraction != Quad(0.5) ? sign_of(fraction - Quad(0.5)) : rest;
    if (fraction == 0 && rest < 0) {
        --whole;
        side = 1;
    }
    if (rounds_up(mode, minus, (whole & 1) != 0, side, fraction != 0 || rest != 0)) ++whole;
    // A carry into the exponent is what the encoding is made for.
    const u64 encoded =
        whole < hidden ? whole : static_cast<u64>(exponent + bias) * hidden + (whole - hidden);
    if (encoded < top * hidden) return sign | encoded;
    const bool finite = mode == Rounding::zero || (mode == Rounding::up && minus) ||
                        (mode == Rounding::down && !minus);
    return sign | (top * hidden - (finite ? 1 : 0));
}

Exact sum(Quad a, Quad b, Rounding zero_mode) {
    const Quad total = a + b;
    if (total != total || total == infinity() || total == -infinity()) return {total, 0};
    if (total == 0) {
        if (negative(a) == negative(b)) return {a, 0};
        const Quad zero = 0;
        return {zero_mode == Rounding::down ? -zero : zero, 0};
    }
    const Quad part = total - a;
    return {total, sign_of((a - (total - part)) + (b - part))};
}

Quad decode(Format format, u64 bits) {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const u64 hidden = u64{1} << format.fraction_bits;
    const u64 top = (u64{1} << format.exponent_bits) - 1;
    const u64 exponent = (bits >> format.fraction_bits) & top;
    const u64 fraction = bits & (hidden - 1);
    Quad size = 0;
    if (exponent == top) {
        size = fraction != 0 ? Quad(std::numeric_limits<double>::quiet_NaN()) : infinity();
    } else if (exponent == 0) {
        size = static_cast<Quad>(fraction) * power_of_two(1 - bias - format.fraction_bits);
    } else {
        size = static_cast<Quad>(fraction | hidden) *
               power_of_two(static_cast<int>(exponent) - bias - format.fraction_bits);
    }
    return ((bits >> (format.exponent_bits + format.fraction_bits)) & 1) != 0 ? -size : size;
}

double root(double value, Rounding mode) {
    const double near = std::sqrt(value);
    if (mode == Rounding::nearest || near != near || value == 0 || std::isinf(value)) return near;
    const Quad square = Quad(near) * Quad(near);
    if (square < value && mode == Rounding::up) return std::nextafter(near, HUGE_VAL);
    if (square > value && mode != Rounding::up) return std::nextafter(near, 0.0);
    return near;
}

Quad integral(Quad value, Rounding mode) {
    const bool minus = negative(value);
    const Quad size = minus ? -value : value;
    if (!(size < power_of_two(100))) return value;
    const Wide whole = static_cast<Wide>(size);
    const Quad fraction = size - static_cast<Quad>(whole);
    const int side = sign_of(fraction - Quad(0.5));
    const bool up = rounds_up(mode, minus, (whole & 1) != 0, side, fraction != 0);
    const Quad result = static_cast<Quad>(whole + (up ? 1 : 0));
    return minus ? -result : result;
}

}  // namespace kernelforge::fuzz
