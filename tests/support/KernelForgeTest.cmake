# SPDX-License-Identifier: Apache-2.0
# kernelforge_add_tests(kind room SOURCES … [LIBRARIES …])
#
# Adds one room's test files to the one executable of its kind (kernelforge_<kind>_tests, made by
# kernelforge_finish_tests), and makes an executable of that room alone (<kind>_<room>_tests, not part of
# `all`) for working on it.
function(kernelforge_add_tests kind room)
    cmake_parse_arguments(PARSE_ARGV 2 tests "" "" "SOURCES;LIBRARIES")
    set(objects ${kind}_${room}_test_objects)
    add_library(${objects} OBJECT ${tests_SOURCES})
    target_link_libraries(${objects} PUBLIC ${tests_LIBRARIES} kernelforge_test_support
                          PRIVATE kernelforge_build_flags)
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_precompile_headers(${objects} REUSE_FROM kernelforge_test_support)
    add_executable(${kind}_${room}_tests EXCLUDE_FROM_ALL)
    target_link_libraries(${kind}_${room}_tests PRIVATE ${objects} kernelforge_test_main ${tests_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY KERNELFORGE_${kind}_TEST_OBJECTS ${objects})
    set_property(GLOBAL APPEND PROPERTY KERNELFORGE_${kind}_TEST_LIBRARIES ${tests_LIBRARIES})
endfunction()

# One executable of all rooms of a kind, one CTest entry a Catch tag-free file group: `<kind>.<room>`.
function(kernelforge_finish_tests kind)
    get_property(objects GLOBAL PROPERTY KERNELFORGE_${kind}_TEST_OBJECTS)
    get_property(libraries GLOBAL PROPERTY KERNELFORGE_${kind}_TEST_LIBRARIES)
    add_executable(kernelforge_${kind}_tests)
    target_link_libraries(kernelforge_${kind}_tests PRIVATE ${objects} kernelforge_test_main ${libraries})
    include(Catch OPTIONAL RESULT_VARIABLE found)
    if(NOT found)
        list(APPEND CMAKE_MODULE_PATH ${Catch2_DIR} ${Catch2_SOURCE_DIR}/extras)
        include(Catch)
    endif()
    catch_discover_tests(kernelforge_${kind}_tests TEST_PREFIX "${kind}: " PROPERTIES LABELS ${kind} TIMEOUT 300
                         ${ARGN})
endfunction()
