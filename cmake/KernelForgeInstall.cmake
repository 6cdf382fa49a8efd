# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY KERNELFORGE_ROOMS)
get_property(plugins GLOBAL PROPERTY KERNELFORGE_BUNDLED_PLUGINS)
set(KERNELFORGE_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/KernelForge)

install(TARGETS kernelforge kernelforge_plugin_interface ${rooms} ${plugins} EXPORT KernelForgeTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(plugin IN LISTS plugins)
    install(TARGETS ${plugin}_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kernelforge/plugins)
endforeach()
install(TARGETS kernelforge_worker kernelforge_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/kernelforge ${PROJECT_BINARY_DIR}/include/kernelforge
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT KernelForgeTargets NAMESPACE KernelForge:: DESTINATION ${KERNELFORGE_PACKAGE_FOLDER})

set(KERNELFORGE_HAS_HTTP OFF)
if(TARGET llm_openai)
    set(KERNELFORGE_HAS_HTTP ON)
endif()
set(KERNELFORGE_PLUGIN_FOLDER ${CMAKE_INSTALL_LIBDIR}/kernelforge/plugins)
configure_package_config_file(cmake/KernelForgeConfig.cmake.in ${PROJECT_BINARY_DIR}/install/KernelForgeConfig.cmake
    INSTALL_DESTINATION ${KERNELFORGE_PACKAGE_FOLDER} PATH_VARS KERNELFORGE_PLUGIN_FOLDER)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/KernelForgeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/KernelForgeConfig.cmake ${PROJECT_BINARY_DIR}/KernelForgeConfigVersion.cmake
    cmake/KernelForgePlugin.cmake cmake/plugin.version
    DESTINATION ${KERNELFORGE_PACKAGE_FOLDER})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kernelforge)

# From the build tree, with -DKernelForge_DIR=<build>:
configure_package_config_file(cmake/KernelForgeConfig.cmake.in ${PROJECT_BINARY_DIR}/KernelForgeConfig.cmake
    INSTALL_DESTINATION ${PROJECT_BINARY_DIR} INSTALL_PREFIX ${PROJECT_BINARY_DIR} PATH_VARS KERNELFORGE_PLUGIN_FOLDER)
export(EXPORT KernelForgeTargets NAMESPACE KernelForge:: FILE ${PROJECT_BINARY_DIR}/KernelForgeTargets.cmake)
configure_file(cmake/KernelForgePlugin.cmake ${PROJECT_BINARY_DIR}/KernelForgePlugin.cmake COPYONLY)
configure_file(cmake/plugin.version ${PROJECT_BINARY_DIR}/plugin.version COPYONLY)
