// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/context.hpp"
#include "cli/table.hpp"

namespace kernelforge::cli {

Run add_plugins(CLI::App&, Context& context) {
    return [&context] {
        const auto entries = context.registry.entries();
        if (context.json) {
            Json list = Json::array();
            for (const RegistryEntry& entry : entries) {
                list.push_back({{"interface", entry.interface},
                                {"name", entry.name},
                                {"summary", entry.summary},
                                {"plugin", entry.plugin},
                                {"version", entry.version},
                                {"path", entry.path}});
            }
            print_json({{"plugins", list}});
            return exit_done;
        }
        std::size_t width = 0;
        for (const RegistryEntry& entry : entries) width = std::max(width, entry.interface.size());
        for (const RegistryEntry& entry : entries) {
            std::printf("%-*s  %-10s  %s%s%s\n", static_cast<int>(width), entry.interface.c_str(),
                        entry.name.c_str(), entry.summary.c_str(),
                        entry.path.empty() ? "" : "  from ", entry.path.c_str());
        }
        return exit_done;
    };
}

}  // namespace kernelforge::cli
