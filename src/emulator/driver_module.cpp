// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string_view>

#include "emulator/driver_state.hpp"

// Modules from PTX text, their variables and functions.

namespace kernelforge::emulator {

namespace {

constexpr std::uint64_t variable_alignment = 256;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

std::string describe(const PtxError& error) {
    const Place place = error.place();
    std::string text;
    if (place.source_line != 0) text += "line " + std::to_string(place.source_line) + ": ";
    text += error.what();
    if (place.ptx_line != 0) text += " (line " + std::to_string(place.ptx_line) + " of the PTX)";
    return text;
}

/// Offsets of a module's variables from its memory, and how much that is.
std::uint64_t lay_out(const Code& code, std::vector<std::uint64_t>& offsets) {
    std::uint64_t end = 0;
    for (const Variable& variable : code.globals) {
        if (variable.is_extern) {
            throw PtxError(PtxError::Kind::not_emulated, variable.place,
                           "variable " + variable.name + " is defined in another module");
        }
        end = round_up(end, std::max(variable_alignment, variable.alignment));
        offsets.push_back(end);
        end += variable.bytes;
    }
    return end;
}

std::uint64_t address_of(const LoadedCode& loaded, const Variable& user, const Relocation& use) {
    for (std::size_t i = 0; i < loaded.code->globals.size(); ++i) {
        if (loaded.code->globals[i].name == use.symbol) {
            return loaded.global_addresses[i] + static_cast<std::uint64_t>(use.offset);
        }
    }
    throw PtxError(
        PtxError::Kind::not_emulated, user.place,
        "variable " + user.name + " holds the address of " + use.symbol + ", which is no variable");
}

void initialise(const LoadedCode& loaded, std::size_t index, std::byte* memory) {
    const Variable& variable = loaded.code->globals[index];
    const std::size_t given = std::min<std::size_t>(variable.initial.size(), variable.bytes);
    std::memcpy(memory, variable.initial.data(), given);
    std::memset(memory + given, 0, variable.bytes - given);
    for (const Relocation& use : variable.relocations) {
        const std::uint64_t address = address_of(loaded, variable, use);
        const auto bytes = static_cast<std::size_t>(std::clamp(use.bytes, 0, 8));
        if (use.at + bytes <= variable.bytes) std::memcpy(memory + use.at, &address, bytes);
    }
}

void add_functions(DriverModule& module) {
    for (const Entry& entry : module.loaded.code->entries) {
        DriverFunction function;
        function.module = &module;
        function.entry = &entry;
        function.most_dynamic_shared_bytes =
            h200::default_shared_bytes -
            static_cast<std::uint32_t>(
                std::min<std::uint64_t>(entry.static_shared_bytes, h200::default_shared_bytes));
        module.functions.emplace(entry.name, function);
    }
}

/// @throws PtxError
CUresult load(DriverState& state, std::string_view text, std::unique_ptr<DriverModule>& made) {
    auto module = std::make_unique<DriverModule>();
    module->loaded.code = decode(parse_ptx(text), state.options.isa);
    std::vector<std::uint64_t> offsets;
    module->bytes = lay_out(*module->loaded.code, offsets);
    if (module->bytes > 0) {
        module->address = state.allocate(module->bytes);
        if (module->address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (const std::uint64_t offset : offsets) {
        module->loaded.global_addresses.push_back(module->address + offset);
    }
    try {
        for (std::size_t i = 0; i < offsets.size(); ++i) {
            initialise(module->loaded, i,
                       state.memory.host(module->address, module->bytes) + offsets[i]);
        }
    } catch (...) {
        state.free(module->address, module->bytes);
        throw;
    }
    add_functions(*module);
    made = std::move(module);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI load_module(CUmodule* handle, const void* image) {
    return on_device([&](DriverState& state) {
        if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
        const auto* text = static_cast<const char*>(image);
        if (text[0] == '\x7f' || text[0] == '\x50')
            return CUDA_ERROR_INVALID_IMAGE;  // machine code
        try {
            std::unique_ptr<DriverModule> made;
            const CUresult result = load(state, text, made);
            if (result != CUDA_SUCCESS) return result;
            *handle = reinterpret_cast<CUmodule>(made.get());
            state.modules.emplace(made.get(), std::move(made));
            return CUDA_SUCCESS;
        } catch (const PtxError& error) {
            state.refusal = describe(error);
            return CUDA_ERROR_INVALID_PTX;
        }
    });
}

CUresult CUDAAPI unload_module(CUmodule handle) {
    return giving_back([&](DriverState& state) {
        const auto found = state.modules.find(reinterpret_cast<DriverModule*>(handle));
        if (found == state.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
        if (found->second->address != 0) state.free(found->second->address, found->second->bytes);
        state.modules.erase(found);
        return CUDA_SUCCESS;
    });
}

DriverModule* find_module(DriverState& state, CUmodule handle) {
    const auto found = state.modules.find(reinterpret_cast<DriverModule*>(handle));
    return found != state.modules.end() ? found->second.get() : nullptr;
}

CUresult CUDAAPI get_function(CUfunction* function, CUmodule handle, const char* name) {
    return on_device([&](DriverState& state) {
        DriverModule* module = find_module(state, handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const auto found = module->functions.find(name);
        if (found == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
        *function = reinterpret_cast<CUfunction>(&found->second);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI get_global(CUdeviceptr* address, std::size_t* bytes, CUmodule handle,
                            const char* name) {
    return on_device([&](DriverState& state) {
        const DriverModule* module = find_module(state, handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const std::vector<Variable>& variables = module->loaded.code->globals;
        for (std::size_t i = 0; i < variables.size(); ++i) {
            if (variables[i].name != name) continue;
            if (address != nullptr) *address = module->loaded.global_addresses[i];
            if (bytes != nullptr) *bytes = variables[i].bytes;
            return CUDA_SUCCESS;
        }
        return CUDA_ERROR_NOT_FOUND;
    });
}

CUresult CUDAAPI set_function_attribute(CUfunction handle, CUfunction_attribute which, int value) {
    return on_device([&](DriverState& state) {
        auto* function = reinterpret_cast<DriverFunction*>(handle);
        if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        switch (which) {
            case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
                const std::int64_t most =
                    static_cast<std::int64_t>(state.limits.max_shared_bytes_per_block) -
                    static_cast<std::int64_t>(function->entry->static_shared_bytes);
                if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
                function->most_dynamic_shared_bytes = static_cast<std::uint32_t>(value);
                return CUDA_SUCCESS;
            }
            case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
                function->any_cluster_size = value != 0;
                return CUDA_SUCCESS;
            case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
                return CUDA_SUCCESS;  // a hint about a cache that is not there
            default:
                return CUDA_ERROR_INVALID_VALUE;
        }
    });
}

CUresult CUDAAPI get_parameter(CUfunction handle, std::size_t index, std::size_t* offset,
                               std::size_t* bytes) {
    return on_device([&](DriverState&) {
        const auto* function = reinterpret_cast<const DriverFunction*>(handle);
        if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const auto& parameters = function->entry->parameters;
        if (index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
        if (offset != nullptr) *offset = parameters[index].first;
        if (bytes != nullptr) *bytes = parameters[index].second;
        return CUDA_SUCCESS;
    });
}

}  // namespace

void add_module_functions(worker::Driver& table) {
    table.cuModuleLoadData = load_module;
    table.cuModuleUnload = unload_module;
    table.cuModuleGetFunction = get_function;
    table.cuModuleGetGlobal = get_global;
    table.cuFuncSetAttribute = set_function_attribute;
    table.function_parameter = get_parameter;
}

}  // namespace kernelforge::emulator
