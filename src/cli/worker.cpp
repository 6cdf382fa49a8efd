// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/context.hpp"
#include "evaluator_folder/serve_folder.hpp"

namespace kernelforge::cli {

Run add_worker(CLI::App& app, Context& context) {
    struct Options {
        std::string folder;
        std::string evaluator = "auto";
        ServeOptions serve;
    };
    const auto options = std::make_shared<Options>();  // shared with the returned function
    app.add_option("--folder", options->folder, "Folder of jobs and results")->required();
    app.add_option("--evaluator", options->evaluator, evaluator_help)->capture_default_str();
    app.add_flag("--watch", options->serve.watch,
                 "Wait for more jobs instead of ending when there are none");
    app.add_option("--max-jobs", options->serve.max_jobs, "End after so many jobs; 0: no limit")
        ->capture_default_str();
    return [&context, options] {
        const ChosenEvaluator chosen = make_evaluator(context, options->evaluator);
        options->serve.on_line = [](const std::string& line) {
            std::fprintf(stderr, "%s\n", line.c_str());
        };
        const auto summary =
            serve_folder(*chosen.evaluator, options->folder, options->serve, stop_on_signal());
        if (context.json) {
            print_json({{"evaluated", summary.evaluated},
                        {"failed", summary.failed},
                        {"evaluator", chosen.name}});
        } else {
            std::printf("%zu jobs evaluated by %s, %zu could not be\n", summary.evaluated,
                        chosen.name.c_str(), summary.failed);
        }
        return exit_done;
    };
}

}  // namespace kernelforge::cli
