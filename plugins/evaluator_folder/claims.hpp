// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace kernelforge::folder {

/// Which worker does which job: one file a claimed job, made by an exclusive rename, so that of two
/// workers one gets the job. A claim of a process of this machine that has ended is taken over; one
/// of another machine never, because nobody here can know whether that worker lives.
class Claims {
  public:
    explicit Claims(std::filesystem::path folder);

    struct Attempt {
        bool taken = false;
        int attempt = 1;         ///< of this job: 2 when one worker died while it did it, and so on
        std::string holder;      ///< when not taken: "process 12 on HOST"
        bool elsewhere = false;  ///< the holder is on another machine
    };
    /// @throws Error io
    [[nodiscard]] Attempt take(const std::string& id) const;
    /// Gives a claim of ours up. Never throws.
    void release(const std::string& id) const noexcept;

  private:
    [[nodiscard]] bool create(const std::string& id, int attempt) const;
    [[nodiscard]] Attempt take_over(const std::string& id) const;
    [[nodiscard]] std::string text(int attempt) const;

    std::filesystem::path folder_;
    std::string started_;  ///< when this process started, as the kernel counts
    std::string place_;    ///< device and inode of the folder: a copy's claims mean nothing
};

}  // namespace kernelforge::folder
