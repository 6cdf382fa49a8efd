// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/json_text.hpp"
#include "kernelforge/error.hpp"
#include "wire/channel.hpp"
#include "wire/codec.hpp"
#include "worker/compile_job.hpp"
#include "worker/compile_keeper.hpp"
#include "worker/nvrtc_library.hpp"
#include "worker/roles.hpp"

// The role `compile`: takes requests, keeps one process (keeper) per include block in use, and
// hands each request to the keeper whose precompiled header fits. This process runs no candidate's
// text through NVRTC and has one thread, so that it can fork at any time.

namespace kernelforge::compile {
namespace {

using Clock = std::chrono::steady_clock;
/// Time in which a header must be precompiled. CuTe needs about 10 s.
constexpr std::chrono::seconds precompile_limit{120};
constexpr std::chrono::seconds message_limit{60};

struct Job {
    std::uint64_t id = 0;
    std::string request;  ///< JSON
    std::string include_block;
    std::string headers;               ///< changes when a header of the block does
    std::vector<std::string> options;  ///< of the front end
    int attempts = 0;
};

struct Process {
    std::string key;  ///< empty: makes no precompiled header
    pid_t pid = -1;
    int socket = -1;
    std::unique_ptr<wire::Channel> channel;
    bool ready = false;
    Clock::time_point start;
    Clock::time_point last_use;
    std::map<std::uint64_t, Job> jobs;  ///< handed over, not answered
};

class Role {
  public:
    Role(int socket, wire::Channel& host, RoleSettings settings, const NvrtcLibrary& nvrtc)
        : socket_(socket), host_(host), settings_(std::move(settings)), nvrtc_(nvrtc) {
        const unsigned processors = std::max(1U, std::thread::hardware_concurrency());
        parallel_ =
            settings_.parallel > 0 ? static_cast<std::size_t>(settings_.parallel) : processors;
    }

    int serve() {
        while (true) {
            std::vector<pollfd> polls = {{socket_, POLLIN, 0}};
            for (const Process& process : processes_) polls.push_back({process.socket, POLLIN, 0});
            ::poll(polls.data(), polls.size(), any_starting() ? 200 : -1);
            std::size_t i = 1;
            for (auto process = processes_.begin(); process != processes_.end();) {
                const bool readable = i < polls.size() && polls[i].revents != 0;
                ++i;
                const bool late =
                    !process->ready && Clock::now() - process->start > precompile_limit;
                if ((readable && !take_answer(*process)) || late) {
                    bury(*process);
                    process = processes_.erase(process);
                } else {
                    ++process;
                }
            }
            if (polls[0].revents != 0 && !take_request()) return 0;
            hand_over();
        }
    }

  private:
    [[nodiscard]] bool any_starting() const {
        return std::any_of(processes_.begin(), processes_.end(),
                           [](const Process& process) { return !process.ready; });
    }

    bool take_request() {
        auto received = host_.receive(Clock::now() + message_limit);
        if (received.outcome != wire::Channel::Outcome::message) return false;
        const JsonDocument document(std::move(received.message), "compile worker");
        const std::string type = document.root().at("type").as_string();
        const JsonNode body = document.root().at("body");
        const auto id = static_cast<std::uint64_t>(body.at("id").as_integer());
        if (type == "cancel") {
            cancel(id);
            return true;
        }
        Job job;
        job.id = id;
        job.request = dump_json(body.at("request").json());
        job.headers = body.at("headers").as_string();
        try {
            CheckOutcome outcome = check_request(wire::decode<CompileRequest>(body.at("request")),
                                                 settings_.root_names);
            if (outcome.refusal) {
                answer(id, *outcome.refusal);
                return true;
            }
            job.include_block = std::move(outcome.checked.assembled.include_block);
            job.options = front_end_options(outcome.checked.request, settings_.include_folders);
        } catch (const Error& error) {
            host_.send(wire::message("failure", Json{{"id", id}, {"message", error.what()}}));
            return true;
        }
        queue_.push_back(std::move(job));
        return true;
    }

    void answer(std::uint64_t id, const CompileResult& result) {
        host_.send(wire::message("result", Json{{"id", id}, {"result", wire::encode(result)}}));
    }

    void answer_crash(std::uint64_t id) {
        CompileResult result;
        result.status = CompileStatus::crashed;
        result.message = "the process that compiled ended unexpectedly";
        answer(id, result);
    }

    void cancel(std::uint64_t id) {
        std::erase_if(queue_, [id](const Job& job) { return job.id == id; });
        for (Process& process : processes_) {
            if (process.jobs.count(id) == 0) continue;
            send(process, keeper_message(KeeperMessage::cancel, id));
        }
    }

    /// A keeper that has gone is noticed by its socket; what it was given is in `jobs`.
    static void send(Process& process, const std::string& message) {
        try {
            process.channel->send(message);
        } catch (const Error&) {
            ::shutdown(process.socket, SHUT_RDWR);
        }
    }

    bool take_answer(Process& process) {
        try {
            const auto received = process.channel->receive(Clock::now() + message_limit);
            if (received.outcome != wire::Channel::Outcome::message) return false;
            const ParsedKeeperMessage message = parse_keeper_message(received.message);
            process.last_use = Clock::now();
            if (message.kind == KeeperMessage::ready) {
                process.ready = true;
            } else if (process.jobs.erase(message.id) != 0) {
                host_.send(message.text);
            }
            return true;
        } catch (const Error&) {
            return false;
        }
    }

    /// After the end of a keeper: its jobs are tried once more, without a precompiled header.
    void bury(Process& process) {
        ::kill(process.pid, SIGKILL);
        while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        ::close(process.socket);
        if (!process.key.empty()) banned_.insert(process.key);
        for (auto& [id, job] : process.jobs) {
            if (++job.attempts < 2) {
                queue_.push_back(std::move(job));
            } else {
                answer_crash(id);
            }
        }
    }

    void hand_over() {
        std::size_t running = 0;
        for (const Process& process : processes_) running += process.jobs.size();
        while (running < parallel_ && !queue_.empty()) {
            Job job = std::move(queue_.front());
            queue_.pop_front();
            Process* process = process_for(job);
            if (process == nullptr || !write_request(job)) {
                answer_crash(job.id);
                continue;
            }
            process->last_use = Clock::now();
            const std::string message = keeper_message(KeeperMessage::compile, job.id);
            process->jobs.emplace(job.id, std::move(job));
            send(*process, message);
            ++running;
        }
    }

    [[nodiscard]] bool write_request(const Job& job) const {
        std::ofstream file(request_path(settings_, job.id), std::ios::binary | std::ios::trunc);
        file.write(job.request.data(), static_cast<std::streamsize>(job.request.size()));
        return static_cast<bool>(file.flush());
    }

    Process* process_for(const Job& job) {
        std::string key;
        if (!job.include_block.empty() && settings_.precompiled_headers > 0 && job.attempts == 0) {
            key = job.include_block + job.headers + "\n";
            for (const std::string& option : job.options) key += option + "\n";
            if (banned_.count(key) != 0) key.clear();
        }
        if (Process* found = find(key)) return found;
        if (!key.empty() && !make_room()) key.clear();
        if (Process* found = find(key)) return found;
        return start(key, job);
    }

    Process* find(const std::string& key) {
        for (Process& process : processes_) {
            if (process.key == key) return &process;
        }
        return nullptr;
    }

    /// Ends the precompiled header that was idle longest when there are too many. False: all are
    /// busy.
    bool make_room() {
        std::size_t count = 0;
        auto oldest = processes_.end();
        for (auto process = processes_.begin(); process != processes_.end(); ++process) {
            if (process->key.empty()) continue;
            ++count;
            const bool idle = process->jobs.empty() && process->ready;
            if (idle && (oldest == processes_.end() || process->last_use < oldest->last_use)) {
                oldest = process;
            }
        }
        if (count < static_cast<std::size_t>(settings_.precompiled_headers)) return true;
        if (oldest == processes_.end()) return false;
        ::kill(oldest->pid, SIGKILL);
        while (::waitpid(oldest->pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        ::close(oldest->socket);
        processes_.erase(oldest);
        return true;
    }

    Process* start(const std::string& key, const Job& job) {
        std::array<int, 2> pair{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return nullptr;
        const pid_t role = ::getpid();
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != role) ::_exit(1);
            ::close(socket_);
            ::close(pair[0]);
            for (const Process& other : processes_) ::close(other.socket);
            int code = 1;
            try {
                code = run_keeper(pair[1], settings_, nvrtc_, key.empty() ? "" : job.include_block,
                                  job.options);
            } catch (const std::exception&) {
                // The role sees the socket close and goes on without this keeper.
            }
            ::_exit(code);
        }
        ::close(pair[1]);
        if (pid < 0) {
            ::close(pair[0]);
            return nullptr;
        }
        Process process;
        process.key = key;
        process.pid = pid;
        process.socket = pair[0];
        process.channel = std::make_unique<wire::Channel>(pair[0]);
        process.start = process.last_use = Clock::now();
        processes_.push_back(std::move(process));
        return &processes_.back();
    }

    int socket_;
    wire::Channel& host_;
    RoleSettings settings_;
    const NvrtcLibrary& nvrtc_;
    std::size_t parallel_ = 1;
    std::list<Process> processes_;
    std::deque<Job> queue_;
    std::set<std::string> banned_;  // keys whose keeper did not survive
};

RoleSettings read_settings(const JsonNode& body) {
    RoleSettings settings;
    settings.library = body.at("library").as_string();
    const auto strings = [&body](std::string_view key) {
        std::vector<std::string> result;
        const JsonNode list = body.at(key);
        for (std::size_t i = 0; i < list.array_size(); ++i)
            result.push_back(list.at(i).as_string());
        return result;
    };
    settings.include_folders = strings("include_folders");
    settings.root_names = strings("root_names");
    settings.precompiled_headers =
        static_cast<int>(body.at("precompiled_headers").as_integer(0, 64));
    settings.parallel = static_cast<int>(body.at("parallel").as_integer(0, 1024));
    settings.temporary_folder = body.at("temporary_folder").as_string();
    return settings;
}

/// One compile of a fixed text loads what NVRTC loads late, before any fork.
void warm_up(const NvrtcLibrary& nvrtc) {
    CheckOutcome outcome =
        check_request({.source = "__global__ void k() {}\n", .arch = "sm_90"}, {});
    const CompileResult result = compile_here(outcome.checked, nvrtc, {}, {});
    if (result.status == CompileStatus::crashed) {
        throw Error(ErrorCode::unsupported,
                    nvrtc.description + " does not work: " + result.message);
    }
}

}  // namespace
}  // namespace kernelforge::compile

namespace kernelforge::worker {

int run_compile_role(int channel, const std::vector<std::string>& arguments) {
    using compile::Clock;
    ::signal(SIGPIPE, SIG_IGN);
    wire::Channel host(channel);
    auto received = host.receive(Clock::now() + compile::message_limit);
    if (received.outcome != wire::Channel::Outcome::message) return 1;
    try {
        if (!arguments.empty()) {
            throw Error(ErrorCode::invalid_argument,
                        "role compile: unexpected argument " + arguments[0]);
        }
        const JsonDocument document(std::move(received.message), "compile worker");
        if (document.root().at("type").as_string() != "configure") {
            throw Error(ErrorCode::worker_failed, "compile worker: expected the message configure");
        }
        const compile::RoleSettings settings = compile::read_settings(document.root().at("body"));
        // NVRTC makes files of predictable names in this folder, and writes its own place into line
        // tables.
        ::setenv("TMPDIR", settings.temporary_folder.c_str(), 1);
        if (::chdir("/") != 0) throw Error(ErrorCode::io, "compile worker: cannot change to /");
        const compile::NvrtcLibrary nvrtc(settings.library);
        compile::warm_up(nvrtc);
        host.send(wire::message("ready", Json{{"compiler", nvrtc.description}}));
        return compile::Role(channel, host, settings, nvrtc).serve();
    } catch (const Error& error) {
        const char* type = error.code() == ErrorCode::unsupported ? "unsupported" : "failed";
        try {
            host.send(wire::message(type, Json{{"message", error.what()}}));
        } catch (const Error&) {
            // The host has gone; nobody is left to tell.
        }
        return 1;
    }
}

}  // namespace kernelforge::worker
