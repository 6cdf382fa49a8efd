// SPDX-License-Identifier: Apache-2.0
#include "emulator/pure_ops.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::emulator;

namespace {

using Values = std::vector<std::uint64_t>;
using Reference = std::function<Values(const Values&)>;

/// "setp.lt.and.s32" with `count` register operands, the last negated where the text ends in "!".
Instruction instruction_of(std::string text, int count) {
    Instruction made;
    const bool negated = text.back() == '!';
    if (negated) text.pop_back();
    std::istringstream words(text);
    std::getline(words, made.opcode, '.');
    for (std::string word; std::getline(words, word, '.');) made.modifiers.push_back(word);
    made.operands.resize(static_cast<std::size_t>(count));
    for (Operand& operand : made.operands) operand.kind = Operand::Kind::reg;
    if (negated) made.operands.back().negated = true;
    made.place.ptx_line = 7;
    return made;
}

std::vector<Isa> isas() {
    if (best_isa() == Isa::avx2) return {Isa::portable, Isa::avx2};
    return {Isa::portable};
}

/// Rows of one instruction, one after the other.
class Warp {
  public:
    explicit Warp(const PureOp& op) : op_(op), bytes_(op.rows.size() * 256 + 256) {
        auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
        rows_.frame = bytes_.data() + (256 - address % 256) % 256;
        rows_.fixed = rows_.frame;
        for (std::size_t i = 0; i < op.rows.size(); ++i) {
            operands_.push_back(static_cast<RowRef>(i * 256));
        }
    }
    void alias(int destination, int source) {
        operands_[static_cast<std::size_t>(destination)] =
            operands_[static_cast<std::size_t>(op_.destinations + source)];
    }
    void discard(int destination) { operands_[static_cast<std::size_t>(destination)] = no_row; }
    void set(std::size_t i, int lane, std::uint64_t value) {
        if (op_.rows[i] == Row::b64) rows_.at<std::uint64_t>(operands_[i])[lane] = value;
        if (op_.rows[i] == Row::b32) {
            rows_.at<std::uint32_t>(operands_[i])[lane] = static_cast<std::uint32_t>(value);
        }
        if (op_.rows[i] == Row::predicate) {
            auto& bits = *rows_.at<std::uint32_t>(operands_[i]);
            bits = (bits & ~(1U << lane)) | (static_cast<std::uint32_t>(value & 1) << lane);
        }
    }
    [[nodiscard]] std::uint64_t get(std::size_t i, int lane) const {
        if (op_.rows[i] == Row::b64) return rows_.at<std::uint64_t>(operands_[i])[lane];
        if (op_.rows[i] == Row::b32) return rows_.at<std::uint32_t>(operands_[i])[lane];
        return (*rows_.at<std::uint32_t>(operands_[i]) >> lane) & 1;
    }
    void run(std::uint32_t mask) const { op_.run(rows_, operands_.data(), mask); }

  private:
    PureOp op_;
    std::vector<std::byte> bytes_;
    Rows rows_;
    std::vector<RowRef> operands_;
};

/// Bit patterns that matter, of 8 to 64 bits, and random ones in between.
std::uint64_t draw(std::mt19937_64& random) {
    static constexpr std::array<std::uint64_t, 44> edges = {0,
                                                            1,
                                                            2,
                                                            31,
                                                            32,
                                                            33,
                                                            63,
                                                            64,
                                                            255,
                                                            0x7f,
                                                            0x80,
                                                            0x7fff,
                                                            0x8000,
                                                            0xffff,
                                                            0x3c00,
                                                            0x7c00,
                                                            0xfc00,
                                                            0x7e00,
                                                            0x03ff,
                                                            0x8001,
                                                            0x7f80,
                                                            0x3f80,
                                                            0x7fff'ffff,
                                                            0x8000'0000,
                                                            0xffff'ffff,
                                                            0x3f80'0000,
                                                            0xbf80'0000,
                                                            0x7f80'0000,
                                                            0xff80'0000,
                                                            0x7fc0'0001,
                                                            0x0000'0001,
                                                            0x807f'ffff,
                                                            0x0080'0000,
                                                            0x7f7f'ffff,
                                                            0x4f00'0000,
                                                            0x7ff0'0000'0000'0000,
                                                            0xfff0'0000'0000'0000,
                                                            0x7ff8'0000'0000'0001,
                                                            0x0000'0000'0010'0000,
                                                            0x3ff0'0000'0000'0000,
                                                            0x8000'0000'0000'0000,
                                                            0x7fff'ffff'ffff'ffff,
                                                            0xffff'ffff'ffff'ffff,
                                                            0x43e0'0000'0000'0000};
    const std::uint64_t any = random();
    switch (random() % 6) {
        case 0:
            return edges[any % edges.size()];
        case 1:  // f32 around 1
            return 0x3f00'0000 + (any & 0x80ff'ffff);
        case 2:  // f64 around 1
            return 0x3fe0'0000'0000'0000 + (any & 0x801f'ffff'ffff'ffff);
        case 3:  // two f16 or bf16 around 1
            return (0x3800 + (any & 0x87ff)) * 0x1'0001;
        case 4:
            return any % 100;
        default:
            return any;
    }
}

std::string shown(const Values& values) {
    std::ostringstream out;
    for (const std::uint64_t value : values) out << std::hex << " " << value;
    return out.str();
}

/// Runs `text` on all units and masks, against the reference: of the sources' values to the
/// destinations'. `types`: of the operands, where a form depends on them.
class Check {
  public:
    Check(const std::string& text, int count, Reference reference, std::vector<Type> types = {})
        : text_(text), reference_(std::move(reference)) {
        for (const Isa isa : isas()) {
            const auto op = find_pure(instruction_of(text, count), types, isa);
            REQUIRE(op.has_value());
            for (const std::uint32_t mask : {all_lanes, 1U, 0x8000'0000U, 0x5a5a'1234U}) {
                for (int round = 0; round < 12; ++round) once(*op, mask, round);
            }
        }
        CHECK(wrong_ == "");
    }

  private:
    void once(const PureOp& op, std::uint32_t mask, int round) {
        // The same values for every unit: what differs from one differs from the other.
        std::mt19937_64 random(static_cast<std::uint64_t>(round) * 977 + mask);
        Warp warp(op);
        const auto destinations = static_cast<std::size_t>(op.destinations);
        const int aliased = round % 3;  // a destination in the row of source 1 or 2
        if (aliased > 0 && destinations + static_cast<std::size_t>(aliased) <= op.rows.size() &&
            op.rows[0] == op.rows[destinations + static_cast<std::size_t>(aliased) - 1]) {
            warp.alias(0, aliased - 1);
        }
        for (std::size_t i = 0; i < op.rows.size(); ++i) {
            for (int lane = 0; lane < warp_lanes; ++lane) warp.set(i, lane, draw(random));
        }
        std::array<Values, warp_lanes> sources, before;
        for (int lane = 0; lane < warp_lanes; ++lane) {
            for (std::size_t i = 0; i < op.rows.size(); ++i) {
                auto& list = i < destinations ? before : sources;
                list[static_cast<std::size_t>(lane)].push_back(warp.get(i, lane));
            }
        }
        warp.run(mask);
        for (int lane = 0; lane < warp_lanes && wrong_.empty(); ++lane) {
            const auto at = static_cast<std::size_t>(lane);
            const bool active = ((mask >> lane) & 1) != 0;
            const Values expected = active ? reference_(sources[at]) : before[at];
            Values found;
            for (std::size_t i = 0; i < destinations; ++i) found.push_back(warp.get(i, lane));
            if (found == expected || expected.empty()) continue;
            wrong_ = text_ + (active ? " of" : " in an inactive lane of") + shown(sources[at]) +
                     ": expected" + shown(expected) + ", found" + shown(found);
        }
    }
    std::string text_;
    Reference reference_;
    std::string wrong_;
};

template <class To>
To as(std::uint64_t bits) {
    To value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
std::uint64_t bits_of_float(float value) {
    return std::isnan(value) ? 0x7fff'ffffU : std::bit_cast<std::uint32_t>(value);
}
template <class T>
std::uint64_t word_of(T value) {
    return static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
}

__extension__ using Quad = __float128;
__extension__ using Int128 = __int128;

/// A binary float of at most 16 bits, all of whose values are listed: the reference rounds by
/// looking for neighbours, not by bits.
class SmallFloat {
  public:
    SmallFloat(int exponent_bits, int mantissa_bits, std::uint32_t greatest)
        : mantissa_(mantissa_bits),
          greatest_(greatest),
          sign_(1U << (exponent_bits + mantissa_bits)) {
        const int bias = (1 << (exponent_bits - 1)) - 1;
        for (std::uint32_t bits = 0; bits <= greatest; ++bits) {
            const int exponent = static_cast<int>(bits >> mantissa_bits);
            const auto fraction = static_cast<double>(bits & ((1U << mantissa_bits) - 1));
            const double unit = std::ldexp(1.0, -mantissa_bits);
            values_.push_back(exponent == 0 ? std::ldexp(fraction * unit, 1 - bias)
                                            : std::ldexp(1 + fraction * unit, exponent - bias));
        }
    }
    [[nodiscard]] double value(std::uint64_t bits) const {
        const auto magnitude = static_cast<std::uint32_t>(bits) & (sign_ - 1);
        const double found = magnitude <= greatest_ ? values_[magnitude]
                             : magnitude == greatest_ + 1 && magnitude != sign_ - 1 ? HUGE_VAL
                                                                                    : std::nan("");
        return (bits & sign_) != 0 ? -found : found;
    }
    /// `mode` as in fenv.h.
    [[nodiscard]] std::uint32_t rounded(Quad value, bool negative_zero, int mode,
                                        bool saturate = false) const {
        if (value != value) return sign_ - 1;
        const bool negative = value < 0 || (value == 0 && negative_zero);
        const Quad size = negative ? -value : value;
        const auto above = std::lower_bound(values_.begin(), values_.end(), size,
                                            [](double a, Quad b) { return Quad(a) < b; });
        std::uint32_t bits = static_cast<std::uint32_t>(above - values_.begin());
        const bool inexact =
            bits > greatest_ ? size != Quad(HUGE_VAL) : Quad(values_[bits]) != size;
        const bool away = mode == (negative ? FE_DOWNWARD : FE_UPWARD);
        if (inexact && mode != FE_TONEAREST && !away) --bits;
        if (inexact && mode == FE_TONEAREST) {
            const double low = values_[bits - 1];
            const double unit = low - (bits >= 2 ? values_[bits - 2] : 0);
            const Quad high = bits > greatest_ ? Quad(low) + unit : Quad(values_[bits]);
            const Quad twice = 2 * size;
            if (twice < low + high || (twice == low + high && bits % 2 == 1)) --bits;
        }
        if (saturate) bits = std::min(bits, greatest_);
        return bits | (negative ? sign_ : 0);
    }

  private:
    int mantissa_;
    std::uint32_t greatest_, sign_;
    std::vector<double> values_;
};
const SmallFloat& f16() {
    static const SmallFloat made(5, 10, 0x7bff);
    return made;
}
const SmallFloat& bf16() {
    static const SmallFloat made(8, 7, 0x7f7f);
    return made;
}

/// f(a, b, c) in a rounding mode; the operands are volatile, so that nothing is computed before.
template <class F>
auto in_mode(int mode, F f) {
    std::fesetround(mode);
    const volatile auto result = f();
    std::fesetround(FE_TONEAREST);
    return result;
}

struct Mode {
    const char* name;
    int mode;
};
constexpr std::array<Mode, 4> modes = {
    {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}}};

float flush(float value, bool ftz) {
    return ftz && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}
float unit(float value) {
    return std::isnan(value) ? 0.0F : std::clamp(value, 0.0F, 1.0F) + 0.0F;
}

template <class T>
void check_integers(const std::string& type) {
    using Wide = Int128;
    constexpr int bits = sizeof(T) * 8;
    const auto binary = [&](const std::string& name, auto f) {
        Check(name + "." + type, 3, [f](const Values& v) {
            return Values{word_of(static_cast<T>(f(Wide{as<T>(v[0])}, Wide{as<T>(v[1])})))};
        });
    };
    const auto ternary = [&](const std::string& name, auto f) {
        Check(name + "." + type, 4, [f](const Values& v) {
            return Values{word_of(
                static_cast<T>(f(Wide{as<T>(v[0])}, Wide{as<T>(v[1])}, Wide{as<T>(v[2])})))};
        });
    };
    binary("add", [](Wide a, Wide b) { return a + b; });
    binary("sub", [](Wide a, Wide b) { return a - b; });
    binary("min", [](Wide a, Wide b) { return std::min(a, b); });
    binary("max", [](Wide a, Wide b) { return std::max(a, b); });
    binary("div", [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a / b; });
    binary("rem", [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a % b; });
    ternary("sad", [](Wide a, Wide b, Wide c) { return c + (a > b ? a - b : b - a); });
    const auto high = [](Wide a, Wide b) {
        if constexpr (bits == 64 && !std::is_signed_v<T>) {
            const auto product =
                static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b);
            return static_cast<Wide>(product >> 64);
        } else {
            return (a * b) >> bits;
        }
    };
    binary("mul.hi", high);
    ternary("mad.hi", [high](Wide a, Wide b, Wide c) { return high(a, b) + c; });
    const auto low = [](Wide a, Wide b) {
        return static_cast<Wide>(static_cast<unsigned __int128>(a) *
                                 static_cast<unsigned __int128>(b));
    };
    binary("mul.lo", low);
    ternary("mad.lo", [low](Wide a, Wide b, Wide c) {
        return static_cast<Wide>(static_cast<unsigned __int128>(low(a, b)) +
                                 static_cast<unsigned __int128>(c));
    });
    if constexpr (std::is_signed_v<T>) {
        Check("abs." + type, 2, [](const Values& v) {
            const Wide a = as<T>(v[0]);
            return Values{word_of(static_cast<T>(a < 0 ? -a : a))};
        });
        Check("neg." + type, 2,
              [](const Values& v) { return Values{word_of(static_cast<T>(-Wide{as<T>(v[0])}))}; });
    }
    Check("shr." + type, 3, [](const Values& v) {
        const Wide a = as<T>(v[0]);
        return Values{
            word_of(static_cast<T>(a >> std::min<std::uint32_t>(as<std::uint32_t>(v[1]), 100)))};
    });
}

}  // namespace

TEST_CASE("integer sums, products, quotients and shifts wrap at the width of every type",
          "[emulator][ops]") {
    check_integers<std::uint16_t>("u16");
    check_integers<std::int16_t>("s16");
    check_integers<std::uint32_t>("u32");
    check_integers<std::int32_t>("s32");
    check_integers<std::uint64_t>("u64");
    check_integers<std::int64_t>("s64");
}

TEST_CASE("wide products, saturation and 24-bit products are those of exact arithmetic",
          "[emulator][ops]") {
    Check("mul.wide.s16", 3, [](const Values& v) {
        return Values{word_of(std::int32_t{as<std::int16_t>(v[0])} * as<std::int16_t>(v[1]))};
    });
    Check("mul.wide.u32", 3, [](const Values& v) {
        return Values{std::uint64_t{as<std::uint32_t>(v[0])} * as<std::uint32_t>(v[1])};
    });
    Check("mad.wide.s32", 4, [](const Values& v) {
        const auto product = std::int64_t{as<std::int32_t>(v[0])} * as<std::int32_t>(v[1]);
        return Values{static_cast<std::uint64_t>(product) + v[2]};
    });
    const auto clamp = [](std::int64_t value) {
        return word_of(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(value, INT32_MIN, INT32_MAX)));
    };
    const auto s = [](std::uint64_t v) { return std::int64_t{as<std::int32_t>(v)}; };
    Check("add.sat.s32", 3, [=](const Values& v) { return Values{clamp(s(v[0]) + s(v[1]))}; });
    Check("sub.sat.s32", 3, [=](const Values& v) { return Values{clamp(s(v[0]) - s(v[1]))}; });
    Check("mad.hi.sat.s32", 4,
          [=](const Values& v) { return Values{clamp(((s(v[0]) * s(v[1])) >> 32) + s(v[2]))}; });
    const auto low24 = [](std::uint64_t v, bool is_signed) {
        const auto low = static_cast<std::int64_t>(v & 0xff'ffff);
        return is_signed && low >= 0x80'0000 ? low - 0x100'0000 : low;
    };
    for (const bool is_signed : {false, true}) {
        const std::string type = is_signed ? "s32" : "u32";
        Check("mul24.lo." + type, 3, [=](const Values& v) {
            return Values{
                static_cast<std::uint32_t>(low24(v[0], is_signed) * low24(v[1], is_signed))};
        });
        Check("mad24.hi." + type, 4, [=](const Values& v) {
            const auto product = low24(v[0], is_signed) * low24(v[1], is_signed);
            return Values{static_cast<std::uint32_t>((product >> 16) + s(v[2]))};
        });
    }
    Check("min.s16x2", 3, [](const Values& v) {
        const auto low = std::min(as<std::int16_t>(v[0]), as<std::int16_t>(v[1]));
        const auto high = std::min(as<std::int16_t>(v[0] >> 16), as<std::int16_t>(v[1] >> 16));
        return Values{word_of(low) | (word_of(high) << 16)};
    });
    Check("max.relu.s16x2", 3, [](const Values& v) {
        const auto one = [](std::uint64_t a, std::uint64_t b) {
            return word_of(std::max({as<std::int16_t>(a), as<std::int16_t>(b), std::int16_t{0}}));
        };
        return Values{one(v[0], v[1]) | (one(v[0] >> 16, v[1] >> 16) << 16)};
    });
}

TEST_CASE("carry chains add and subtract 128-bit numbers", "[emulator][ops]") {
    using U = unsigned __int128;
    const auto wide = [](std::uint64_t a) { return static_cast<U>(a); };
    Check("addc.cc.u64", 3, [=](const Values& v) {
        const U sum = wide(v[0]) + v[1] + v[2];
        return Values{static_cast<std::uint64_t>(sum), static_cast<std::uint64_t>(sum >> 64)};
    });
    Check("add.cc.u32", 3, [](const Values& v) {
        const std::uint64_t sum = v[0] + v[1];
        return Values{sum & 0xffff'ffff, sum >> 32};
    });
    Check("addc.u32", 3,
          [](const Values& v) { return Values{(v[0] + v[1] + v[2]) & 0xffff'ffff}; });
    Check("subc.cc.s32", 3, [](const Values& v) {
        const std::uint64_t difference = v[0] - v[1] - v[2];
        return Values{difference & 0xffff'ffff, (difference >> 32) & 1};
    });
    Check("sub.cc.u64", 3, [=](const Values& v) {
        return Values{v[0] - v[1], std::uint64_t{v[0] < v[1]}};
    });
    Check("mad.lo.cc.u32", 4, [](const Values& v) {
        const std::uint64_t sum = ((v[0] * v[1]) & 0xffff'ffff) + v[2];
        return Values{sum & 0xffff'ffff, sum >> 32};
    });
    Check("madc.hi.cc.u64", 4, [=](const Values& v) {
        const U sum = ((wide(v[0]) * v[1]) >> 64) + v[2] + v[3];
        return Values{static_cast<std::uint64_t>(sum), static_cast<std::uint64_t>(sum >> 64)};
    });
    const auto op = find_pure(instruction_of("madc.hi.cc.u32", 4), {}, Isa::portable);
    CHECK(op->writes_carry);
    CHECK(op->reads_carry);
    CHECK(op->destinations == 2);
    CHECK(op->rows ==
          std::vector<Row>{Row::b32, Row::predicate, Row::b32, Row::b32, Row::b32, Row::predicate});
}

TEST_CASE("bit fields, counts and permutations follow the definitions of the ISA",
          "[emulator][ops]") {
    const auto field = [](std::uint64_t a, std::uint64_t b, std::uint64_t c, int bits, bool sign) {
        const std::uint32_t position = b & 0xff, length = c & 0xff;
        const std::uint32_t top = static_cast<std::uint32_t>(bits) - 1;
        const std::uint64_t fill =
            sign && length != 0 ? (a >> std::min(position + length - 1, top)) & 1 : 0;
        std::uint64_t d = 0;
        for (std::uint32_t i = 0; i <= top; ++i) {
            const std::uint64_t bit =
                i < length && position + i <= top ? (a >> (position + i)) & 1 : fill;
            d |= bit << i;
        }
        return d;
    };
    for (const auto& [type, bits, sign] :
         {std::tuple{"u32", 32, false}, {"s32", 32, true}, {"u64", 64, false}, {"s64", 64, true}}) {
        Check(std::string("bfe.") + type, 4, [=, bits = bits, sign = sign](const Values& v) {
            return Values{field(v[0], v[1], v[2], bits, sign)};
        });
        Check(std::string("bfind.") + type, 2, [=, bits = bits, sign = sign](const Values& v) {
            const bool negative = sign && ((v[0] >> (bits - 1)) & 1) != 0;
            for (int i = bits - 1; i >= 0; --i) {
                if (((v[0] >> i) & 1) != std::uint64_t{negative})
                    return Values{static_cast<std::uint64_t>(i)};
            }
            return Values{0xffff'ffff};
        });
    }
    Check("bfi.b64", 5, [](const Values& v) {
        std::uint64_t d = v[1];
        for (std::uint32_t i = 0; i < (v[3] & 0xff) && (v[2] & 0xff) + i <= 63; ++i) {
            const std::uint64_t at = std::uint64_t{1} << ((v[2] & 0xff) + i);
            d = (v[0] >> i) & 1 ? d | at : d & ~at;
        }
        return Values{d};
    });
    Check("popc.b64", 2,
          [](const Values& v) { return Values{static_cast<std::uint64_t>(std::popcount(v[0]))}; });
    Check("popc.b32", 2,
          [](const Values& v) { return Values{static_cast<std::uint64_t>(std::popcount(v[0]))}; });
    Check("clz.b32", 2, [](const Values& v) {
        return Values{static_cast<std::uint64_t>(std::countl_zero(as<std::uint32_t>(v[0])))};
    });
    Check("brev.b32", 2, [](const Values& v) {
        std::uint64_t d = 0;
        for (int i = 0; i < 32; ++i) d |= ((v[0] >> i) & 1) << (31 - i);
        return Values{d};
    });
    Check("prmt.b32", 4, [](const Values& v) {
        std::uint64_t d = 0;
        for (int i = 0; i < 4; ++i) {
            const std::uint64_t pick = (v[2] >> (4 * i)) & 15;
            const std::uint64_t bytes = v[0] | (v[1] << 32);
            std::uint64_t byte = (bytes >> (8 * (pick % 8))) & 0xff;
            if (pick >= 8) byte = byte >= 128 ? 255 : 0;
            d |= byte << (8 * i);
        }
        return Values{d};
    });
    Check("prmt.b32.b4e", 4, [](const Values& v) {
        const auto byte = [&](std::uint64_t i) {
            return ((v[0] | (v[1] << 32)) >> (8 * (i & 7))) & 0xff;
        };
        const std::uint64_t n = v[2] & 3;
        return Values{byte(n) | (byte(n + 7) << 8) | (byte(n + 6) << 16) | (byte(n + 5) << 24)};
    });
    Check("lop3.b32", 5, [](const Values& v) {
        std::uint64_t d = 0;
        for (int i = 0; i < 32; ++i) {
            const auto row = ((v[0] >> i) & 1) * 4 + ((v[1] >> i) & 1) * 2 + ((v[2] >> i) & 1);
            d |= ((v[3] >> row) & 1) << i;
        }
        return Values{d};
    });
    Check("shf.l.wrap.b32", 4, [](const Values& v) {
        return Values{(((v[1] << 32 | v[0]) << (v[2] & 31)) >> 32) & 0xffff'ffff};
    });
    Check("shf.r.clamp.b32", 4, [](const Values& v) {
        return Values{((v[1] << 32 | v[0]) >> std::min<std::uint64_t>(v[2], 32)) & 0xffff'ffff};
    });
    Check("shl.b16", 3,
          [](const Values& v) { return Values{v[1] > 15 ? 0 : (v[0] << v[1]) & 0xffff}; });
    Check("shl.b64", 3, [](const Values& v) { return Values{v[1] > 63 ? 0 : v[0] << v[1]}; });
    Check("dp4a.s32.u32", 4, [](const Values& v) {
        std::int64_t sum = static_cast<std::int64_t>(v[2]);
        for (int i = 0; i < 4; ++i)
            sum += as<std::int8_t>(v[0] >> (8 * i)) * as<std::uint8_t>(v[1] >> (8 * i));
        return Values{static_cast<std::uint32_t>(sum)};
    });
    Check("vabsdiff4.u32.u32.u32.add", 4, [](const Values& v) {
        std::uint64_t sum = v[2];
        for (int i = 0; i < 4; ++i) {
            const int one = as<std::uint8_t>(v[0] >> (8 * i)),
                      other = as<std::uint8_t>(v[1] >> (8 * i));
            sum += static_cast<std::uint64_t>(std::max(one, other) - std::min(one, other));
        }
        return Values{static_cast<std::uint32_t>(sum)};
    });
    Check("dp2a.hi.u32.s32", 4, [](const Values& v) {
        std::int64_t sum = static_cast<std::int64_t>(v[2]);
        for (int i = 0; i < 2; ++i) {
            sum += as<std::uint16_t>(v[0] >> (16 * i)) * as<std::int8_t>(v[1] >> (16 + 8 * i));
        }
        return Values{static_cast<std::uint32_t>(sum)};
    });
    Check("szext.clamp.s32", 3, [=](const Values& v) {
        return Values{v[1] > 31 ? v[0] : field(v[0], 0, v[1], 32, true)};
    });
    Check("bmsk.wrap.b32", 3, [](const Values& v) {
        std::uint64_t d = 0;
        for (std::uint64_t i = 0; i < (v[1] & 31) && (v[0] & 31) + i < 32; ++i)
            d |= std::uint64_t{1} << ((v[0] & 31) + i);
        return Values{d};
    });
    Check("fns.b32", 4, [](const Values& v) -> Values {
        const auto offset = std::int64_t{as<std::int32_t>(v[2])};
        const auto base = static_cast<std::int64_t>(v[1]);
        if (base > 31) return {0xffff'ffff};
        if (offset == 0) return {(v[0] >> base) & 1 ? v[1] : 0xffff'ffff};
        std::vector<std::int64_t> set;
        for (std::int64_t i = base; i >= 0 && i<32; i += offset> 0 ? 1 : -1) {
            if ((v[0] >> i) & 1) set.push_back(i);
        }
        const auto n = static_cast<std::size_t>(std::abs(offset)) - 1;
        return {n < set.size() ? static_cast<std::uint64_t>(set[n]) : 0xffff'ffff};
    });
}

TEST_CASE("set predicates of numbers combine, negate and give their complement",
          "[emulator][ops]") {
    Check("setp.lt.s32", 3,
          [](const Values& v) { return Values{as<std::int32_t>(v[0]) < as<std::int32_t>(v[1])}; });
    Check("setp.hs.u64", 3, [](const Values& v) { return Values{v[0] >= v[1]}; });
    Check("setp.ne.and.b16!", 4,
          [](const Values& v) { return Values{((v[0] ^ v[1]) & 0xffff) != 0 && v[2] == 0}; });
    Check("setp.le.xor.s64", 5, [](const Values& v) {
        const std::uint64_t t = as<std::int64_t>(v[0]) <= as<std::int64_t>(v[1]);
        return Values{t ^ v[2], (t ^ 1) ^ v[2]};
    });
    const std::vector<std::pair<std::string, std::function<bool(double, double)>>> comparisons = {
        {"eq", [](double a, double b) { return a == b; }},
        {"ne", [](double a, double b) { return !std::isunordered(a, b) && a != b; }},
        {"lt", [](double a, double b) { return std::isless(a, b); }},
        {"le", [](double a, double b) { return std::islessequal(a, b); }},
        {"gt", [](double a, double b) { return std::isgreater(a, b); }},
        {"ge", [](double a, double b) { return std::isgreaterequal(a, b); }},
        {"equ", [](double a, double b) { return std::isunordered(a, b) || a == b; }},
        {"neu", [](double a, double b) { return std::isunordered(a, b) || a != b; }},
        {"ltu", [](double a, double b) { return std::isunordered(a, b) || a < b; }},
        {"leu", [](double a, double b) { return std::isunordered(a, b) || a <= b; }},
        {"gtu", [](double a, double b) { return std::isunordered(a, b) || a > b; }},
        {"geu", [](double a, double b) { return std::isunordered(a, b) || a >= b; }},
        {"num", [](double a, double b) { return !std::isunordered(a, b); }},
        {"nan", [](double a, double b) { return std::isunordered(a, b); }}};
    for (const auto& [name, holds] : comparisons) {
        const auto compare = holds;
        Check("setp." + name + ".f32", 3,
              [=](const Values& v) { return Values{compare(as<float>(v[0]), as<float>(v[1]))}; });
        Check("setp." + name + ".ftz.f32", 3, [=](const Values& v) {
            return Values{compare(flush(as<float>(v[0]), true), flush(as<float>(v[1]), true))};
        });
        Check("setp." + name + ".or.f64", 4, [=](const Values& v) {
            return Values{compare(as<double>(v[0]), as<double>(v[1])) || v[2] != 0};
        });
        Check("setp." + name + ".f16x2", 4, [=](const Values& v) {
            return Values{compare(f16().value(v[0]), f16().value(v[1])),
                          compare(f16().value(v[0] >> 16), f16().value(v[1] >> 16))};
        });
        Check("set." + name + ".f32.bf16", 3, [=](const Values& v) {
            return Values{compare(bf16().value(v[0]), bf16().value(v[1])) ? 0x3f80'0000U : 0U};
        });
        Check("set." + name + ".u32.f16x2", 3, [=](const Values& v) {
            return Values{
                (compare(f16().value(v[0]), f16().value(v[1])) ? 0xffffU : 0U) |
                (compare(f16().value(v[0] >> 16), f16().value(v[1] >> 16)) ? 0xffff'0000U : 0U)};
        });
    }
    Check("selp.b64", 4, [](const Values& v) { return Values{v[2] != 0 ? v[0] : v[1]}; });
    Check("selp.f32!", 4, [](const Values& v) { return Values{v[2] != 0 ? v[1] : v[0]}; });
    Check("slct.u32.s32", 4,
          [](const Values& v) { return Values{as<std::int32_t>(v[2]) >= 0 ? v[0] : v[1]}; });
    Check("slct.u32.f32", 4,
          [](const Values& v) { return Values{as<float>(v[2]) >= 0 ? v[0] : v[1]}; });
}

TEST_CASE("f32 arithmetic is IEEE in every rounding mode, with flushing and saturation",
          "[emulator][ops]") {
    for (const Mode& m : modes) {
        for (const bool ftz : {false, true}) {
            for (const bool sat : {false, true}) {
                const std::string flags =
                    std::string(".") + m.name + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + ".f32";
                const auto finish = [=](float value) {
                    value = flush(value, ftz);
                    return Values{bits_of_float(sat ? unit(value) : value)};
                };
                const auto in = [=](std::uint64_t bits) { return flush(as<float>(bits), ftz); };
                const int mode = m.mode;
                const auto binary = [&](const char* name, auto f) {
                    Check(name + flags, 3, [=](const Values& v) {
                        const volatile float a = in(v[0]), b = in(v[1]);
                        return finish(in_mode(mode, [&] { return f(float{a}, float{b}); }));
                    });
                };
                binary("add", [](float a, float b) { return a + b; });
                binary("sub", [](float a, float b) { return a - b; });
                binary("mul", [](float a, float b) { return a * b; });
                if (!sat) binary("div", [](float a, float b) { return a / b; });
                Check("fma" + flags, 4, [=](const Values& v) {
                    const volatile float a = in(v[0]), b = in(v[1]), c = in(v[2]);
                    return finish(in_mode(mode, [&] { return std::fma(a, b, c); }));
                });
                if (sat) continue;
                Check("sqrt" + flags, 2, [=](const Values& v) {
                    const volatile float a = in(v[0]);
                    return finish(in_mode(mode, [&] { return std::sqrt(a); }));
                });
            }
        }
    }
    CHECK(std::fegetround() == FE_TONEAREST);
}

TEST_CASE("fused f32 sums round once where two roundings would differ", "[emulator][ops]") {
    // Products whose rounded sum lies at or beside a tie: the exponents are close on purpose.
    std::mt19937_64 random(5);
    for (const Isa isa : isas()) {
        Warp warp(*find_pure(instruction_of("fma.rn.f32", 4), {}, isa));
        int different = 0;
        for (int round = 0; round < 2000; ++round) {
            for (int lane = 0; lane < warp_lanes; ++lane) {
                const auto any = random();
                warp.set(1, lane, 0x3f80'0000 | (any & 0xfff));
                warp.set(2, lane, 0x3f80'0000 | ((any >> 12) & 0xfff));
                warp.set(
                    3, lane,
                    (any >> 24 & 0x8000'0000) | ((100 + any % 40) << 23) | ((any >> 56) << 15));
            }
            warp.run(all_lanes);
            for (int lane = 0; lane < warp_lanes; ++lane) {
                const float expected =
                    std::fma(as<float>(warp.get(1, lane)), as<float>(warp.get(2, lane)),
                             as<float>(warp.get(3, lane)));
                different += std::bit_cast<std::uint32_t>(expected) != warp.get(0, lane);
            }
        }
        CHECK(different == 0);
    }
}

TEST_CASE("f64 arithmetic is IEEE in every rounding mode and keeps payloads", "[emulator][ops]") {
    const auto finish = [](double value, std::vector<double> sources) {
        if (!std::isnan(value)) return Values{std::bit_cast<std::uint64_t>(value)};
        for (const double source : sources) {
            if (std::isnan(source))
                return Values{std::bit_cast<std::uint64_t>(source) | (std::uint64_t{1} << 51)};
        }
        return Values{0xfff8'0000'0000'0000};
    };
    for (const Mode& m : modes) {
        const std::string flags = std::string(".") + m.name + ".f64";
        const int mode = m.mode;
        const auto binary = [&](const char* name, auto f) {
            Check(name + flags, 3, [=](const Values& v) {
                const volatile double a = as<double>(v[0]), b = as<double>(v[1]);
                return finish(in_mode(mode, [&] { return f(double{a}, double{b}); }), {a, b});
            });
        };
        binary("add", [](double a, double b) { return a + b; });
        binary("sub", [](double a, double b) { return a - b; });
        binary("mul", [](double a, double b) { return a * b; });
        binary("div", [](double a, double b) { return a / b; });
        Check("fma" + flags, 4, [=](const Values& v) {
            const volatile double a = as<double>(v[0]), b = as<double>(v[1]), c = as<double>(v[2]);
            return finish(in_mode(mode, [&] { return std::fma(a, b, c); }), {a, b, c});
        });
        Check("rcp" + flags, 2, [=](const Values& v) {
            const volatile double a = as<double>(v[0]);
            return finish(in_mode(mode, [&] { return 1.0 / a; }), {a});
        });
    }
}

TEST_CASE("minima and maxima pass over NaNs unless told, and order the zeros", "[emulator][ops]") {
    const auto least = [](double a, double b) {
        if (std::isnan(a)) return b;
        if (std::isnan(b)) return a;
        if (a == b) return std::signbit(a) ? a : b;
        return std::min(a, b);
    };
    Check("min.f32", 3, [=](const Values& v) {
        return Values{bits_of_float(static_cast<float>(least(as<float>(v[0]), as<float>(v[1]))))};
    });
    Check("max.NaN.f32", 3, [=](const Values& v) {
        const float a = as<float>(v[0]), b = as<float>(v[1]);
        if (std::isnan(a) || std::isnan(b)) return Values{0x7fff'ffff};
        return Values{bits_of_float(static_cast<float>(-least(-a, -b)))};
    });
    Check("min.xorsign.abs.f32", 3, [=](const Values& v) {
        const float a = as<float>(v[0]), b = as<float>(v[1]);
        const auto found = static_cast<float>(least(std::fabs(a), std::fabs(b)));
        return Values{bits_of_float(std::signbit(a) != std::signbit(b) ? -found : found)};
    });
    Check("max.f16x2", 3, [=](const Values& v) {
        const auto one = [&](int shift) {
            const double found = -least(-f16().value(v[0] >> shift), -f16().value(v[1] >> shift));
            return std::uint64_t{f16().rounded(found, std::signbit(found), FE_TONEAREST)};
        };
        return Values{one(0) | (one(16) << 16)};
    });
}

namespace {

/// add, sub, mul, fma of a 16-bit float against exact sums rounded once.
void check_halves(const SmallFloat& format, const std::string& type) {
    const auto rounded = [&format](Quad exact, bool negative_zero) {
        return Values{format.rounded(exact, negative_zero, FE_TONEAREST)};
    };
    const auto in = [&format](std::uint64_t bits) { return format.value(bits); };
    Check("add." + type, 3, [=](const Values& v) {
        const double a = in(v[0]), b = in(v[1]);
        return rounded(Quad(a) + b, std::signbit(a + b));
    });
    Check("sub." + type, 3, [=](const Values& v) {
        const double a = in(v[0]), b = in(v[1]);
        return rounded(Quad(a) - b, std::signbit(a - b));
    });
    Check("mul." + type, 3, [=](const Values& v) {
        const double a = in(v[0]), b = in(v[1]);
        return rounded(Quad(a) * b, std::signbit(a * b));
    });
    Check("fma.rn." + type, 4, [=](const Values& v) {
        const double a = in(v[0]), b = in(v[1]), c = in(v[2]);
        const Quad product = Quad(a) * b, sum = product + c;
        // Beyond 113 bits the reference does not know.
        if (sum == sum && sum - sum == 0 && (sum - product != c || sum - c != product))
            return Values{};
        return rounded(sum, std::signbit(a * b + c));
    });
    Check("fma.rn.relu." + type + "x2", 4, [=](const Values& v) -> Values {
        std::uint64_t both = 0;
        for (const int shift : {0, 16}) {
            const double a = in(v[0] >> shift), b = in(v[1] >> shift), c = in(v[2] >> shift);
            const Quad product = Quad(a) * b, sum = product + c;
            if (sum == sum && sum - sum == 0 && (sum - product != c || sum - c != product))
                return {};
            both |= (sum <= 0 ? 0 : rounded(sum, false)[0]) << shift;
        }
        return {both};
    });
    Check("neg." + type, 2, [=](const Values& v) {
        return Values{std::isnan(in(v[0])) ? 0x7fff : (v[0] ^ 0x8000) & 0xffff};
    });
    Check("abs." + type, 2,
          [=](const Values& v) { return Values{std::isnan(in(v[0])) ? 0x7fff : v[0] & 0x7fff}; });
}

}  // namespace

TEST_CASE("16-bit floats round sums, products and fused sums once", "[emulator][ops]") {
    check_halves(f16(), "f16");
    check_halves(bf16(), "bf16");
    Check("add.ftz.f16", 3, [](const Values& v) {
        const auto in = [](std::uint64_t bits) {
            return f16().value((bits & 0x7c00) == 0 ? bits & 0x8000 : bits);
        };
        const double sum = in(v[0]) + in(v[1]);
        const std::uint64_t bits = f16().rounded(sum, std::signbit(sum), FE_TONEAREST);
        return Values{(bits & 0x7c00) == 0 ? bits & 0x8000 : bits};
    });
}

TEST_CASE("conversions between integers cut, clamp and extend into wider registers",
          "[emulator][ops]") {
    Check("cvt.u16.u32", 2, [](const Values& v) { return Values{v[0] & 0xffff}; });
    Check("cvt.s64.s32", 2,
          [](const Values& v) { return Values{word_of(std::int64_t{as<std::int32_t>(v[0])})}; });
    Check("cvt.s64.s8", 2,
          [](const Values& v) { return Values{word_of(std::int64_t{as<std::int8_t>(v[0])})}; },
          {Type::s64, Type::s64});
    Check("cvt.s32.s8", 2,
          [](const Values& v) { return Values{word_of(std::int32_t{as<std::int8_t>(v[0])})}; },
          {Type::b32, Type::b32});
    Check("cvt.s8.s32", 2,
          [](const Values& v) { return Values{word_of(std::int32_t{as<std::int8_t>(v[0])})}; },
          {Type::b32, Type::b32});
    Check("cvt.s8.s32", 2,
          [](const Values& v) { return Values{word_of(std::int16_t{as<std::int8_t>(v[0])})}; },
          {Type::b16, Type::b32});
    Check("cvt.u8.u64", 2, [](const Values& v) { return Values{v[0] & 0xff}; },
          {Type::b32, Type::b64});
    Check("cvt.sat.u8.s32", 2, [](const Values& v) {
        return Values{static_cast<std::uint64_t>(std::clamp(as<std::int32_t>(v[0]), 0, 255))};
    });
    Check("cvt.sat.s16.u64", 2,
          [](const Values& v) { return Values{std::min<std::uint64_t>(v[0], 32767)}; });
    Check("cvt.sat.u32.s64", 2, [](const Values& v) {
        return Values{static_cast<std::uint64_t>(
            std::clamp<std::int64_t>(as<std::int64_t>(v[0]), 0, 0xffff'ffff))};
    });
    Check("cvt.pack.sat.s8.s32.b32", 4, [](const Values& v) {
        const auto byte = [](std::uint64_t a) {
            return word_of(static_cast<std::int8_t>(std::clamp(as<std::int32_t>(a), -128, 127)));
        };
        return Values{((v[2] << 16) | (byte(v[0]) << 8) | byte(v[1])) & 0xffff'ffff};
    });
    Check("cvt.pack.sat.u16.s32", 3, [](const Values& v) {
        const auto half = [](std::uint64_t a) {
            return static_cast<std::uint64_t>(std::clamp(as<std::int32_t>(a), 0, 65535));
        };
        return Values{(half(v[0]) << 16) | half(v[1])};
    });
}

namespace {

template <class To, class From>
void check_to_integer(const std::string& to, const std::string& from) {
    for (const auto& [name, mode] : {std::pair{"rni", FE_TONEAREST},
                                     {"rzi", FE_TOWARDZERO},
                                     {"rmi", FE_DOWNWARD},
                                     {"rpi", FE_UPWARD}}) {
        Check(std::string("cvt.") + name + "." + to + "." + from, 2,
              [mode = mode](const Values& v) {
                  const From a = as<From>(v[0]);
                  constexpr bool wide = sizeof(From) == 8 || sizeof(To) == 8;
                  if (std::isnan(a))
                      return Values{wide ? std::uint64_t{1} << (sizeof(To) * 8 - 1) : 0};
                  std::fesetround(mode);
                  const From whole = std::nearbyint(a);
                  std::fesetround(FE_TONEAREST);
                  const Quad low = std::numeric_limits<To>::min(),
                             high = std::numeric_limits<To>::max();
                  const Quad clamped = whole < low ? low : whole > high ? high : Quad(whole);
                  return Values{word_of(static_cast<To>(clamped))};
              });
    }
}

template <class From>
void check_from_integer(const std::string& from) {
    for (const Mode& m : modes) {
        const int mode = m.mode;
        const std::string rounding = std::string("cvt.") + m.name;
        Check(rounding + ".f32." + from, 2, [=](const Values& v) {
            const volatile From a = as<From>(v[0]);
            return Values{bits_of_float(
                in_mode(mode, [&] { return static_cast<float>(static_cast<long double>(a)); }))};
        });
        Check(rounding + ".f64." + from, 2, [=](const Values& v) {
            const volatile From a = as<From>(v[0]);
            return Values{std::bit_cast<std::uint64_t>(
                in_mode(mode, [&] { return static_cast<double>(static_cast<long double>(a)); }))};
        });
        Check(rounding + ".f16." + from, 2,
              [=](const Values& v) { return Values{f16().rounded(as<From>(v[0]), false, mode)}; });
        Check(rounding + ".bf16." + from, 2,
              [=](const Values& v) { return Values{bf16().rounded(as<From>(v[0]), false, mode)}; });
    }
}

}  // namespace

TEST_CASE("floats become integers clamped, in every rounding", "[emulator][ops]") {
    check_to_integer<std::int32_t, float>("s32", "f32");
    check_to_integer<std::uint32_t, float>("u32", "f32");
    check_to_integer<std::int64_t, float>("s64", "f32");
    check_to_integer<std::uint64_t, float>("u64", "f32");
    check_to_integer<std::int16_t, float>("s16", "f32");
    check_to_integer<std::uint8_t, float>("u8", "f32");
    check_to_integer<std::int32_t, double>("s32", "f64");
    check_to_integer<std::uint64_t, double>("u64", "f64");
    check_to_integer<std::int64_t, double>("s64", "f64");
}

TEST_CASE("integers become floats rounded once, in every rounding", "[emulator][ops]") {
    check_from_integer<std::int32_t>("s32");
    check_from_integer<std::uint32_t>("u32");
    check_from_integer<std::int64_t>("s64");
    check_from_integer<std::uint64_t>("u64");
    check_from_integer<std::int8_t>("s8");
    check_from_integer<std::uint16_t>("u16");
}

TEST_CASE("floats are narrowed to 16 and 8 bits in every rounding", "[emulator][ops]") {
    static const SmallFloat e4m3(4, 3, 0x7e), e5m2(5, 2, 0x7b);
    for (const Mode& m : modes) {
        const int mode = m.mode;
        const std::string rounding = std::string("cvt.") + m.name;
        for (const auto* format : {&f16(), &bf16()}) {
            const std::string to = format == &f16() ? ".f16" : ".bf16";
            Check(rounding + to + ".f32", 2, [=](const Values& v) {
                const float a = as<float>(v[0]);
                return Values{format->rounded(a, std::signbit(a), mode)};
            });
            Check(rounding + to + ".f64", 2, [=](const Values& v) {
                const double a = as<double>(v[0]);
                return Values{format->rounded(a, std::signbit(a), mode)};
            });
        }
        Check(rounding + ".f32.f64", 2, [=](const Values& v) {
            const volatile double a = as<double>(v[0]);
            return Values{bits_of_float(in_mode(mode, [&] { return static_cast<float>(a); }))};
        });
    }
    for (const auto* format : {&e4m3, &e5m2}) {
        const std::string to = format == &e4m3 ? "e4m3x2" : "e5m2x2";
        const auto one = [=](double a) {
            return std::uint64_t{format->rounded(a, std::signbit(a), FE_TONEAREST, true)};
        };
        Check("cvt.rn.satfinite." + to + ".f32", 3, [=](const Values& v) {
            return Values{(one(as<float>(v[0])) << 8) | one(as<float>(v[1]))};
        });
        Check("cvt.rn.satfinite." + to + ".f16x2", 2, [=](const Values& v) {
            return Values{(one(f16().value(v[0] >> 16)) << 8) | one(f16().value(v[0]))};
        });
        Check("cvt.rn.f16x2." + to, 2, [=](const Values& v) {
            const auto back = [=](std::uint64_t bits) {
                const double a = format->value(bits & 0xff);
                return std::uint64_t{f16().rounded(a, std::signbit(a), FE_TONEAREST)};
            };
            return Values{(back(v[0] >> 8) << 16) | back(v[0])};
        });
    }
    Check("cvt.rn.relu.bf16x2.f32", 3, [](const Values& v) {
        const auto one = [](float a) {
            return std::uint64_t{a <= 0 ? 0 : bf16().rounded(a, false, FE_TONEAREST)};
        };
        return Values{(one(as<float>(v[0])) << 16) | one(as<float>(v[1]))};
    });
    Check("cvt.rz.f16x2.f32", 3, [](const Values& v) {
        const auto one = [](float a) {
            return std::uint64_t{f16().rounded(a, std::signbit(a), FE_TOWARDZERO)};
        };
        return Values{(one(as<float>(v[0])) << 16) | one(as<float>(v[1]))};
    });
    Check("cvt.rna.tf32.f32", 2, [](const Values& v) {
        if (std::isnan(as<float>(v[0]))) return Values{0x7fff'ffff};
        return Values{std::isinf(as<float>(v[0])) ? v[0] : (v[0] + 0x1000) & 0xffff'e000};
    });
    Check("cvt.f32.f16", 2, [](const Values& v) {
        return Values{bits_of_float(static_cast<float>(f16().value(v[0])))};
    });
    Check("cvt.f32.bf16", 2, [](const Values& v) { return Values{(v[0] & 0xffff) << 16}; });
    Check("cvt.rmi.ftz.f32.f32", 2, [](const Values& v) {
        return Values{bits_of_float(std::floor(flush(as<float>(v[0]), true)))};
    });
    Check("cvt.sat.f32.f32", 2,
          [](const Values& v) { return Values{bits_of_float(unit(as<float>(v[0])))}; });
}

namespace {

/// Largest distance, in units of the last place of the correctly rounded result, over many values.
double worst_error(const std::string& text, double (*exact)(double), double from, double to) {
    double worst = 0;
    std::mt19937_64 random(11);
    for (const Isa isa : isas()) {
        Warp warp(*find_pure(instruction_of(text, 2), {}, isa));
        for (int round = 0; round < 300; ++round) {
            std::uniform_real_distribution<double> any(from, to);
            for (int lane = 0; lane < warp_lanes; ++lane) {
                warp.set(1, lane, std::bit_cast<std::uint32_t>(static_cast<float>(any(random))));
            }
            warp.run(all_lanes);
            for (int lane = 0; lane < warp_lanes; ++lane) {
                const double expected = exact(as<float>(warp.get(1, lane)));
                const auto near = static_cast<float>(expected);
                const double place =
                    static_cast<double>(std::nextafter(std::fabs(near), HUGE_VALF)) -
                    std::fabs(near);
                worst = std::max(worst, std::fabs(as<float>(warp.get(0, lane)) - expected) / place);
            }
        }
    }
    return worst;
}
std::uint64_t of_one(const std::string& text, float a) {
    std::uint64_t found = 0;
    for (const Isa isa : isas()) {
        Warp warp(*find_pure(instruction_of(text, 2), {}, isa));
        warp.set(1, 3, std::bit_cast<std::uint32_t>(a));
        warp.run(8);
        if (isa != Isa::portable) CHECK(found == warp.get(0, 3));
        found = warp.get(0, 3);
    }
    return found;
}

}  // namespace

TEST_CASE("approximate functions are within half a unit and have the documented edges",
          "[emulator][ops]") {
    // 0.5 is a correctly rounded result; the rest is the error of the f64 computation before.
    CHECK(worst_error("ex2.approx.f32", std::exp2, -130, 120) < 0.5001);
    CHECK(worst_error("ex2.approx.f32", std::exp2, -1e-3, 1e-3) < 0.5001);
    CHECK(worst_error("lg2.approx.f32", std::log2, 0.4, 2.5) < 0.5001);
    CHECK(worst_error("lg2.approx.f32", std::log2, 1e-40, 1e30) < 0.5001);
    CHECK(worst_error("sin.approx.f32", std::sin, -10, 10) < 0.5001);
    CHECK(worst_error("cos.approx.f32", std::cos, -10, 10) < 0.5001);
    CHECK(worst_error("tanh.approx.f32", std::tanh, -4, 4) < 0.5001);
    CHECK(worst_error(
              "rsqrt.approx.f32", [](double a) { return 1 / std::sqrt(a); }, 1e-30, 1e30) < 0.5001);
    CHECK(worst_error(
              "rcp.approx.f32", [](double a) { return 1 / a; }, 1e-30, 1e30) < 0.5001);
    const float infinity = HUGE_VALF;
    CHECK(of_one("ex2.approx.f32", -infinity) == 0);
    CHECK(of_one("ex2.approx.f32", infinity) == 0x7f80'0000);
    CHECK(of_one("ex2.approx.f32", 0) == 0x3f80'0000);
    CHECK(of_one("ex2.approx.f32", -149) == 1);
    CHECK(of_one("ex2.approx.ftz.f32", -149) == 0);
    CHECK(of_one("lg2.approx.f32", 0) == 0xff80'0000);
    CHECK(of_one("lg2.approx.f32", -0.0F) == 0xff80'0000);
    CHECK(of_one("lg2.approx.ftz.f32", 1e-40F) == 0xff80'0000);
    CHECK(of_one("lg2.approx.f32", -1) == 0x7fff'ffff);
    CHECK(of_one("lg2.approx.f32", infinity) == 0x7f80'0000);
    CHECK(of_one("lg2.approx.f32", 1) == 0);
    CHECK(of_one("rcp.approx.ftz.f32", -1e-40F) == 0xff80'0000);
    CHECK(of_one("rsqrt.approx.f32", -0.0F) == 0xff80'0000);
    CHECK(of_one("sin.approx.f32", infinity) == 0x7fff'ffff);
    CHECK(of_one("tanh.approx.f32", -infinity) == 0xbf80'0000);
    Check("div.approx.f32", 3, [](const Values& v) -> Values {
        const float a = as<float>(v[0]), b = as<float>(v[1]);
        if (!(std::fabs(b) > 0x1p126F) || std::isinf(b)) return {bits_of_float(a / b)};
        if (std::isinf(a) || std::isnan(a)) return {0x7fff'ffff};
        return {std::signbit(a) != std::signbit(b) ? 0x8000'0000U : 0U};
    });
}

TEST_CASE("moves pack and unpack vectors, and drop what goes to a sink", "[emulator][ops]") {
    const auto vector_of = [](int count) {
        Operand made;
        made.kind = Operand::Kind::vector;
        made.elements.resize(static_cast<std::size_t>(count));
        for (Operand& element : made.elements) element.kind = Operand::Kind::reg;
        return made;
    };
    for (const Isa isa : isas()) {
        Instruction pack = instruction_of("mov.b64", 2);
        pack.operands[1] = vector_of(4);
        Warp packed(*find_pure(pack, {}, isa));
        for (std::size_t i = 0; i < 4; ++i) packed.set(1 + i, 9, 0x1111 * (i + 1));
        packed.run(all_lanes);
        CHECK(packed.get(0, 9) == 0x4444'3333'2222'1111);

        Instruction unpack = instruction_of("mov.b32", 2);
        unpack.operands[0] = vector_of(2);
        unpack.operands[0].elements[0].kind = Operand::Kind::sink;
        const auto op = find_pure(unpack, {Type::none, Type::b16, Type::b32}, isa);
        CHECK(op->rows == std::vector<Row>{Row::none, Row::b32, Row::b32});
        Warp unpacked(*op);
        unpacked.discard(0);
        unpacked.set(2, 4, 0xabcd'1234);
        unpacked.run(all_lanes);
        CHECK(unpacked.get(1, 4) == 0xabcd);
    }
}

TEST_CASE("every form of both units has the same rows", "[emulator][ops]") {
    for (const char* text : {"add.rn.f32", "setp.lt.s32", "cvt.rn.f16.f32", "mul.wide.u32"}) {
        const int count = std::string(text) == "cvt.rn.f16.f32" ? 2 : 3;
        const auto op = find_pure(instruction_of(text, count), {}, Isa::portable);
        CHECK(op->rows == find_pure(instruction_of(text, count), {}, best_isa())->rows);
        CHECK_FALSE(op->whole_warp);
    }
}

TEST_CASE("forms that are not emulated and operands that make no sense are refused with the name",
          "[emulator][ops]") {
    const auto kind_of = [](const Instruction& instruction, const std::vector<Type>& types = {}) {
        try {
            (void)find_pure(instruction, types, Isa::portable);
        } catch (const PtxError& error) {
            CHECK(error.place().ptx_line == 7);
            CHECK(std::string(error.what()).find(instruction.opcode) == 0);
            return static_cast<int>(error.kind());
        }
        return -1;
    };
    const int refused = static_cast<int>(PtxError::Kind::not_emulated);
    const int malformed = static_cast<int>(PtxError::Kind::malformed);
    CHECK(kind_of(instruction_of("add.rn.f32x2", 3)) == refused);
    CHECK(kind_of(instruction_of("vmax4.u32.u32.u32", 4)) == refused);
    CHECK(kind_of(instruction_of("createpolicy.range.L2::evict_last.b64", 2)) == refused);
    CHECK(kind_of(instruction_of("add.s32", 2)) == malformed);
    CHECK(kind_of(instruction_of("add.s32", 3), {Type::b64, Type::b32, Type::b32}) == malformed);
    Instruction sink = instruction_of("add.s32", 3);
    sink.operands[2].kind = Operand::Kind::sink;
    CHECK(kind_of(sink) == malformed);
    Instruction negated = instruction_of("and.pred", 3);
    negated.operands[1].negated = true;
    CHECK(kind_of(negated) == malformed);
    CHECK_FALSE(find_pure(instruction_of("ld.global.f32", 2), {}, Isa::portable).has_value());
}
