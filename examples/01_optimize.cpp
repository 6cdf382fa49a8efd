// SPDX-License-Identifier: Apache-2.0
// Searches for a faster kernel with a model behind an OpenAI-compatible server on this machine.
// README: begin
#include <iostream>
#include <kernelforge/forge.hpp>
#include <kernelforge/registry.hpp>

using namespace kernelforge;

int main() try {
    Registry registry;
    registry.load_folder(KERNELFORGE_PLUGIN_FOLDER);
    ForgeParts parts;
    parts.compiler = registry.make<Compiler>("nvrtc");
    parts.evaluator = registry.make<Evaluator>("cuda");
    parts.llm = registry.make<LlmBackend>(
        "openai", R"({"base_url": "http://localhost:8000/v1", "model": "any"})");
    parts.strategy = registry.make<SearchStrategy>("greedy");
    Forge forge(std::move(parts), {.run_folder = "run"});
    std::cout << forge.run(load_task("examples/tasks/add_rmsnorm")).best_path << "\n";
} catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
// README: end
