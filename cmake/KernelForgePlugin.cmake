# SPDX-License-Identifier: Apache-2.0
# kernelforge_add_plugin(name DESCRIPTOR file.cpp [SOURCES …] [LIBRARIES …])
#
# Makes a plugin in both forms from the same sources:
#   <name>_plugin   MODULE  lib<name>.so, loadable: exports `kernelforge_plugin` and nothing else
#   <name>          STATIC  linkable: its entry is `kernelforge_plugin_<name>`, for Registry::add
# DESCRIPTOR is the file that uses KERNELFORGE_PLUGIN(<name>); it alone is compiled twice.
set(_kernelforge_plugin_version_script "${CMAKE_CURRENT_LIST_DIR}/plugin.version")

function(kernelforge_add_plugin name)
    cmake_parse_arguments(PARSE_ARGV 1 plugin "" "DESCRIPTOR" "SOURCES;LIBRARIES")
    if(NOT plugin_DESCRIPTOR)
        message(FATAL_ERROR "kernelforge_add_plugin(${name}): DESCRIPTOR is missing")
    endif()
    set(libraries ${plugin_LIBRARIES})
    if(COMMAND kernelforge_split_libraries)  # inside KernelForge's own build
        kernelforge_split_libraries(libraries used ${plugin_LIBRARIES})
    endif()
    add_library(${name} STATIC ${plugin_DESCRIPTOR} ${plugin_SOURCES})
    target_link_libraries(${name} PUBLIC KernelForge::plugin PRIVATE ${libraries})
    target_compile_definitions(${name} PRIVATE KERNELFORGE_LINKED_PLUGIN)

    add_library(${name}_plugin MODULE ${plugin_DESCRIPTOR})
    # The entry of the linkable form stays out of the module: nothing there refers to it.
    target_link_libraries(${name}_plugin PRIVATE ${name} ${libraries})
    target_link_options(${name}_plugin PRIVATE "LINKER:--version-script=${_kernelforge_plugin_version_script}"
        # A sanitizer's runtime is in the program, so its symbols are undefined here.
        $<$<NOT:$<BOOL:${KERNELFORGE_SANITIZED}>>:LINKER:-z,defs>)
    set_target_properties(${name}_plugin PROPERTIES OUTPUT_NAME ${name} PREFIX "lib"
        LINK_DEPENDS "${_kernelforge_plugin_version_script}")
    set_target_properties(${name} ${name}_plugin PROPERTIES POSITION_INDEPENDENT_CODE ON
        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    if(COMMAND kernelforge_use)
        kernelforge_use(${name} ${used} kernelforge_build_flags)
        kernelforge_use(${name}_plugin ${used} kernelforge_build_flags)
    endif()
    set_source_files_properties(${plugin_DESCRIPTOR} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    set_property(GLOBAL APPEND PROPERTY KERNELFORGE_PLUGINS ${name})
endfunction()
