// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/claims.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "kernelforge/error.hpp"

namespace kernelforge::folder {
namespace {

namespace fs = std::filesystem;

/// A machine, as far as process numbers mean the same thing.
struct Machine {
    std::string host;     ///< its name, for messages
    std::string machine;  ///< its machine-id(5); may be empty
    std::string boot;     ///< this boot of it
    std::string space;    ///< process-number namespace (containers)
    friend bool operator==(const Machine&, const Machine&) = default;
};

struct Holder {
    Machine machine;
    std::int64_t process = 0;
    std::string started;
    std::string place;
    int attempt = 1;
};

std::string trimmed_file(const fs::path& path) {
    std::string text;
    try {
        text = read_file(path, 64 * 1024);
    } catch (const Error&) {
        return {};  // a process that is gone, or a system without this file: unknown
    }
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

Machine this_machine() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    std::error_code error;
    const fs::path space = fs::read_symlink("/proc/self/ns/pid", error);
    return {name.data(), trimmed_file("/etc/machine-id"),
            trimmed_file("/proc/sys/kernel/random/boot_id"), space.string()};
}

/// Field 22 of /proc/PID/stat (proc(5)): clock ticks after boot. Tells a reused process number.
std::string start_of(std::int64_t process) {
    const std::string stat = trimmed_file("/proc/" + std::to_string(process) + "/stat");
    std::size_t at = stat.rfind(')');  // the name before may hold spaces and parentheses
    for (int field = 3; field <= 22 && at != std::string::npos; ++field)
        at = stat.find(' ', at + 1);
    if (at == std::string::npos) return {};
    return stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

std::string place_of(const fs::path& folder) {
    struct stat data {};
    if (::stat(folder.c_str(), &data) != 0) return {};
    return std::to_string(data.st_dev) + ":" + std::to_string(data.st_ino);
}

/// What a claim says; nothing when it is gone or unreadable.
std::optional<Holder> read_claim(const fs::path& file) {
    try {
        const JsonDocument document(read_file(file, 64 * 1024), file.string());
        const JsonNode root = document.root();
        Holder holder;
        holder.machine = {root.at("host").as_string(), root.at("machine").as_string(),
                          root.at("boot").as_string(), root.at("space").as_string()};
        holder.process = root.at("process").as_integer(1, INT32_MAX);
        holder.started = root.at("started").as_string();
        holder.place = root.at("place").as_string();
        holder.attempt = static_cast<int>(root.at("attempt").as_integer(1, 1'000'000));
        return holder;
    } catch (const Error&) {
        return std::nullopt;  // claims are written as one step, so this one is damaged
    }
}

bool lives(const Holder& holder) {
    if (::kill(static_cast<pid_t>(holder.process), 0) != 0 && errno == ESRCH) return false;
    return start_of(holder.process) == holder.started;
}

/// Renames unless `to` exists. @returns 0 or the errno
int rename_exclusively(const fs::path& from, const fs::path& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
    // File systems without that (NFS) have links, which are as exclusive.
    const int error = ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno;
    if (error == 0) ::unlink(from.c_str());
    return error;
}

fs::path temporary_in(const fs::path& folder) {
    static std::atomic<unsigned> counter{0};
    return folder / (".claim" + std::to_string(::getpid()) + "_" + std::to_string(counter++));
}

/// Only one process of this machine at a time judges and replaces claims.
class TakeoverLock {
  public:
    explicit TakeoverLock(const fs::path& file)
        : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
        if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX) != 0) {
            const int error = errno;
            if (descriptor_ >= 0) ::close(descriptor_);
            throw Error(ErrorCode::io, "cannot lock " + file.string() + ": " +
                                           std::generic_category().message(error));
        }
    }
    ~TakeoverLock() { ::close(descriptor_); }
    TakeoverLock(const TakeoverLock&) = delete;
    TakeoverLock& operator=(const TakeoverLock&) = delete;

  private:
    int descriptor_;
};

}  // namespace

Claims::Claims(fs::path folder)
    : folder_(std::move(folder)), started_(start_of(::getpid())), place_(place_of(folder_)) {}

std::string Claims::text(int attempt) const {
    Json json = Json::object();
    const Machine machine = this_machine();
    json["host"] = machine.host;
    json["machine"] = machine.machine;
    json["boot"] = machine.boot;
    json["space"] = machine.space;
    json["process"] = ::getpid();
    json["started"] = started_;
    json["place"] = place_;
    json["attempt"] = attempt;
    return dump_json(json) + "\n";
}

bool Claims::create(const std::string& id, int attempt) const {
    const fs::path temporary = temporary_in(folder_);
    write_file_atomically(temporary, text(attempt));
    const int error = rename_exclusively(temporary, folder_ / id);
    if (error == 0) return true;
    ::unlink(temporary.c_str());
    if (error == EEXIST) return false;
    throw Error(ErrorCode::io, "cannot create " + (folder_ / id).string() + ": " +
                                   std::generic_category().message(error));
}

Claims::Attempt Claims::take(const std::string& id) const {
    std::error_code error;
    if (!fs::exists(folder_ / id, error) && create(id, 1)) return {.taken = true};
    return take_over(id);
}

Claims::Attempt Claims::take_over(const std::string& id) const {
    const TakeoverLock lock(folder_ / "takeover.lock");
    const fs::path file = folder_ / id;
    const auto holder = read_claim(file);
    if (!holder) {
        // Given up in between, or damaged. A damaged one is replaced.
        std::error_code error;
        if (!fs::exists(file, error)) return {.taken = create(id, 1)};
        write_file_atomically(file, text(1));
        return {.taken = true};
    }
    const std::string name =
        "process " + std::to_string(holder->process) + " on " + holder->machine.host;
    const Machine machine = this_machine();
    const bool here = holder->machine == machine;
    // What ran in an earlier boot of this machine has ended.
    const bool earlier_boot = !machine.machine.empty() &&
                              holder->machine.machine == machine.machine &&
                              holder->machine.boot != machine.boot;
    if (!here && !earlier_boot) return {.holder = name, .elsewhere = true};
    if (here && holder->place == place_ && lives(*holder)) return {.holder = name};
    // A copy's claims say nothing about how often this job failed.
    const int attempt = holder->place == place_ ? holder->attempt + 1 : 1;
    write_file_atomically(file, text(attempt));
    return {.taken = true, .attempt = attempt};
}

void Claims::release(const std::string& id) const noexcept {
    ::unlink((folder_ / id).c_str());
}

}  // namespace kernelforge::folder
