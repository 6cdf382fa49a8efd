// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/registry.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#define BOOST_DLL_USE_STD_FS
#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "kernelforge/error.hpp"

namespace kernelforge {
namespace {

static_assert(offsetof(PluginDescriptor, abi_epoch) == 0);
static_assert(offsetof(PluginDescriptor, build_stamp) == 8);

constexpr const char* entry_symbol = "kernelforge_plugin";

template <class I>
struct Interface;

// One row an interface: its name in messages, and where a descriptor lists its factories.
#define KERNELFORGE_INTERFACE(type, text, member)                    \
    template <>                                                      \
    struct Interface<type> {                                         \
        static constexpr const char* name = text;                    \
        static constexpr auto factories = &PluginDescriptor::member; \
    };
KERNELFORGE_INTERFACE(Compiler, "compiler", compilers)
KERNELFORGE_INTERFACE(Evaluator, "evaluator", evaluators)
KERNELFORGE_INTERFACE(Collector, "collector", collectors)
KERNELFORGE_INTERFACE(ProfilerTool, "profiler_tool", profiler_tools)
KERNELFORGE_INTERFACE(LlmBackend, "llm_backend", llm_backends)
KERNELFORGE_INTERFACE(SearchStrategy, "search_strategy", search_strategies)
KERNELFORGE_INTERFACE(Comparator, "comparator", comparators)
#undef KERNELFORGE_INTERFACE

/// Calls f.template operator()<I>() for each interface.
template <class F>
void for_each_interface(F&& f) {
    f.template operator()<Compiler>();
    f.template operator()<Evaluator>();
    f.template operator()<Collector>();
    f.template operator()<ProfilerTool>();
    f.template operator()<LlmBackend>();
    f.template operator()<SearchStrategy>();
    f.template operator()<Comparator>();
}

[[noreturn]] void refuse(const std::string& origin, const std::string& cause) {
    throw Error(ErrorCode::plugin, fmt::format("plugin {}: {}", origin, cause));
}

/// Reads nothing of the descriptor but its first two members.
void check_compatibility(const PluginDescriptor& descriptor, const std::string& origin) {
    if (descriptor.abi_epoch != KERNELFORGE_ABI_EPOCH) {
        refuse(origin, fmt::format("abi epoch differs, plugin {}, host {}", descriptor.abi_epoch,
                                   KERNELFORGE_ABI_EPOCH));
    }
    // Bounded: a plugin of our epoch has a string here, but nothing proves that it is a plugin of
    // ours.
    constexpr std::size_t max_stamp = 256;
    const char* stamp = descriptor.build_stamp;
    if (stamp == nullptr || ::strnlen(stamp, max_stamp) == max_stamp) {
        refuse(origin, "build stamp is not readable");
    }
    if (std::string_view(stamp) != KERNELFORGE_BUILD_STAMP) {
        refuse(origin, fmt::format("build stamp differs, plugin \"{}\", host \"{}\"", stamp,
                                   KERNELFORGE_BUILD_STAMP));
    }
}

}  // namespace

struct Registry::State {
    struct Plugin {
        const PluginDescriptor* descriptor;  // lives as long as the process
        std::string path;                    // empty when linked in
    };
    std::vector<Plugin> plugins;

    void add(const PluginDescriptor& descriptor, const std::string& path) {
        const std::string origin =
            !path.empty() ? path
                          : fmt::format("{} (linked in)", descriptor.name ? descriptor.name : "?");
        if (descriptor.name == nullptr || *descriptor.name == '\0' ||
            descriptor.version == nullptr) {
            refuse(origin, "it has no name or no version");
        }
        for (const Plugin& other : plugins) {
            if (std::string_view(other.descriptor->name) == descriptor.name) {
                refuse(origin, fmt::format("a plugin named \"{}\" is there already, from {}",
                                           descriptor.name,
                                           other.path.empty() ? "this program" : other.path));
            }
        }
        for_each_interface([&]<class I>() { check_names<I>(descriptor, origin); });
        plugins.push_back({&descriptor, path});
    }

    template <class I>
    void check_names(const PluginDescriptor& descriptor, const std::string& origin) const {
        std::set<std::string_view> own;
        for (const Factory<I>& factory : descriptor.*Interface<I>::factories) {
            if (factory.name == nullptr || *factory.name == '\0' || factory.create == nullptr) {
                refuse(origin,
                       fmt::format("one of its {}s has no name or no factory", Interface<I>::name));
            }
            if (!own.insert(factory.name).second) {
                refuse(origin,
                       fmt::format("it brings {} \"{}\" twice", Interface<I>::name, factory.name));
            }
            for (const Plugin& other : plugins) {
                for (const Factory<I>& taken : other.descriptor->*Interface<I>::factories) {
                    if (std::string_view(taken.name) != factory.name) continue;
                    refuse(origin,
                           fmt::format("{} \"{}\" is there already, from plugin \"{}\"",
                                       Interface<I>::name, factory.name, other.descriptor->name));
                }
            }
        }
    }

    template <class I>
    std::pair<const Factory<I>*, const Plugin*> find(std::string_view name) const {
        std::string known;
        for (const Plugin& plugin : plugins) {
            for (const Factory<I>& factory : plugin.descriptor->*Interface<I>::factories) {
                if (name == factory.name) return {&factory, &plugin};
                known += fmt::format("{}{}", known.empty() ? "" : ", ", factory.name);
            }
        }
        throw Error(ErrorCode::not_found,
                    known.empty()
                        ? fmt::format("no {} named \"{}\": none is loaded, load a plugin first",
                                      Interface<I>::name, name)
                        : fmt::format("no {} named \"{}\": known ones are {}", Interface<I>::name,
                                      name, known));
    }
};

Registry::Registry() : state_(std::make_unique<State>()) {}
Registry::~Registry() = default;
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;

void Registry::add(const PluginDescriptor& descriptor) {
    check_compatibility(descriptor, "(linked in)");
    state_->add(descriptor, "");
}

void Registry::load(const std::string& path) {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::absolute(path, error);
    if (error || !std::filesystem::is_regular_file(file, error)) {
        throw Error(ErrorCode::not_found, fmt::format("plugin {}: no such file", path));
    }
    boost::dll::shared_library library;
    boost::dll::fs::error_code load_error;
    // RTLD_NOW, so that a missing symbol is found here and not in the middle of a run.
    library.load(file, load_error,
                 boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
    if (load_error) {
        // Boost keeps a code only; the loader knows the name of the missing symbol or library.
        const void* again = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        const char* cause = again == nullptr ? ::dlerror() : nullptr;
        std::string text = cause != nullptr ? cause : load_error.message();
        if (text.starts_with(file.string() + ": ")) text.erase(0, file.string().size() + 2);
        refuse(file.string(), "cannot be loaded, " + text);
    }
    if (!library.has(entry_symbol)) {
        refuse(file.string(),
               fmt::format("it exports no symbol {}, so it is not a plugin", entry_symbol));
    }
    const auto& descriptor = library.get<const PluginDescriptor>(entry_symbol);
    check_compatibility(descriptor, file.string());
    // Objects and strings of the plugin may outlive this registry, so its library is never
    // unmapped.
    ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    state_->add(descriptor, file.string());
}

std::vector<std::string> Registry::load_folder(const std::string& folder) {
    std::error_code error;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (entry.path().extension() == ".so") files.push_back(entry.path());
    }
    if (error) {
        throw Error(ErrorCode::not_found,
                    fmt::format("cannot read plugin folder {}: {}", folder, error.message()));
    }
    std::sort(files.begin(), files.end());
    std::vector<std::string> refused;
    for (const auto& file : files) {
        try {
            load(file.string());
        } catch (const Error& cause) {
            refused.emplace_back(cause.what());
        }
    }
    return refused;
}

std::vector<RegistryEntry> Registry::entries() const {
    std::vector<RegistryEntry> entries;
    for (const State::Plugin& plugin : state_->plugins) {
        for_each_interface([&]<class I>() {
            for (const Factory<I>& factory : plugin.descriptor->*Interface<I>::factories) {
                entries.push_back({Interface<I>::name, factory.name,
                                   factory.summary != nullptr ? factory.summary : "",
                                   plugin.descriptor->name, plugin.descriptor->version,
                                   plugin.path});
            }
        });
    }
    std::sort(entries.begin(), entries.end(), [](const RegistryEntry& a, const RegistryEntry& b) {
        return std::tie(a.interface, a.name) < std::tie(b.interface, b.name);
    });
    return entries;
}

template <class I>
std::unique_ptr<I> Registry::make(std::string_view name, std::string_view options,
                                  const PluginContext& context) const {
    const auto [factory, plugin] = state_->find<I>(name);
    const std::string origin =
        plugin->path.empty() ? fmt::format("\"{}\"", plugin->descriptor->name) : plugin->path;
    std::unique_ptr<I> made;
    try {
        made = factory->create(options, context);
    } catch (const Error& error) {
        throw Error(error.code(), fmt::format("plugin {}: {} \"{}\": {}", origin,
                                              Interface<I>::name, name, error.what()));
    } catch (const std::exception& error) {
        refuse(origin,
               fmt::format("making {} \"{}\" threw: {}", Interface<I>::name, name, error.what()));
    } catch (...) {
        refuse(origin, fmt::format("making {} \"{}\" threw something that is not a std::exception",
                                   Interface<I>::name, name));
    }
    if (made == nullptr) {
        refuse(origin, fmt::format("making {} \"{}\" gave nothing", Interface<I>::name, name));
    }
    return made;
}

template std::unique_ptr<Compiler> Registry::make(std::string_view, std::string_view,
                                                  const PluginContext&) const;
template std::unique_ptr<Evaluator> Registry::make(std::string_view, std::string_view,
                                                   const PluginContext&) const;
template std::unique_ptr<Collector> Registry::make(std::string_view, std::string_view,
                                                   const PluginContext&) const;
template std::unique_ptr<ProfilerTool> Registry::make(std::string_view, std::string_view,
                                                      const PluginContext&) const;
template std::unique_ptr<LlmBackend> Registry::make(std::string_view, std::string_view,
                                                    const PluginContext&) const;
template std::unique_ptr<SearchStrategy> Registry::make(std::string_view, std::string_view,
                                                        const PluginContext&) const;
template std::unique_ptr<Comparator> Registry::make(std::string_view, std::string_view,
                                                    const PluginContext&) const;

}  // namespace kernelforge
