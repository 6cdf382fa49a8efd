// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>

#include "kernelforge/evaluator.hpp"

namespace kernelforge {

struct ServeOptions {
    bool watch = false;        ///< wait for more jobs instead of ending when none is open
    std::size_t max_jobs = 0;  ///< end after so many; 0: no limit
    std::chrono::milliseconds poll_interval{1'000};  ///< with `watch`: how often the folder is read
    /// One line for a person on each thing that happens; may be empty. Called on the calling
    /// thread.
    std::function<void(const std::string&)> on_line;
};

/// What a visit did.
struct ServeSummary {
    std::size_t evaluated = 0;  ///< jobs with a verdict or a profile, negative verdicts included
    std::size_t failed = 0;     ///< jobs whose result says why they could not be done
    std::size_t skipped = 0;    ///< open jobs that were left: claimed elsewhere, or unreadable
};

/// Does the jobs of a folder with `evaluator`: writes devices.json, then takes open jobs, oldest
/// first, and writes a result for each (docs/folder_evaluator.md). A malformed job, or one at which
/// the evaluator throws, gets a result that says so. Several workers may serve one folder. Returns
/// when no job is open (unless `watch`), after `max_jobs`, or on a stop, within a second plus what
/// the evaluator needs to stop; the job at hand is then left open.
/// @throws Error not_found (no such folder), device_unavailable (nothing to run on; also when the
/// device
///         is lost on the way), io (full disk, …; nothing is half-written and the job stays open),
///         parse and unsupported (folder.json of another version)
ServeSummary serve_folder(Evaluator& evaluator, const std::string& folder,
                          const ServeOptions& options, std::stop_token stop);

}  // namespace kernelforge
