# SPDX-License-Identifier: Apache-2.0
# Flags that all of our own targets share. Nothing here reaches a consumer.
add_library(kernelforge_build_flags INTERFACE)
target_compile_features(kernelforge_build_flags INTERFACE cxx_std_20)
target_compile_options(kernelforge_build_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
    $<$<BOOL:${KERNELFORGE_WARNINGS_AS_ERRORS}>:-Werror>
    # GCC 12 reports false positives of these inside std::string and std::optional.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-missing-field-initializers>
    $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-field-initializers>)

# Splits link libraries into those that are linked (and so are part of the package) and those whose headers
# and flags alone are used: the latter are copied into the target, so that the package does not need them.
function(kernelforge_split_libraries linked used)
    set(linked_list)
    set(used_list)
    foreach(library IN LISTS ARGN)
        if(library MATCHES "^(fmt::fmt-header-only|nlohmann_json::.*|Boost::headers|KernelForge::cuda_headers|kernelforge_build_flags)$")
            list(APPEND used_list ${library})
        else()
            list(APPEND linked_list ${library})
        endif()
    endforeach()
    set(${linked} ${linked_list} PARENT_SCOPE)
    set(${used} ${used_list} PARENT_SCOPE)
endfunction()

function(kernelforge_use target)
    foreach(library IN LISTS ARGN)
        # The values themselves: an expression that names the library would put it into the package.
        get_target_property(folders ${library} INTERFACE_INCLUDE_DIRECTORIES)
        get_target_property(definitions ${library} INTERFACE_COMPILE_DEFINITIONS)
        get_target_property(options ${library} INTERFACE_COMPILE_OPTIONS)
        if(folders)
            target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${folders}>")
        endif()
        if(definitions)
            target_compile_definitions(${target} PRIVATE ${definitions})
        endif()
        if(options)
            target_compile_options(${target} PRIVATE ${options})
        endif()
    endforeach()
endfunction()

# An internal static library of one room; position-independent, hidden symbols. It is installed because
# static libraries of ours need it, without headers.
function(kernelforge_add_room name)
    cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;LIBRARIES")
    kernelforge_split_libraries(linked used ${room_LIBRARIES})
    add_library(kernelforge_${name} STATIC ${room_SOURCES})
    target_include_directories(kernelforge_${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
    target_link_libraries(kernelforge_${name} PUBLIC ${linked})
    kernelforge_use(kernelforge_${name} ${used} kernelforge_build_flags)
    target_compile_features(kernelforge_${name} PUBLIC cxx_std_20)
    set_target_properties(kernelforge_${name} PROPERTIES EXPORT_NAME internal_${name}
        POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    set_property(GLOBAL APPEND PROPERTY KERNELFORGE_ROOMS kernelforge_${name})
endfunction()
