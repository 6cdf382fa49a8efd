// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <kernelforge/definition.hpp>
#include <kernelforge/error.hpp>
#include <kernelforge/forge.hpp>
#include <kernelforge/registry.hpp>
#include <kernelforge/version.hpp>

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);
KERNELFORGE_DECLARE_PLUGIN(evaluator_cuda);
KERNELFORGE_DECLARE_PLUGIN(evaluator_folder);
KERNELFORGE_DECLARE_PLUGIN(llm_replay);
KERNELFORGE_DECLARE_PLUGIN(search_greedy);
KERNELFORGE_DECLARE_PLUGIN(my_tools);

using namespace kernelforge;

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    Registry linked;
    for (const PluginDescriptor* plugin :
         {&kernelforge_plugin_compiler_nvrtc, &kernelforge_plugin_evaluator_cuda,
          &kernelforge_plugin_evaluator_folder, &kernelforge_plugin_llm_replay,
          &kernelforge_plugin_search_greedy, &kernelforge_plugin_my_tools}) {
        linked.add(*plugin);
    }
    Registry loaded;
    loaded.load(std::string(argv[1]) + "/libmy_tools.so");
    const bool same = linked.make<ProfilerTool>("registers")->relevance({}) == 0.5 &&
                      loaded.make<ProfilerTool>("registers")->relevance({}) == 0.5;
    (void)linked.make<SearchStrategy>("greedy");
    try {
        (void)load_task("/none/such");
    } catch (const Error& error) {
        std::printf("KernelForge %s, %zu entries, and: %s\n", KERNELFORGE_VERSION,
                    linked.entries().size(), error.what());
        return same ? 0 : 1;
    }
    return 1;
}
