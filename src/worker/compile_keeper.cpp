// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_keeper.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <optional>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "kernelforge/error.hpp"
#include "wire/channel.hpp"
#include "wire/codec.hpp"
#include "worker/compile_job.hpp"
#include "worker/nvrtc_library.hpp"

namespace kernelforge::compile {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int poll_slice_ms = 20;
/// What a child may write to one file: NVRTC maps its heap for precompiled headers from a file.
constexpr rlim_t max_file_bytes = rlim_t{2} << 30;
constexpr std::uint64_t address_space_reserve = std::uint64_t{1} << 30;
constexpr std::size_t max_answer_bytes = wire::max_message_bytes / 2;

/// Third (VmSize) or second (VmRSS) number of /proc/PID/statm, in bytes; 0 when it cannot be read.
enum class Memory { total, resident };
std::uint64_t process_memory(pid_t pid, Memory which) {
    const std::string path = "/proc/" + std::to_string(pid) + "/statm";
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return 0;
    unsigned long long total = 0;
    unsigned long long resident = 0;
    const int count = std::fscanf(file, "%llu %llu", &total, &resident);
    std::fclose(file);
    if (count != 2) return 0;
    return (which == Memory::total ? total : resident) *
           static_cast<std::uint64_t>(::getpagesize());
}

void limit(__rlimit_resource_t what, rlim_t soft, rlim_t hard) {
    rlimit current{};
    if (::getrlimit(what, &current) != 0) return;
    const rlimit wanted{std::min(soft, current.rlim_max), std::min(hard, current.rlim_max)};
    ::setrlimit(what, &wanted);
}

/// Lets this process read below `readable` and write below `writable` only. A second line of
/// defence behind the check of the source: kernels without Landlock go without it.
void restrict_files(const std::vector<std::string>& readable, const std::string& writable) {
    constexpr std::uint64_t read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    constexpr std::uint64_t write = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                                    LANDLOCK_ACCESS_FS_REMOVE_FILE;
    landlock_ruleset_attr attributes{};
    attributes.handled_access_fs = read | write | LANDLOCK_ACCESS_FS_EXECUTE;
    const long ruleset = ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
    if (ruleset < 0) return;
    const auto allow = [ruleset](const std::string& folder, std::uint64_t access) {
        landlock_path_beneath_attr rule{};
        rule.allowed_access = access;
        rule.parent_fd = ::open(folder.c_str(), O_PATH | O_CLOEXEC);
        if (rule.parent_fd < 0) return;
        ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        ::close(rule.parent_fd);
    };
    for (const std::string& folder : readable) allow(folder, read);
    allow(writable, read | write);
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::syscall(SYS_landlock_restrict_self, ruleset, 0);
    ::close(static_cast<int>(ruleset));
}

void write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(descriptor, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

struct Child {
    std::uint64_t id = 0;
    pid_t pid = -1;
    int pipe = -1;
    std::string answer;
    Clock::time_point start;
    std::chrono::milliseconds time_limit{0};
    std::uint64_t memory_limit = 0;
    std::uint64_t base_memory = 0;  ///< resident in the keeper
    std::uint64_t peak_memory = 0;
    std::string arch;
    /// Why it was killed, when it was.
    std::optional<CompileStatus> killed;
};

class Keeper {
  public:
    Keeper(int socket, const RoleSettings& settings, const NvrtcLibrary& nvrtc)
        : socket_(socket), channel_(socket), settings_(settings), nvrtc_(nvrtc) {}

    /// The file is unlinked at once; children read it through the descriptor, which they inherit.
    void make_precompiled(const std::string& include_block,
                          const std::vector<std::string>& options) {
        const std::string path =
            settings_.temporary_folder + "/" + std::to_string(::getpid()) + ".pch";
        bool made = false;
        try {
            made = precompile_headers(include_block, options, nvrtc_, path);
        } catch (const Error&) {
            // Without it every compile reads the headers itself; nothing else changes.
        }
        if (made) precompiled_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        ::unlink(path.c_str());
    }

    int serve() {
        channel_.send(keeper_message(KeeperMessage::ready, 0));
        while (true) {
            std::vector<pollfd> polls = {{socket_, POLLIN, 0}};
            for (const Child& child : children_) polls.push_back({child.pipe, POLLIN, 0});
            ::poll(polls.data(), polls.size(), children_.empty() ? -1 : poll_slice_ms);
            if (polls[0].revents != 0 && !take_message()) return 0;
            std::size_t i = 1;
            for (auto child = children_.begin(); child != children_.end() && i < polls.size();
                 ++i) {
                if (polls[i].fd == child->pipe && polls[i].revents != 0 && !read_answer(*child)) {
                    finish(*child);
                    child = children_.erase(child);
                } else {
                    watch(*child);
                    ++child;
                }
            }
        }
    }

  private:
    bool take_message() {
        const auto received = channel_.receive(Clock::now() + std::chrono::seconds(30));
        if (received.outcome != wire::Channel::Outcome::message) return false;
        const ParsedKeeperMessage message = parse_keeper_message(received.message);
        if (message.kind == KeeperMessage::compile) {
            start(message.id);
        } else if (message.kind == KeeperMessage::cancel) {
            for (Child& child : children_) {
                if (child.id == message.id) kill(child, CompileStatus::cancelled);
            }
        }
        return true;
    }

    void start(std::uint64_t id) {
        const std::string path = request_path(settings_, id);
        const JsonDocument document(read_file(path, wire::max_message_bytes), "compile request");
        ::unlink(path.c_str());
        CheckOutcome outcome =
            check_request(wire::decode<CompileRequest>(document.root()), settings_.root_names);
        const CompileRequest& request = outcome.checked.request;
        Child child;
        child.id = id;
        child.arch = request.arch;
        child.time_limit = request.time_limit;
        child.memory_limit = request.memory_limit_bytes;
        child.base_memory = process_memory(::getpid(), Memory::resident);
        child.start = Clock::now();
        std::array<int, 2> pipe{};
        if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
            answer_failure(child, CompileStatus::crashed,
                           "the worker could not start a compile: no pipe");
            return;
        }
        const pid_t keeper = ::getpid();
        child.pid = ::fork();
        if (child.pid == 0) run_child(id, outcome, pipe[1], keeper);
        ::close(pipe[1]);
        if (child.pid < 0) {
            ::close(pipe[0]);
            answer_failure(child, CompileStatus::crashed,
                           "the worker could not start a compile: no process");
            return;
        }
        child.pipe = pipe[0];
        children_.push_back(std::move(child));
    }

    [[noreturn]] void run_child(std::uint64_t id, const CheckOutcome& outcome, int pipe,
                                pid_t keeper) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != keeper) ::_exit(1);
        ::close(socket_);
        for (const Child& other : children_) ::close(other.pipe);
        ::signal(SIGPIPE, SIG_IGN);
        const CompileRequest& request = outcome.checked.request;
        limit(RLIMIT_CORE, 0, 0);
        limit(RLIMIT_FSIZE, max_file_bytes, max_file_bytes);
        const auto seconds = std::chrono::ceil<std::chrono::seconds>(request.time_limit).count();
        // The keeper kills on wall time; this one holds when the keeper is gone or stopped. NVRTC
        // may use several processors at once.
        const rlim_t processor = static_cast<rlim_t>(std::max<long long>(seconds, 1)) * 4 + 2;
        limit(RLIMIT_CPU, processor, processor + 5);
        // The keeper kills by resident memory, so that the cause is known: the compiler aborts when
        // an allocation fails. This one stops what grows between two looks.
        const rlim_t memory = process_memory(::getpid(), Memory::total) +
                              2 * request.memory_limit_bytes + address_space_reserve;
        limit(RLIMIT_AS, memory, memory);
        std::vector<std::string> readable = settings_.include_folders;
        readable.push_back(settings_.library.substr(0, settings_.library.rfind('/')));
        restrict_files(readable, settings_.temporary_folder);
        int code = 0;
        try {
            const std::string header =
                precompiled_ >= 0 ? "/proc/self/fd/" + std::to_string(precompiled_) : "";
            const CompileResult result =
                outcome.refusal
                    ? *outcome.refusal
                    : compile_here(outcome.checked, nvrtc_, settings_.include_folders, header);
            write_all(pipe,
                      wire::message("result", Json{{"id", id}, {"result", wire::encode(result)}}));
        } catch (const std::bad_alloc&) {
            code = 12;
        } catch (const std::exception& error) {
            std::fprintf(stderr, "compile: %s\n", error.what());
            code = 13;
        }
        ::_exit(code);
    }

    /// False at the end of the answer.
    bool read_answer(Child& child) {
        std::array<char, 65536> buffer;
        const ssize_t n = ::read(child.pipe, buffer.data(), buffer.size());
        if (n < 0) return errno == EINTR || errno == EAGAIN;
        if (n == 0) return false;
        child.answer.append(buffer.data(), static_cast<std::size_t>(n));
        if (child.answer.size() > max_answer_bytes) kill(child, CompileStatus::out_of_memory);
        return true;
    }

    static void kill(Child& child, CompileStatus why) {
        if (!child.killed) child.killed = why;
        ::kill(child.pid, SIGKILL);
    }

    static void watch(Child& child) {
        if (Clock::now() - child.start > child.time_limit) {
            kill(child, CompileStatus::timed_out);
            return;
        }
        child.peak_memory =
            std::max(child.peak_memory, process_memory(child.pid, Memory::resident));
        if (child.peak_memory > child.base_memory + child.memory_limit) {
            kill(child, CompileStatus::out_of_memory);
        }
    }

    void finish(Child& child) {
        int status = 0;
        rusage usage{};
        while (::wait4(child.pid, &status, 0, &usage) < 0 && errno == EINTR) {
        }
        ::close(child.pipe);
        const std::uint64_t peak =
            std::max(child.peak_memory, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
        if (child.killed) {
            answer_failure(child, *child.killed, sentence(child, *child.killed));
        } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !child.answer.empty()) {
            channel_.send(keeper_message(KeeperMessage::result, child.id, child.answer));
        } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
            answer_failure(child, CompileStatus::timed_out,
                           sentence(child, CompileStatus::timed_out));
        } else if ((WIFEXITED(status) && WEXITSTATUS(status) == 12) ||
                   peak > child.base_memory + child.memory_limit / 2 || killed_by_system(status)) {
            // A failed allocation makes the compiler abort; with this much in use that is the
            // cause.
            answer_failure(child, CompileStatus::out_of_memory,
                           sentence(child, CompileStatus::out_of_memory));
        } else {
            std::string how = "exit code " + std::to_string(WEXITSTATUS(status));
            if (WIFSIGNALED(status)) {
                how = std::string("signal ") + std::to_string(WTERMSIG(status)) + " (" +
                      ::strsignal(WTERMSIG(status)) + ")";
            }
            answer_failure(child, CompileStatus::crashed, "the compiler crashed: " + how);
        }
    }

    static bool killed_by_system(int status) {
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }

    static std::string sentence(const Child& child, CompileStatus status) {
        if (status == CompileStatus::timed_out) {
            return "the compile took longer than " + std::to_string(child.time_limit.count()) +
                   " ms";
        }
        if (status == CompileStatus::out_of_memory) {
            return "the compile needed more than " + std::to_string(child.memory_limit >> 20) +
                   " MiB of memory";
        }
        return "the compile was cancelled";
    }

    void answer_failure(const Child& child, CompileStatus status, std::string sentence) {
        CompileResult result;
        result.status = status;
        result.message = std::move(sentence);
        result.arch = child.arch;
        result.compiler = nvrtc_.description;
        result.time = Clock::now() - child.start;
        channel_.send(keeper_message(
            KeeperMessage::result, child.id,
            wire::message("result", Json{{"id", child.id}, {"result", wire::encode(result)}})));
    }

    int socket_;
    wire::Channel channel_;
    const RoleSettings& settings_;
    const NvrtcLibrary& nvrtc_;
    int precompiled_ = -1;
    std::list<Child> children_;
};

}  // namespace

std::string request_path(const RoleSettings& settings, std::uint64_t id) {
    return settings.temporary_folder + "/" + std::to_string(id) + ".request";
}

std::string keeper_message(KeeperMessage kind, std::uint64_t id, std::string_view text) {
    std::array<char, 18> head{};
    std::snprintf(head.data(), head.size(), "%c%016llx", static_cast<char>(kind),
                  static_cast<unsigned long long>(id));
    return std::string(head.data(), 17).append(text);
}

ParsedKeeperMessage parse_keeper_message(std::string_view message) {
    ParsedKeeperMessage result;
    if (message.size() < 17)
        throw Error(ErrorCode::worker_failed, "compile keeper: message cut off");
    result.kind = static_cast<KeeperMessage>(message.front());
    const auto [end, cause] =
        std::from_chars(message.data() + 1, message.data() + 17, result.id, 16);
    if (cause != std::errc{} || end != message.data() + 17) {
        throw Error(ErrorCode::worker_failed, "compile keeper: malformed message");
    }
    result.text = message.substr(17);
    return result;
}

int run_keeper(int socket, const RoleSettings& settings, const NvrtcLibrary& nvrtc,
               const std::string& include_block,
               const std::vector<std::string>& front_end_options) {
    Keeper keeper(socket, settings, nvrtc);
    if (!include_block.empty()) keeper.make_precompiled(include_block, front_end_options);
    return keeper.serve();
}

}  // namespace kernelforge::compile
