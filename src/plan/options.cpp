// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "plan/directive.hpp"

// The compiler options that a candidate may choose: those that change how its own code is compiled.
// Everything that reads or writes files, defines or includes something, or changes the kind of
// output
// (-I -D -include -pch -dlto -rdc -G --options-file …) is not among them.

namespace kernelforge::plan {
namespace {

enum class Form { flag, boolean, number, standard };

struct Option {
    std::string_view name;        ///< with two dashes
    std::string_view short_name;  ///< with one
    Form form;
    int low = 0;
    int high = 0;
};

constexpr Option options[] = {
    {"--use_fast_math", "-use_fast_math", Form::flag},
    {"--extra-device-vectorization", "-extra-device-vectorization", Form::flag},
    {"--device-as-default-execution-space", "-default-device", Form::flag},
    {"--restrict", "-restrict", Form::flag},
    {"--fmad", "-fmad", Form::boolean},
    {"--ftz", "-ftz", Form::boolean},
    {"--prec-div", "-prec-div", Form::boolean},
    {"--prec-sqrt", "-prec-sqrt", Form::boolean},
    {"--maxrregcount", "-maxrregcount", Form::number, 16, 255},
    {"--std", "-std", Form::standard},
};

constexpr std::string_view known_options =
    "--use_fast_math --extra-device-vectorization -default-device --restrict --fmad= --ftz= "
    "--prec-div= --prec-sqrt= (true or false) -maxrregcount=16…255 -std=c++17 -std=c++20 -Xptxas=";

/// Options of the assembler: optimisation and cache policy only.
constexpr std::string_view assembler_options[] = {
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "--allow-expensive-optimizations=true",
    "--allow-expensive-optimizations=false",
    "-dlcm=ca",
    "-dlcm=cg",
    "-dlcm=cs",
    "-dlcm=cv",
    "-dscm=wb",
    "-dscm=cg",
    "-dscm=cs",
    "-dscm=wt",
    "--register-usage-level=0",
    "--register-usage-level=1",
    "--register-usage-level=2",
    "--register-usage-level=3",
    "--register-usage-level=4",
    "--register-usage-level=5",
    "--register-usage-level=6",
    "--register-usage-level=7",
    "--register-usage-level=8",
    "--register-usage-level=9",
    "--register-usage-level=10",
};

std::string assembler_option(const Piece& word, std::string_view value) {
    for (const std::string_view known : assembler_options) {
        // One dash is as good as two.
        if (value == known || (known.starts_with("--") && value == known.substr(1))) {
            return "-Xptxas=" + std::string(known);
        }
    }
    word.fail(
        "the assembler option " + quoted(value) +
        " is not allowed; allowed: -O0 to -O3, --allow-expensive-optimizations=true|false, "
        "-dlcm=ca|cg|cs|cv, -dscm=wb|cg|cs|wt, --register-usage-level=0…10, one for each -Xptxas=");
}

std::string checked_value(const Piece& word, const Option& option, std::string_view value) {
    const std::string name(option.name);
    if (option.form == Form::boolean && (value == "true" || value == "false"))
        return name + "=" + std::string(value);
    if (option.form == Form::boolean) word.expected(name + "=true or " + name + "=false");
    if (option.form == Form::standard) {
        if (value == "c++17" || value == "c++20") return name + "=" + std::string(value);
        word.expected("-std=c++17 or -std=c++20");
    }
    const std::int64_t number = integer_literal(word.sub(word.text().size() - value.size()),
                                                "a number of registers", option.low, option.high);
    return name + "=" + std::to_string(number);
}

std::string checked_option(const Piece& word) {
    const std::string_view text = word.text();
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const bool has_value = equals != std::string_view::npos;
    const std::string_view value = has_value ? text.substr(equals + 1) : std::string_view();
    if (name == "-Xptxas" || name == "--ptxas-options") return assembler_option(word, value);
    for (const Option& option : options) {
        if (name != option.name && name != option.short_name) continue;
        if (option.form == Form::flag && has_value)
            word.expected(std::string(option.name) + " without a value");
        if (option.form == Form::flag) return std::string(option.name);
        return checked_value(word, option, value);
    }
    const std::string hint = text.starts_with("-arch") || text.starts_with("--gpu-architecture")
                                 ? " (the architecture is chosen by //@requires)"
                                 : "";
    word.fail("the compiler option " + quoted(text) + " is not allowed" + hint +
              "; allowed: " + std::string(known_options));
}

/// What two options must not both set.
std::string subject(const std::string& option) {
    const std::string_view text = option;
    if (text.starts_with("-Xptxas=-O")) return "-Xptxas=-O";
    const std::size_t equals = text.find('=', text.starts_with("-Xptxas=") ? 8 : 0);
    return std::string(text.substr(0, equals));
}

}  // namespace

std::vector<std::string> parse_options(const Piece& piece, const std::vector<std::string>& given) {
    std::vector<std::string> result;
    std::vector<Piece> words = split_words(piece);
    if (words.empty()) piece.expected("a compiler option");
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string option;
        const bool separate =
            (words[i].text() == "-Xptxas" || words[i].text() == "--ptxas-options") &&
            i + 1 < words.size();
        if (separate) {
            ++i;
            option = assembler_option(words[i], words[i].text());
        } else {
            option = checked_option(words[i]);
        }
        for (const auto* list : {&given, &std::as_const(result)}) {
            for (const std::string& other : *list) {
                if (subject(other) == subject(option))
                    words[i].fail("the option " + subject(option) + " is given twice");
            }
        }
        result.push_back(std::move(option));
    }
    return result;
}

}  // namespace kernelforge::plan
