// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_cubin.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "kernelforge/error.hpp"

namespace kernelforge::compile {
namespace {

constexpr std::uint16_t cuda_machine = 190;            // EM_CUDA
constexpr std::uint32_t reserved_shared_bytes = 1024;  // from sm_90 on
constexpr std::size_t instruction_bytes = 16;          // sm_70 and later
constexpr std::size_t max_symbols = 1'000'000;
constexpr std::size_t max_parameters = 4096;  // 4 KiB, or 32 KiB of parameters at most

[[noreturn]] void malformed(const std::string& what) {
    throw Error(ErrorCode::parse, "cubin: " + what);
}

template <class T>
T load(std::string_view bytes, std::uint64_t at) {
    if (at > bytes.size() || sizeof(T) > bytes.size() - at) malformed("cut off");
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

struct Section {
    std::string_view name;
    Elf64_Shdr header;
    std::string_view content;  ///< empty for NOBITS
};

/// Text up to the next zero byte; empty outside the table.
std::string_view text_at(std::string_view table, std::uint64_t at) {
    if (at >= table.size()) return {};
    const std::string_view rest = table.substr(at);
    const std::size_t end = rest.find('\0');
    return end == std::string_view::npos ? std::string_view{} : rest.substr(0, end);
}

std::vector<Section> read_sections(std::string_view bytes, const Elf64_Ehdr& header) {
    if (header.e_shentsize != sizeof(Elf64_Shdr)) malformed("unexpected size of section headers");
    std::vector<Section> sections;
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        if (header.e_shoff > bytes.size()) malformed("cut off");
        Section section;
        section.header = load<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
        const auto& h = section.header;
        if (h.sh_type != SHT_NOBITS && h.sh_type != SHT_NULL) {
            if (h.sh_offset > bytes.size() || h.sh_size > bytes.size() - h.sh_offset) {
                malformed("a section lies outside the file");
            }
            section.content = bytes.substr(h.sh_offset, h.sh_size);
        }
        sections.push_back(section);
    }
    if (header.e_shstrndx >= sections.size()) malformed("no section names");
    const std::string_view names = sections[header.e_shstrndx].content;
    for (Section& section : sections) section.name = text_at(names, section.header.sh_name);
    return sections;
}

/// The low nine bits of an instruction's first word name the operation, the bits above its operand
/// forms. Found by difference between PTX and machine code; what is not listed counts as `other`.
std::string_view opcode_class(std::uint64_t low_word) {
    struct Entry {
        std::uint16_t code;
        std::string_view name;
    };
    constexpr std::array<Entry, 38> entries = {{
        {0x005, "clock"},       {0x006, "vote"},
        {0x021, "fadd"},        {0x023, "ffma"},
        {0x024, "imad"},        {0x02b, "dfma"},
        {0x035, "hfma2"},       {0x037, "imma"},
        {0x03b, "ldmatrix"},    {0x03c, "hmma"},
        {0x03f, "dmma"},        {0x044, "stmatrix"},
        {0x0b9, "ld.constant"}, {0x108, "mufu"},
        {0x118, "nop"},         {0x11a, "cp.async.wait"},
        {0x11d, "barrier"},     {0x147, "branch"},
        {0x14d, "exit"},        {0x181, "ld.global"},
        {0x183, "ld.local"},    {0x184, "ld.shared"},
        {0x186, "st.global"},   {0x187, "st.local"},
        {0x188, "st.shared"},   {0x189, "shfl"},
        {0x18c, "atom.shared"}, {0x18e, "red.global"},
        {0x1a1, "match"},       {0x1a7, "mbarrier.wait"},
        {0x1a8, "atom.global"}, {0x1ac, "ld.constant"},
        {0x1ae, "cp.async"},    {0x1af, "cp.async.commit"},
        {0x1c4, "redux"},       {0x1c5, "wgmma.sync"},
        {0x1f0, "hgmma"},       {0x1f1, "igmma"},
    }};
    const auto code = static_cast<std::uint16_t>(low_word & 0x1ff);
    switch (code) {
        case 0x1a9:
            return "atom.global";
        case 0x1b2:
            return "mbarrier.init";
        case 0x1b4:
            return "bulk.load";
        case 0x1b5:
            return "bulk.store";
        case 0x1ba:
            return "bulk.copy";
        case 0x1f3:
            return "qgmma";
        default:
            break;
    }
    const auto found = std::lower_bound(entries.begin(), entries.end(), code,
                                        [](const Entry& e, std::uint16_t c) { return e.code < c; });
    return found != entries.end() && found->code == code ? found->name : "other";
}

void count_opcodes(std::string_view code, CubinKernel& kernel) {
    kernel.has_code = true;
    std::array<int, 512> counts{};
    for (std::size_t at = 0; at + instruction_bytes <= code.size(); at += instruction_bytes) {
        ++counts[load<std::uint64_t>(code, at) & 0x1ff];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] != 0) kernel.opcode_counts[std::string(opcode_class(i))] += counts[i];
    }
}

/// Calls f(attribute, value bytes) for every record of an `.nv.info` section:
/// `{u8 format, u8 attribute, u16 value}`; format 4 carries `value` bytes more.
template <class F>
void for_each_record(std::string_view info, F&& f) {
    for (std::size_t at = 0; at + 4 <= info.size();) {
        const auto format = static_cast<std::uint8_t>(info[at]);
        const auto attribute = static_cast<std::uint8_t>(info[at + 1]);
        const auto value = load<std::uint16_t>(info, at + 2);
        at += 4;
        if (format != 4) continue;
        if (value > info.size() - at) return;
        f(attribute, info.substr(at, value));
        at += value;
    }
}

int to_int(std::uint64_t value) {
    return static_cast<int>(std::min<std::uint64_t>(
        value, static_cast<std::uint64_t>(std::numeric_limits<int>::max())));
}

void read_kernel_info(std::string_view info, CubinKernel& kernel) {
    std::map<std::uint16_t, int> parameters;  // by ordinal
    for_each_record(info, [&](std::uint8_t attribute, std::string_view value) {
        if (attribute == 0x05 && value.size() >= 12) {
            const std::uint64_t threads =
                std::uint64_t{load<std::uint32_t>(value, 0)} *
                std::min<std::uint32_t>(load<std::uint32_t>(value, 4), 1024) *
                std::min<std::uint32_t>(load<std::uint32_t>(value, 8), 1024);
            kernel.max_threads_per_block = to_int(threads);
        } else if (attribute == 0x17 && value.size() >= 12 && parameters.size() < max_parameters) {
            parameters[load<std::uint16_t>(value, 4)] = to_int(load<std::uint32_t>(value, 8) >> 18);
        }
    });
    for (const auto& [ordinal, bytes] : parameters) kernel.parameter_bytes.push_back(bytes);
}

struct Symbols {
    std::string_view table;
    std::string_view names;
    [[nodiscard]] std::size_t size() const {
        return std::min(table.size() / sizeof(Elf64_Sym), max_symbols);
    }
    [[nodiscard]] Elf64_Sym at(std::size_t index) const {
        return load<Elf64_Sym>(table, index * sizeof(Elf64_Sym));
    }
    [[nodiscard]] std::string_view name(std::size_t index) const {
        return index < size() ? text_at(names, at(index).st_name) : std::string_view{};
    }
};

/// The module's `.nv.info`: 8-byte records `{symbol index, value}`.
void read_module_info(std::string_view info, const Symbols& symbols, CubinFacts& facts) {
    for_each_record(info, [&](std::uint8_t attribute, std::string_view value) {
        if (value.size() != 8) return;
        const auto found =
            facts.kernels.find(std::string(symbols.name(load<std::uint32_t>(value, 0))));
        if (found == facts.kernels.end()) return;
        const auto number = load<std::uint32_t>(value, 4);
        if (attribute == 0x2f) found->second.registers = to_int(number);
        if (attribute == 0x11) found->second.stack_bytes = to_int(number);
    });
}

void read_globals(const std::vector<Section>& sections, const Symbols& symbols, CubinFacts& facts) {
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        const Elf64_Sym symbol = symbols.at(i);
        if (symbol.st_shndx >= sections.size()) continue;
        const unsigned type = ELF64_ST_TYPE(symbol.st_info);
        const std::string_view section = sections[symbol.st_shndx].name;
        const std::string_view name = symbols.name(i);
        // A __constant__ variable can be stored to through a generic address.
        const bool writable = section.starts_with(".nv.global") || section == ".nv.constant3";
        if (type != STT_OBJECT || name.empty() || !writable) continue;
        facts.writable_globals.emplace_back(name, symbol.st_size);
        if (section == ".nv.constant3") continue;
        // Sizes are whatever the file says: no sum of them may wrap.
        facts.global_bytes += std::min(symbol.st_size, UINT64_MAX - facts.global_bytes);
    }
}

}  // namespace

CubinFacts read_cubin(std::string_view bytes) {
    if (bytes.substr(0, 4) !=
            "\x7f"
            "ELF" ||
        bytes.size() < sizeof(Elf64_Ehdr) || bytes[EI_CLASS] != ELFCLASS64 ||
        bytes[EI_DATA] != ELFDATA2LSB) {
        malformed("not a 64-bit little-endian ELF file");
    }
    const auto header = load<Elf64_Ehdr>(bytes, 0);
    if (header.e_machine != cuda_machine) malformed("not for a CUDA device");
    // Bits 8 to 15 of the flags (ABI 8, CUDA 13) or 0 to 7 (before) name the architecture.
    const unsigned newer = header.e_flags >> 8 & 0xff;
    const unsigned architecture = newer >= 50 ? newer : header.e_flags & 0xff;
    const std::vector<Section> sections = read_sections(bytes, header);

    CubinFacts facts;
    Symbols symbols;
    for (const Section& section : sections) {
        if (section.header.sh_type == SHT_SYMTAB && section.header.sh_link < sections.size()) {
            symbols = {section.content, sections[section.header.sh_link].content};
        }
        constexpr std::string_view text = ".text.";
        if (section.name.starts_with(text)) {
            count_opcodes(section.content,
                          facts.kernels[std::string(section.name.substr(text.size()))]);
        }
    }
    const auto kernel_of = [&facts](const Section& section, std::string_view prefix) {
        const auto found = section.name.starts_with(prefix)
                               ? facts.kernels.find(std::string(section.name.substr(prefix.size())))
                               : facts.kernels.end();
        return found == facts.kernels.end() ? nullptr : &found->second;
    };
    for (auto& [name, kernel] : facts.kernels) kernel.static_shared_bytes = 0;
    for (const Section& section : sections) {
        if (CubinKernel* kernel = kernel_of(section, ".nv.info.")) {
            read_kernel_info(section.content, *kernel);
        }
        if (CubinKernel* kernel = kernel_of(section, ".nv.shared.")) {
            const std::uint64_t reserved = architecture >= 90 ? reserved_shared_bytes : 0;
            const std::uint64_t size = section.header.sh_size;
            kernel->static_shared_bytes = to_int(size > reserved ? size - reserved : 0);
        }
    }
    for (const Section& section : sections) {
        if (section.name == ".nv.info") read_module_info(section.content, symbols, facts);
    }
    read_globals(sections, symbols, facts);
    return facts;
}

}  // namespace kernelforge::compile
