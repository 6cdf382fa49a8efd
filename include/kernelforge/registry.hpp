// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/export.hpp"
#include "kernelforge/plugin.hpp"

namespace kernelforge {

/// One thing that a registry can make.
struct RegistryEntry {
    std::string interface;  ///< "compiler", "evaluator", "collector", "profiler_tool",
                            ///< "llm_backend", "search_strategy", "comparator"
    std::string name;
    std::string summary;
    std::string plugin;   ///< name of the plugin that brings it
    std::string version;  ///< of that plugin
    std::string path;     ///< of its file; empty when linked in
};

/// The plugins of one host. Not thread-safe while plugins are added; `make` may then be called from
/// any thread. Loaded libraries stay mapped until the process ends, so objects may outlive it.
class KERNELFORGE_EXPORT Registry {
  public:
    Registry();
    ~Registry();
    Registry(Registry&&) noexcept;
    Registry& operator=(Registry&&) noexcept;

    /// Adds a plugin that is linked in. `descriptor` must stay valid as long as the process lives.
    /// @throws Error plugin (epoch, stamp, a name that is taken)
    void add(const PluginDescriptor& descriptor);

    /// Loads a plugin from a shared library. On failure nothing of it is added.
    /// @throws Error plugin, with path and cause; not_found
    void load(const std::string& path);

    /// Loads every `*.so` in a folder, in order of name. What is refused does not stop the others.
    /// @returns one sentence for each file that was refused
    /// @throws Error not_found (no such folder)
    std::vector<std::string> load_folder(const std::string& folder);

    /// What can be made, in order of interface and name.
    [[nodiscard]] std::vector<RegistryEntry> entries() const;

    /// Makes an implementation by name. `I` is one of the seven interfaces.
    /// @throws Error not_found (the message lists what there is), and what the factory throws, with
    ///         the plugin's name in front
    template <class I>
    [[nodiscard]] std::unique_ptr<I> make(std::string_view name, std::string_view options = "{}",
                                          const PluginContext& context = {}) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

extern template std::unique_ptr<Compiler> Registry::make(std::string_view, std::string_view,
                                                         const PluginContext&) const;
extern template std::unique_ptr<Evaluator> Registry::make(std::string_view, std::string_view,
                                                          const PluginContext&) const;
extern template std::unique_ptr<Collector> Registry::make(std::string_view, std::string_view,
                                                          const PluginContext&) const;
extern template std::unique_ptr<ProfilerTool> Registry::make(std::string_view, std::string_view,
                                                             const PluginContext&) const;
extern template std::unique_ptr<LlmBackend> Registry::make(std::string_view, std::string_view,
                                                           const PluginContext&) const;
extern template std::unique_ptr<SearchStrategy> Registry::make(std::string_view, std::string_view,
                                                               const PluginContext&) const;
extern template std::unique_ptr<Comparator> Registry::make(std::string_view, std::string_view,
                                                           const PluginContext&) const;

}  // namespace kernelforge
