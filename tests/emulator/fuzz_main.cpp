// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "fuzz_device.hpp"
#include "fuzz_shrink.hpp"
#include "kernelforge/error.hpp"

// Random kernels, on a device and evaluated here: docs/emulator_machine.md, "Differential fuzzing".

using namespace kernelforge;
using namespace kernelforge::fuzz;

namespace {

using Clock = std::chrono::steady_clock;
constexpr int most_shrink_steps = 400;
constexpr int exit_skipped = 77;  ///< no NVRTC, or no GPU

struct Options {
    u64 seed = 1, first = 0, count = 1;
    double seconds = 1e9;
    std::string arch = "sm_90a";
    std::string folder, planted;
    bool print = false, gpu = false;
};

[[noreturn]] void usage() {
    std::fputs(
        "usage: kernelforge_emulator_fuzz SEED COUNT [--first INDEX] [--seconds S]\n"
        "         [--arch sm_80|sm_90a] [--device emulator|cuda] [--print] [--write FOLDER]\n"
        "         [--plant TEXT]\n",
        stderr);
    std::exit(2);
}

Options read_options(int count, char** words) {
    Options options;
    if (count < 3) usage();
    options.seed = std::strtoull(words[1], nullptr, 10);
    options.count = std::strtoull(words[2], nullptr, 10);
    for (int i = 3; i < count; ++i) {
        const std::string_view word = words[i];
        if (word == "--print") {
            options.print = true;
            continue;
        }
        if (++i == count) usage();
        const std::string value = words[i];
        if (word == "--first") {
            options.first = std::strtoull(value.c_str(), nullptr, 10);
        } else if (word == "--seconds") {
            options.seconds = std::strtod(value.c_str(), nullptr);
        } else if (word == "--arch" && (value == "sm_80" || value == "sm_90a")) {
            options.arch = value;
        } else if (word == "--device" && (value == "emulator" || value == "cuda")) {
            options.gpu = value == "cuda";
        } else if (word == "--write") {
            options.folder = value;
        } else if (word == "--plant") {
            options.planted = value;
        } else {
            usage();
        }
    }
    return options;
}

std::string hexadecimal(u64 value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

/// The first difference of two words in a sentence; NaNs are equal to NaNs.
class Comparison {
  public:
    void word(const std::string& what, Type type, const std::string& expected,
              const std::string& got, std::size_t at) {
        if (!found_.empty()) return;
        u64 a = 0, b = 0;
        std::memcpy(&a, expected.data() + at, bytes_of(type));
        std::memcpy(&b, got.data() + at, bytes_of(type));
        if (a == b || (is_nan(type, a) && is_nan(type, b))) return;
        found_ = what + " (" + name_of(type) + "): expected " + hexadecimal(a) + ", got " +
                 hexadecimal(b);
    }
    [[nodiscard]] const std::string& found() const { return found_; }

  private:
    std::string found_;
};

/// What differs first; empty: nothing.
std::string difference(const Program& program, const Buffers& expected, const Buffers& got) {
    Comparison comparison;
    const u32 threads = program.blocks * program.threads;
    for (u32 thread = 0; thread < threads; ++thread) {
        const std::string who = "thread " + std::to_string(thread % program.threads) +
                                " of block " + std::to_string(thread / program.threads) + ", ";
        for (const Output& output : program.outputs) {
            for (std::size_t i = 0; i < output.variables.size(); ++i) {
                comparison.word(
                    who + "v" + std::to_string(output.variables[i]), output.type, expected.output,
                    got.output,
                    output.offset + (thread * output.variables.size() + i) * bytes_of(output.type));
            }
        }
        for (const OwnWord& one : own_words()) {
            comparison.word(who + "its own word at byte " + std::to_string(one.offset), one.type,
                            expected.own, got.own, thread * own_bytes + one.offset);
        }
    }
    for (std::size_t i = 0; i < accumulators().size(); ++i) {
        const Type type = accumulators()[i].type;
        for (u32 slot = 0; slot < accumulator_slots; ++slot) {
            comparison.word("accumulator " + std::to_string(i) + ", slot " + std::to_string(slot),
                            type, expected.accumulators, got.accumulators,
                            i * accumulator_bytes + slot * bytes_of(type));
        }
    }
    return comparison.found();
}

/// Where kernels run: every way of the emulated device, or the GPU.
class Judge {
  public:
    explicit Judge(const Options& options)
        : arch_(options.gpu ? options.arch : "compute_" + options.arch.substr(3)) {
        if (options.gpu) gpu_.emplace();
    }

    /// What is wrong with a kernel on the device; empty: nothing.
    std::string wrong(const Program& program, const Buffers& expected) {
        std::string image;
        try {
            image = compiler_.compile(program, arch_);
        } catch (const Error& error) {
            return std::string("it does not compile: ") + error.what();
        }
        if (gpu_) return compare(program, expected, gpu_->run(program, image), "on the GPU");
        for (const emulator::Isa isa : {emulator::best_isa(), emulator::Isa::portable}) {
            for (const Checker checker : {Checker::off, Checker::on}) {
                const std::string how =
                    std::string(isa == emulator::Isa::portable ? "portable code" : "AVX2 code") +
                    (checker == Checker::on ? " with the checker" : "");
                const std::string text =
                    compare(program, expected, run_emulated(program, image, isa, checker), how);
                if (!text.empty()) return text;
            }
        }
        return {};
    }

  private:
    static std::string compare(const Program& program, const Buffers& expected, const Ran& ran,
                               const std::string& how) {
        const std::string text = ran.fault.empty() ? difference(program, expected, ran.buffers)
                                                   : "stopped: " + ran.fault;
        return text.empty() ? text : how + ": " + text;
    }

    std::string arch_;
    KernelCompiler compiler_;
    std::optional<Gpu> gpu_;
};

/// Faults of one sort begin alike: a smaller kernel must go wrong as the whole one did.
bool same_sort(const std::string& a, const std::string& b) {
    const auto sort = [](const std::string& text) {
        if (text.starts_with("it does not compile")) return 0;
        return text.find("stopped: ") != std::string::npos ? 1 : 2;
    };
    return !b.empty() && sort(a) == sort(b);
}

void report(const Options& options, u64 index, const Program& program, const std::string& wrong,
            Judge& judge) {
    std::string last = wrong;
    const Program small = shrink(program, most_shrink_steps, [&](const Program& candidate) {
        const std::optional<Buffers> expected = evaluate(candidate);
        if (!expected) return false;
        const std::string text = judge.wrong(candidate, *expected);
        if (!same_sort(wrong, text)) return false;
        last = text;
        return true;
    });
    std::string words;
    for (const std::string& option : small.options) words += " " + option;
    std::printf("%s\n// options:%s; %u blocks of %u threads\n// the whole kernel: %s\n",
                print(small).c_str(), words.c_str(), small.blocks, small.threads, wrong.c_str());
    std::printf("seed %llu, kernel %llu, %s: %s\n", static_cast<unsigned long long>(options.seed),
                static_cast<unsigned long long>(index), options.arch.c_str(), last.c_str());
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary);
    out << bytes;
    if (!out) throw Error(ErrorCode::io, "cannot write " + path.string());
}

/// A folder of the kernel: its source, the launch, and the buffers before and after.
void write_kernel(const std::filesystem::path& folder, const Program& program,
                  const Buffers& expected) {
    std::filesystem::create_directories(folder);
    write_file(folder / "kernel.cu", print(program));
    std::string launch = "fuzz<<<" + std::to_string(program.blocks) + ", " +
                         std::to_string(program.threads) + ", " +
                         std::to_string(program.dynamic_shared ? program.shared_words() * 8 : 0) +
                         ">>>(in, acc, own, out)\n";
    for (const std::string& option : program.options) launch += option + "\n";
    write_file(folder / "launch.txt", launch);
    const Buffers before = initial_buffers(program);
    write_file(folder / "in.bin", program.input);
    write_file(folder / "acc.bin", before.accumulators);
    write_file(folder / "own.bin", before.own);
    write_file(folder / "out.bin", before.output);
    write_file(folder / "acc.expected.bin", expected.accumulators);
    write_file(folder / "own.expected.bin", expected.own);
    write_file(folder / "out.expected.bin", expected.output);
}

int run(const Options& options) {
    Judge judge(options);
    const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
    u64 ran = 0, skipped = 0;
    for (u64 index = options.first; index < options.first + options.count; ++index) {
        if (Clock::now() >= end) break;
        Program program = draw(options.seed, index, options.arch == "sm_90a");
        program.planted = options.planted;
        if (options.print) std::printf("%s\n", print(program).c_str());
        const std::optional<Buffers> expected = evaluate(program);
        if (!expected) {
            ++skipped;
            continue;
        }
        if (!options.folder.empty()) {
            write_kernel(std::filesystem::path(options.folder) /
                             (std::to_string(options.seed) + "_" + std::to_string(index)),
                         program, *expected);
        }
        const std::string wrong = judge.wrong(program, *expected);
        if (!wrong.empty()) {
            report(options, index, program, wrong, judge);
            return 1;
        }
        ++ran;
    }
    std::printf("%llu kernels agree, %llu were too long to be run\n",
                static_cast<unsigned long long>(ran), static_cast<unsigned long long>(skipped));
    return ran > 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
    const Options options = read_options(count, words);
    try {
        return run(options);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        const bool absent =
            error.code() == ErrorCode::unsupported || error.code() == ErrorCode::device_unavailable;
        return absent ? exit_skipped : 1;
    }
}
