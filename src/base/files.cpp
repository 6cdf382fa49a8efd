// SPDX-License-Identifier: Apache-2.0
#include "base/files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "kernelforge/error.hpp"

namespace kernelforge {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int cause) {
    throw Error(cause == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                std::string("cannot ") + action + " " + path.string() + ": " +
                    std::generic_category().message(cause));
}

class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const noexcept { return value_; }

  private:
    int value_;
};

/// 0, or the errno of the write that failed.
int write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
        if (n < 0) {
            if (errno == EINTR) continue;
            return errno;
        }
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return 0;
}

void sync_folder(const std::filesystem::path& folder) {
    const Descriptor handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Some file systems refuse fsync on a folder; the rename itself has succeeded by then.
    if (handle.get() >= 0) ::fsync(handle.get());
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t max_bytes) {
    // Not blocking: a pipe that nobody writes to must not stop the program.
    const Descriptor handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (handle.get() < 0) fail("open", path, errno);
    struct stat facts {};
    if (::fstat(handle.get(), &facts) != 0) fail("read", path, errno);
    if (!S_ISREG(facts.st_mode)) {
        throw Error(ErrorCode::io, "cannot read " + path.string() + ": expected a regular file");
    }
    std::string bytes;
    char buffer[65536];
    for (;;) {
        const ssize_t n = ::read(handle.get(), buffer, sizeof buffer);
        if (n < 0) {
            if (errno == EINTR) continue;
            fail("read", path, errno);
        }
        if (n == 0) return bytes;
        bytes.append(buffer, static_cast<std::size_t>(n));
        if (bytes.size() > max_bytes) {
            throw Error(ErrorCode::parse, path.string() + ": expected at most " +
                                              std::to_string(max_bytes) + " bytes, found more");
        }
    }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
    // A random name: one that a killed process left behind must not stand in the way for ever.
    std::string temporary = path.string() + ".tmpXXXXXX";
    int cause = 0;
    {
        const Descriptor handle(::mkostemp(temporary.data(), O_CLOEXEC));
        if (handle.get() < 0) fail("create", path.string() + ".tmp", errno);
        ::fchmod(handle.get(), 0644);
        cause = write_all(handle.get(), bytes);
        if (cause == 0 && ::fsync(handle.get()) != 0) cause = errno;
    }
    if (cause == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) cause = errno;
    if (cause != 0) {
        ::unlink(temporary.c_str());
        fail("write", path, cause);
    }
    sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

void make_folder(const std::filesystem::path& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error || !std::filesystem::is_directory(path, error)) {
        throw Error(ErrorCode::io, "cannot create folder " + path.string() + ": " +
                                       (error ? error.message() : "something else has that name"));
    }
}

AppendFile::AppendFile(const std::filesystem::path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail("open", path, errno);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
        const int cause = errno;
        ::close(std::exchange(descriptor_, -1));
        throw Error(ErrorCode::io,
                    "cannot lock " + path.string() + ": " +
                        (cause == EWOULDBLOCK ? std::string("another process is writing it")
                                              : std::generic_category().message(cause)));
    }
    off_t end = ::lseek(descriptor_, 0, SEEK_END);
    off_t keep = end;
    char c = 0;
    while (keep > 0 && ::pread(descriptor_, &c, 1, keep - 1) == 1 && c != '\n') --keep;
    if (keep != end) {
        was_torn_ = true;
        if (::ftruncate(descriptor_, keep) != 0) {
            const int cause = errno;
            ::close(std::exchange(descriptor_, -1));
            fail("truncate", path, cause);
        }
    }
    ::lseek(descriptor_, keep, SEEK_SET);
}

AppendFile::~AppendFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      was_torn_(other.was_torn_) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(was_torn_, other.was_torn_);
    return *this;
}

void AppendFile::append(std::string_view line) {
    const off_t start = ::lseek(descriptor_, 0, SEEK_CUR);
    std::string text(line);
    text += '\n';
    int cause = write_all(descriptor_, text);
    if (cause == 0 && ::fdatasync(descriptor_) != 0) cause = errno;
    if (cause == 0) return;
    // Best effort: a torn line that cannot be cut off now is cut off by the next open.
    if (::ftruncate(descriptor_, start) == 0) ::lseek(descriptor_, start, SEEK_SET);
    fail("append to", path_, cause);
}

TemporaryFolder::TemporaryFolder() {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    if (error) throw Error(ErrorCode::io, "no folder for temporary files: " + error.message());
    std::string name = (parent / "kernelforge-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("create folder", name, errno);
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace kernelforge
