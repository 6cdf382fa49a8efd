// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <set>
#include <utility>

#include "fuzz_program.hpp"

// A tree as CUDA C++.

namespace kernelforge::fuzz {
namespace {

std::string hexadecimal(u32 value) {
    return literal(Type::u32, value);
}
std::string variable_name(int index) {
    return "v" + std::to_string(index);
}

class Printer {
  public:
    explicit Printer(const Program& program) : program_(program) {}

    std::string print() {
        print_kernel();
        for (std::size_t i = program_.functions.size(); i-- > 0;) {
            const std::string after = std::exchange(text_, "");
            if (uses(after, "f" + std::to_string(i))) print_function(i);
            text_ += after;
        }
        return head() + helpers_ + tables() + text_;
    }

  private:
    std::string head() const {
        std::string text;
        if (program_.halves) text += "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n";
        text +=
            "typedef signed char s8;\ntypedef unsigned char u8;\ntypedef short s16;\n"
            "typedef unsigned short u16;\ntypedef int s32;\ntypedef unsigned int u32;\n"
            "typedef long long s64;\ntypedef unsigned long long u64;\n"
            "typedef float f32;\ntypedef double f64;\n";
        if (program_.halves) text += "typedef __half f16;\ntypedef __nv_bfloat16 bf16;\n";
        return text;
    }

    std::string tables() const {
        std::string text;
        for (std::size_t i = 0; i < program_.tables.size(); ++i) {
            const Table& table = program_.tables[i];
            if (!uses(text_, "table" + std::to_string(i))) continue;
            // Bits, since not every literal is a constant expression.
            const Type words = bytes_of(table.type) == 8   ? Type::u64
                               : bytes_of(table.type) == 4 ? Type::u32
                               : bytes_of(table.type) == 2 ? Type::u16
                                                           : Type::u8;
            text += "__constant__ " + std::string(name_of(words)) + " table" + std::to_string(i) +
                    "[" + std::to_string(table.values.size()) + "] = {";
            for (const u64 value : table.values) text += literal(words, value) + ", ";
            text += "};\n";
        }
        return text;
    }

    void line(const std::string& text) { text_ += std::string(depth_ * 4, ' ') + text + "\n"; }
    void open(const std::string& text) {
        line(text.empty() ? "{" : text + " {");
        ++depth_;
    }
    void close(const std::string& after = "") {
        --depth_;
        line("}" + after);
    }

    void use(const std::string& helper) {
        if (!helper.empty() && used_.insert(helper).second) helpers_ += helper;
    }

    std::string expression(const Expression& e) {
        const auto argument = [&](std::size_t i) { return expression(e.arguments[i]); };
        const std::string type = name_of(e.type);
        switch (e.kind) {
            case Expression::Kind::constant:
                return literal(e.type, e.value);
            case Expression::Kind::variable:
                return variable_name(e.index);
            case Expression::Kind::input: {
                const std::string at =
                    "(const " + type + "*)in + (" + argument(0) + " & " +
                    hexadecimal(input_bytes / static_cast<u32>(bytes_of(e.type)) - 1) + ")";
                return (e.index == 0 ? "*(" : "__ldg(") + at + ")";
            }
            case Expression::Kind::table:
                return "((const " + type + "*)table" + std::to_string(e.index) + ")[" +
                       argument(0) + " & " + hexadecimal(table_length - 1) + "]";
            case Expression::Kind::array:
                return "a" + std::to_string(e.index) + "[" + argument(0) + " & " +
                       hexadecimal(array_length - 1) + "]";
            case Expression::Kind::call: {
                std::string text = "f" + std::to_string(e.index) + "(in";
                for (std::size_t i = 0; i < e.arguments.size(); ++i) text += ", " + argument(i);
                return text + ")";
            }
            case Expression::Kind::operation:
                break;
        }
        use(e.operation->helper);
        std::string text;
        const std::string& pattern = e.operation->text;
        for (std::size_t i = 0; i < pattern.size(); ++i) {
            if (pattern[i] == '$') {
                text += argument(static_cast<std::size_t>(pattern[++i] - '0'));
            } else {
                text += pattern[i];
            }
        }
        return "(" + text + ")";
    }

    static bool uses(const std::string& text, const std::string& name) {
        const auto in_name = [](char c) {
            return std::isalnum(static_cast<unsigned char>(c)) != 0;
        };
        for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
            if (!in_name(text[at - 1]) && !in_name(text[at + name.size()])) return true;
        }
        return false;
    }
    /// What `print_rest` prints, after declarations of the variables that it uses.
    template <class Rest>
    void with_declarations(const Function& function, std::size_t first, Rest print_rest) {
        const std::string before = std::exchange(text_, "");
        print_rest();
        const std::string rest = std::exchange(text_, before);
        declare(function, first, rest);
        text_ += rest;
    }
    void declare(const Function& function, std::size_t first, const std::string& statements) {
        for (std::size_t i = first; i < function.variables.size(); ++i) {
            const Type type = function.variables[i].type;
            if (!uses(statements, variable_name(static_cast<int>(i)))) continue;
            line(std::string(name_of(type)) + " " + variable_name(static_cast<int>(i)) + " = " +
                 literal(type, 0) + ";");
        }
        for (std::size_t i = 0; i < function.arrays.size(); ++i) {
            const Type type = function.arrays[i];
            const std::string name = "a" + std::to_string(i);
            if (!uses(statements, name)) continue;
            line(std::string(name_of(type)) + " " + name + "[" + std::to_string(array_length) +
                 "];");
            line("for (int i = 0; i < " + std::to_string(array_length) + "; ++i) " + name +
                 "[i] = " + literal(type, 0) + ";");
        }
    }

    void print_function(std::size_t index) {
        const Function& function = program_.functions[index];
        std::string parameters;
        for (std::size_t i = 0; i < function.parameters; ++i) {
            parameters += (i > 0 ? ", " : "") + std::string(name_of(function.variables[i].type)) +
                          " " + variable_name(static_cast<int>(i));
        }
        open("__device__ __noinline__ " + std::string(name_of(function.result)) + " f" +
             std::to_string(index) + "(const char* __restrict__ in" +
             (parameters.empty() ? "" : ", ") + parameters + ")");
        with_declarations(function, function.parameters, [&] {
            body(function, function.body);
            line("return " + expression(function.value) + ";");
        });
        close();
    }

    void print_kernel() {
        const Function& kernel = program_.kernel;
        open(
            "extern \"C\" __global__ void fuzz(const char* __restrict__ in, char* acc, "
            "char* own, char* out)");
        line(program_.dynamic_shared
                 ? "extern __shared__ u64 shared[];"
                 : "__shared__ u64 shared[" + std::to_string(program_.shared_words()) + "];");
        line(
            "const u32 v0 = threadIdx.x, v1 = threadIdx.x & 31u, v2 = threadIdx.x >> 5, "
            "v3 = blockIdx.x;");
        line("const u32 at = v3 * " + std::to_string(program_.threads) + "u + v0;");
        with_declarations(kernel, kernel_variables, [&] {
            body(kernel, kernel.body);
            for (const Output& output : program_.outputs) print_output(output);
        });
        close();
    }

    void print_output(const Output& output) {
        const std::string type = vector_name(output.type, output.variables.size());
        std::string values;
        for (std::size_t i = 0; i < output.variables.size(); ++i) {
            values += (i > 0 ? ", " : "") + variable_name(output.variables[i]);
        }
        if (output.variables.size() > 1) values = "make_" + type + "(" + values + ")";
        line("((" + type + "*)(out + " + std::to_string(output.offset) + "))[at] = " + values +
             ";");
    }

    void body(const Function& function, const Body& statements) {
        for (const Statement& one : statements) statement(function, one);
    }
    void block(const Function& function, const Body& statements, const std::string& head) {
        open(head);
        body(function, statements);
        close();
    }
    void two_ways(const Function& function, const Statement& s, const std::string& condition) {
        open("if (" + condition + ")");
        body(function, s.bodies[0]);
        if (!s.bodies[1].empty()) {
            --depth_;
            open("} else");
            body(function, s.bodies[1]);
        }
        close();
    }

    void statement(const Function& function, const Statement& s) {
        using Kind = Statement::Kind;
        const auto e = [&](std::size_t i) { return expression(s.expressions[i]); };
        const std::string target = s.targets.empty() ? "" : variable_name(s.targets[0]) + " = ";
        switch (s.kind) {
            case Kind::assign:
                return line(target + e(0) + ";");
            case Kind::store:
                return line("a" + std::to_string(s.index) + "[" + e(0) + " & " +
                            hexadecimal(array_length - 1) + "] = " + e(1) + ";");
            case Kind::branch:
                return two_ways(function, s, e(0));
            case Kind::lane_branch:
                return two_ways(function, s, "(" + hexadecimal(s.mask) + " >> v1 & 1u) != 0");
            case Kind::warp_branch:
                return two_ways(function, s, "(" + hexadecimal(s.mask) + " >> v2 & 1u) != 0");
            case Kind::loop: {
                const std::string counter = variable_name(s.targets[0]);
                open("");
                line("const u32 n = " + e(0) + " & 7u;");
                if (!s.unrolled) line("#pragma unroll 1");
                block(function, s.bodies[0],
                      "for (" + counter + " = 0; " + counter + " < n; ++" + counter + ")");
                return close();
            }
            case Kind::choice:
                open("switch (" + e(0) + " & 3u)");
                for (std::size_t i = 0; i < 4; ++i) {
                    open("case " + std::to_string(i) + ":");
                    body(function, s.bodies[i]);
                    if ((s.mask >> i & 1) == 0) line("break;");
                    close();
                }
                return close();
            case Kind::leave:
                return line("if (" + e(0) + (s.index == 1 ? ") continue;" : ") break;"));
            case Kind::finish:
                return line(s.expressions.empty() ? "return;" : "return " + e(0) + ";");
            case Kind::load_vector:
                return load_vector(function, s);
            case Kind::accumulate:
                return accumulate(s, e(0), e(1));
            case Kind::own_atomic: {
                const OwnAtomic& atomic = own_atomics()[static_cast<std::size_t>(s.index)];
                const std::string at = "(" + std::string(name_of(atomic.type)) + "*)(own + at * " +
                                       std::to_string(own_bytes) + "u + " +
                                       std::to_string(atomic.offset) + ")";
                const std::string more = std::string(atomic.function) == "atomicCAS" ? e(1) : "";
                return line(target + atomic.function + "(" + at + ", " + e(0) +
                            (more.empty() ? "" : ", " + more) + ");");
            }
            default:
                return together(s);
        }
    }

    void load_vector(const Function& function, const Statement& s) {
        const Type type = function.variables[static_cast<std::size_t>(s.targets[0])].type;
        const std::string vector = vector_name(type, s.targets.size());
        const u32 count = input_bytes / static_cast<u32>(bytes_of(type) * s.targets.size());
        open("");
        line("const " + vector + " q = ((const " + vector + "*)in)[" +
             expression(s.expressions[0]) + " & " + hexadecimal(count - 1) + "];");
        for (std::size_t i = 0; i < s.targets.size(); ++i) {
            line(variable_name(s.targets[i]) + " = q." + "xyzw"[i] + ";");
        }
        close();
    }

    void accumulate(const Statement& s, const std::string& slot, const std::string& value) {
        const Accumulator& a = accumulators()[static_cast<std::size_t>(s.index)];
        const std::string type = name_of(a.type);
        const std::string at = "(" + type + "*)(acc + " +
                               std::to_string(static_cast<u32>(s.index) * accumulator_bytes) +
                               ") + (" + slot + " & " + hexadecimal(accumulator_slots - 1) + ")";
        const std::string converted = "(" + type + ")(" + value + ")";
        if (*a.function != '\0') {
            return line(std::string(a.function) + "(" + at + ", " + converted + ");");
        }
        open("");
        line(type + "* p = " + at + ";");
        line("const " + type + " x = " + converted + ";");
        line(type + " seen = atomicAdd(p, 0u), was;");
        line("do {");
        line("    was = seen;");
        line("    seen = atomicCAS(p, was, was + x);");
        line("} while (seen != was);");
        close();
    }

    /// What the lanes of a warp or the threads of a block do together.
    void together(const Statement& s) {
        using Kind = Statement::Kind;
        const auto e = [&](std::size_t i) { return expression(s.expressions[i]); };
        const std::string target = s.targets.empty() ? "" : variable_name(s.targets[0]) + " = ";
        const std::string mask = hexadecimal(s.mask);
        switch (s.kind) {
            case Kind::shuffle: {
                constexpr const char* names[] = {"", "_up", "_down", "_xor"};
                const u32 limit =
                    static_cast<ShuffleKind>(s.index) == ShuffleKind::exclusive ? s.width - 1 : 31;
                return line(target + "__shfl" + names[s.index] + "_sync(" + mask + ", " + e(0) +
                            ", " + e(1) + " & " + hexadecimal(limit) + ", " +
                            std::to_string(s.width) + ");");
            }
            case Kind::vote: {
                constexpr const char* names[] = {"any", "all", "ballot"};
                return line(target + "(u32)__" + names[s.index] + "_sync(" + mask + ", " + e(0) +
                            ");");
            }
            case Kind::match:
                if (s.index == 0) {
                    return line(target + "__match_any_sync(" + mask + ", " + e(0) + ");");
                }
                open("");
                line("int p;");
                line(target + "__match_all_sync(" + mask + ", " + e(0) + ", &p);");
                line(variable_name(s.targets[0]) + " += (u32)(p != 0);");
                return close();
            case Kind::reduce: {
                constexpr const char* names[] = {"add", "min", "max", "and", "or", "xor"};
                return line(target + "__reduce_" + names[s.index] + "_sync(" + mask + ", " + e(0) +
                            ");");
            }
            // Every thread has 8 bytes of its own, so that what lanes apart exchange is apart.
            case Kind::exchange: {
                const std::string type = name_of(s.expressions[0].type);
                line("*(" + type + "*)(shared + v0) = " + e(0) + ";");
                line("__syncthreads();");
                line(target + "*(" + type + "*)(shared + (" + e(1) + ") % " +
                     std::to_string(program_.threads) + "u);");
                return line("__syncthreads();");
            }
            case Kind::warp_exchange: {
                const std::string type = name_of(s.expressions[0].type);
                line("*(" + type + "*)(shared + v0) = " + e(0) + ";");
                line("__syncwarp(" + mask + ");");
                line(target + "*(" + type + "*)(shared + (v0 ^ " + hexadecimal(s.width) + "));");
                return line("__syncwarp(" + mask + ");");
            }
            case Kind::shared_atomic:
                return shared_atomic(s, target);
            case Kind::barrier:
                return line("__syncthreads();");
            default:
                return line("__syncwarp(" + mask + ");");
        }
    }

    void shared_atomic(const Statement& s, const std::string& target) {
        const Accumulator& a = accumulators()[static_cast<std::size_t>(s.index)];
        const std::string type = name_of(a.type);
        const std::string last = hexadecimal(accumulator_slots - 1);
        const auto e = [&](std::size_t i) { return expression(s.expressions[i]); };
        line("__syncthreads();");
        line("for (u32 i = v0; i <= " + last + "; i += blockDim.x) ((" + type +
             "*)shared)[i] = " + literal(a.type, a.initial) + ";");
        line("__syncthreads();");
        line(std::string(a.function) + "((" + type + "*)shared + (" + e(0) + " & " + last + "), (" +
             type + ")(" + e(1) + "));");
        line("__syncthreads();");
        line(target + "((" + type + "*)shared)[" + e(2) + " & " + last + "];");
        line("__syncthreads();");
    }

    const Program& program_;
    std::string text_, helpers_;
    std::set<std::string> used_;
    std::size_t depth_ = 0;
};

}  // namespace

std::string vector_name(Type type, std::size_t elements) {
    static const char* const names[type_count] = {"",    "char",  "uchar",    "short",     "ushort",
                                                  "int", "uint",  "longlong", "ulonglong", "",
                                                  "",    "float", "double"};
    const std::string name = names[static_cast<int>(type)];
    if (elements == 1) return name_of(type);
    // Vectors of four 64-bit elements have two alignments, hence two names.
    if (name.empty() || elements * bytes_of(type) > 16) return "";
    return name + std::to_string(elements);
}

std::string print(const Program& program) {
    return Printer(program).print();
}

}  // namespace kernelforge::fuzz
