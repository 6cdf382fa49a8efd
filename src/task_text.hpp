// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "kernelforge/definition.hpp"

namespace kernelforge {

/// The texts of a task folder and the names that messages give them.
struct TaskText {
    std::string definition;  ///< of `definition.json`
    std::string definition_file;
    std::string workloads;  ///< of `workload.jsonl`
    std::string workloads_file;
};

/// `load_task` without files: `read` gives the text of a file that the definition names; the name
/// is relative and has no `..`. What `read` throws as Error comes out with the position of the
/// name. `Task::folder` and the paths are left as `read` knows them: names, relative to the folder.
/// @throws Error parse, unsupported, not_found
[[nodiscard]] Task parse_task(const TaskText& text,
                              const std::function<std::string(const std::string& name)>& read);

}  // namespace kernelforge
