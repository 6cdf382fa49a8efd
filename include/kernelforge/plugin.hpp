// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernelforge/collector.hpp"
#include "kernelforge/comparator.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/llm_backend.hpp"
#include "kernelforge/log.hpp"
#include "kernelforge/profiler_tool.hpp"
#include "kernelforge/search_strategy.hpp"

/// Raised by hand whenever a public type or a virtual function changes.
#define KERNELFORGE_ABI_EPOCH 3

#if defined(__SANITIZE_ADDRESS__)
#define KERNELFORGE_STAMP_SANITIZER "+asan"
#elif defined(__SANITIZE_THREAD__)
#define KERNELFORGE_STAMP_SANITIZER "+tsan"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KERNELFORGE_STAMP_SANITIZER "+asan"
#elif __has_feature(thread_sanitizer)
#define KERNELFORGE_STAMP_SANITIZER "+tsan"
#else
#define KERNELFORGE_STAMP_SANITIZER ""
#endif
#else
#define KERNELFORGE_STAMP_SANITIZER ""
#endif

#if defined(_LIBCPP_VERSION)
#define KERNELFORGE_STAMP_LIBRARY "libc++"
#elif defined(_GLIBCXX_DEBUG)
#define KERNELFORGE_STAMP_LIBRARY "libstdc++-debug"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI == 0
#define KERNELFORGE_STAMP_LIBRARY "libstdc++-old-abi"
#else
#define KERNELFORGE_STAMP_LIBRARY "libstdc++"
#endif

#if defined(__clang__)
#define KERNELFORGE_STAMP_COMPILER "clang"
#elif defined(__GNUC__)
#define KERNELFORGE_STAMP_COMPILER "gcc"
#else
#define KERNELFORGE_STAMP_COMPILER "unknown"
#endif

/// What must agree, besides the epoch, for C++ objects to cross: `gcc libstdc++` with `+asan` or
/// `+tsan` where built so.
#define KERNELFORGE_BUILD_STAMP \
    KERNELFORGE_STAMP_COMPILER " " KERNELFORGE_STAMP_LIBRARY KERNELFORGE_STAMP_SANITIZER

namespace kernelforge {

/// Gives the value of a named secret (an API key), or nothing. Called from any thread. The library
/// never reads the environment itself and never stores or logs what it gets here.
using SecretSource = std::function<std::optional<std::string>(std::string_view name)>;

/// What the host offers to what it creates. Copied into the created object.
struct PluginContext {
    LogSink log;
    SecretSource secrets;
    /// The `kernelforge-worker` program. Empty: the one beside or installed with the library.
    std::string worker_path;
    /// Folder for content-addressed caches, created when missing. Empty: nothing is cached on disk.
    std::string cache_folder;
};

/// Creates one implementation of interface `I`. `options` is a JSON object as text; `{}` gives the
/// documented defaults; an unknown key is an error that names it.
template <class I>
struct Factory {
    const char* name;     ///< unique for its interface within a registry
    const char* summary;  ///< one sentence
    /// @throws Error invalid_argument or parse (options), unsupported, not_found
    std::unique_ptr<I> (*create)(std::string_view options, const PluginContext& context);
};

/// The entry of a plugin: plain data that can be inspected before any code of the plugin is called.
/// `abi_epoch` stays at offset 0 and `build_stamp` at offset 8 for ever.
struct PluginDescriptor {
    std::uint64_t abi_epoch;
    const char* build_stamp;
    const char* name;
    const char* version;
    std::span<const Factory<Compiler>> compilers;
    std::span<const Factory<Evaluator>> evaluators;
    std::span<const Factory<Collector>> collectors;
    std::span<const Factory<ProfilerTool>> profiler_tools;
    std::span<const Factory<LlmBackend>> llm_backends;
    std::span<const Factory<SearchStrategy>> search_strategies;
    std::span<const Factory<Comparator>> comparators;
};

static_assert(sizeof(void*) == 8, "plugins are supported on 64-bit systems");

}  // namespace kernelforge

/// Defines the entry of a plugin, once, at namespace scope of its own `.cpp` file:
///
///     KERNELFORGE_PLUGIN(my_tools) = {KERNELFORGE_PLUGIN_HEAD("my_tools", "1.0"), .profiler_tools
///     = tools};
///
/// In the loadable form the symbol is `kernelforge_plugin`, in the linkable form
/// `kernelforge_plugin_my_tools`; `kernelforge_add_plugin` builds both.
#if defined(KERNELFORGE_LINKED_PLUGIN)
#define KERNELFORGE_PLUGIN(identifier)                                                \
    extern "C" const ::kernelforge::PluginDescriptor kernelforge_plugin_##identifier; \
    extern "C" constinit const ::kernelforge::PluginDescriptor kernelforge_plugin_##identifier
#else
#define KERNELFORGE_PLUGIN(identifier)                        \
    extern "C" __attribute__((visibility("default")))         \
    const ::kernelforge::PluginDescriptor kernelforge_plugin; \
    extern "C" constinit const ::kernelforge::PluginDescriptor kernelforge_plugin
#endif

#define KERNELFORGE_PLUGIN_HEAD(plugin_name, plugin_version)                    \
    .abi_epoch = KERNELFORGE_ABI_EPOCH, .build_stamp = KERNELFORGE_BUILD_STAMP, \
    .name = plugin_name, .version = plugin_version

/// Declares the entry of a plugin that is linked in, for `Registry::add`.
#define KERNELFORGE_DECLARE_PLUGIN(identifier) \
    extern "C" const ::kernelforge::PluginDescriptor kernelforge_plugin_##identifier
