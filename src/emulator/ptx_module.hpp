// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/error.hpp"

// PTX as text made it: names, types and operands, nothing resolved that the text leaves open.

namespace kernelforge::emulator {

/// Where something stands: in the PTX, and in the candidate where `.loc` says so.
struct Place {
    int ptx_line = 0;     ///< from 1
    int source_line = 0;  ///< of the candidate's own text, from 1; 0: unknown. Code inlined from
                          ///< another file has the line of the nearest call that stands in the
                          ///< candidate's file
};

/// The PTX cannot be executed: malformed, or it uses what is not emulated. The message is one
/// sentence without the position.
class PtxError final : public Error {
  public:
    enum class Kind { malformed, not_emulated };
    PtxError(Kind kind, Place place, const std::string& message)
        : Error(ErrorCode::unsupported, message), kind_(kind), place_(place) {}
    [[nodiscard]] Kind kind() const noexcept { return kind_; }
    [[nodiscard]] Place place() const noexcept { return place_; }

  private:
    Kind kind_;
    Place place_;
};

/// State spaces; `cta` and `cluster` of shared memory are told apart by the address.
enum class Space : std::uint8_t { generic, global, shared, local, constant, param };

/// Fundamental types. `b128` and vector types of textures do not exist here.
enum class Type : std::uint8_t {
    none,
    pred,
    b8,
    b16,
    b32,
    b64,
    u8,
    u16,
    u32,
    u64,
    s8,
    s16,
    s32,
    s64,
    f16,
    f16x2,
    bf16,
    bf16x2,
    tf32,
    e4m3,
    e5m2,
    e4m3x2,
    e5m2x2,
    f32,
    f32x2,
    f64
};
[[nodiscard]] int bytes_of(Type type) noexcept;  ///< 0 for none and pred
[[nodiscard]] bool is_signed(Type type) noexcept;
/// "s32", "f16x2", …; nothing for another word.
[[nodiscard]] std::optional<Type> parse_type(std::string_view word) noexcept;

struct Operand {
    enum class Kind : std::uint8_t {
        reg,        ///< `name`, unique in its function (nested scopes are renamed)
        predicate,  ///< a register of type pred, `negated` for `!p`
        integer,    ///< `bits`: two's complement, 64 bits
        f32_bits,   ///< `0f…`: `bits`, low 32
        f64_bits,   ///< `0d…`: `bits`
        special,    ///< `%tid.x`, …: `name` as written
        symbol,     ///< a variable, function, parameter or local: `name`, plus `offset` bytes
        address,    ///< `[name + offset]`: `name` a register or symbol, or empty for an absolute
                    ///< `offset`; `elements` holds coordinates of `[map, {…}]`
        vector,     ///< `{a, b, …}`: `elements`
        label,      ///< `name`
        sink        ///< `_`
    };
    Kind kind = Kind::sink;
    bool negated = false;
    std::string name;
    std::int64_t offset = 0;
    std::uint64_t bits = 0;
    std::vector<Operand> elements;
};

struct Instruction {
    /// First word: "add", "ld", "mma", "cp", "bar", "barrier", …
    std::string opcode;
    /// Further words without their dots, in order; `::` stays: "shared::cta", "L2::128B".
    std::vector<std::string> modifiers;
    std::string guard;  ///< predicate register; empty: none
    bool guard_negated = false;
    /// In textual order. `setp` with two destinations `p|q` and `shfl` with `d|p` give both, in
    /// that order. For `call`: see the members below instead.
    std::vector<Operand> operands;
    std::vector<Operand> call_returns;
    std::vector<Operand> call_arguments;
    Operand callee;              ///< of `call`: symbol or reg
    std::string call_prototype;  ///< label of `.callprototype` or `.calltargets`; empty: direct
    Place place;

    [[nodiscard]] bool has(std::string_view modifier) const noexcept;
    /// "ld.global.v2.f32", for messages.
    [[nodiscard]] std::string full_name() const;
};

/// A value inside an initialiser that is the (generic or not) address of a symbol.
struct Relocation {
    std::uint64_t at = 0;  ///< byte of the initialiser
    std::string symbol;
    std::int64_t offset = 0;
    bool generic = false;  ///< written `generic(symbol)`
    int bytes = 8;
};

/// A variable of any space, or a parameter.
struct Variable {
    std::string name;
    Space space = Space::global;
    Type type = Type::b8;     ///< of an element
    int vector = 1;           ///< `.v2`, `.v4`: 2, 4; counted in `bytes`
    std::uint64_t bytes = 0;  ///< 0 for an unsized `extern` array
    std::uint64_t alignment = 1;
    bool is_extern = false;
    std::string initial;  ///< bytes, shorter than `bytes` or empty: the rest is zero
    std::vector<Relocation> relocations;
    Place place;
};

struct Function {
    std::string name;
    bool is_entry = false;
    bool is_extern = false;  ///< declared, not defined: vprintf, __assertfail, …
    std::vector<Variable> returns;
    std::vector<Variable> parameters;
    /// Type of every register by its unique name.
    std::map<std::string, Type> registers;
    /// `.local`, `.shared` and `.param` variables declared in the body, names unique.
    std::vector<Variable> locals;
    std::vector<Instruction> instructions;
    /// Label -> index into `instructions` (may be their number: the end).
    std::map<std::string, std::size_t> labels;
    /// `.branchtargets` of brx.idx: label of the list -> labels.
    std::map<std::string, std::vector<std::string>> branch_targets;
    // Of entries; 0: not stated.
    std::array<int, 3> max_threads{};       ///< .maxntid
    std::array<int, 3> required_threads{};  ///< .reqntid
    std::array<int, 3> required_cluster{};  ///< .reqnctapercluster
    bool explicit_cluster = false;
    Place place;
};

struct Module {
    std::string version;  ///< "9.0"
    std::string target;   ///< "sm_90a"
    std::vector<Variable> variables;
    std::vector<Function> functions;
    [[nodiscard]] const Function* find_function(std::string_view name) const noexcept;
};

/// Reads PTX as NVRTC writes it, inline assembly included. `own_file`: the file name under which
/// the candidate's text was compiled, whose lines `source_line` means; empty: any file whose name
/// ends with ".cu", as headers' do not. Parsing
/// accepts any opcode; types and directives it does not know are errors. Branch targets and
/// `[address]` names are resolved, register names declared. [any]
/// @throws PtxError
[[nodiscard]] Module parse_ptx(std::string_view text, std::string_view own_file = {});

}  // namespace kernelforge::emulator
