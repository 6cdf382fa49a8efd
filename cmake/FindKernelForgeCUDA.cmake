# SPDX-License-Identifier: Apache-2.0
# Finds the headers of CUDA, NVRTC and CUPTI, and where the NVRTC and CUPTI libraries are. Nothing of
# CUDA is linked: all of it is loaded at run time. Accepts the layouts of the runfile, of distributions
# and of NVIDIA's Python wheels; KERNELFORGE_CUDA_ROOT (a folder, or a list) is searched first.
#
# Defines the target KernelForge::cuda_headers and KERNELFORGE_CUDA_LIBRARY_FOLDERS, KERNELFORGE_CUDA_INCLUDE_FOLDERS.
set(KERNELFORGE_CUDA_ROOT "" CACHE STRING "Where CUDA is: toolkit folders, or a folder of Python wheels")

set(_kf_roots ${KERNELFORGE_CUDA_ROOT})
if(DEFINED ENV{CUDA_HOME})
    list(APPEND _kf_roots "$ENV{CUDA_HOME}")
endif()
list(APPEND _kf_roots "${CMAKE_CURRENT_LIST_DIR}/../.cuda" /usr/local/cuda /opt/cuda /usr/lib/cuda /usr)

set(_kf_prefixes)
foreach(_kf_root IN LISTS _kf_roots)
    list(APPEND _kf_prefixes "${_kf_root}" "${_kf_root}/targets/x86_64-linux" "${_kf_root}/extras/CUPTI")
    # Wheels: <root>[/lib/pythonX.Y/site-packages]/nvidia/{cu13,cuda_nvrtc,cuda_cupti,cuda_runtime}
    file(GLOB _kf_wheels LIST_DIRECTORIES true
         "${_kf_root}/nvidia/*" "${_kf_root}/lib/python3*/site-packages/nvidia/*")
    foreach(_kf_wheel IN LISTS _kf_wheels)
        if(IS_DIRECTORY "${_kf_wheel}/include")
            list(APPEND _kf_prefixes "${_kf_wheel}")
        endif()
    endforeach()
endforeach()

foreach(_kf_header cuda nvrtc cupti)
    find_path(KERNELFORGE_${_kf_header}_INCLUDE ${_kf_header}.h PATHS ${_kf_prefixes}
              PATH_SUFFIXES include NO_DEFAULT_PATH)
    mark_as_advanced(KERNELFORGE_${_kf_header}_INCLUDE)
endforeach()
foreach(_kf_library nvrtc cupti)
    # Wheels have no link without a version. The first folder that has one of the names wins.
    find_library(KERNELFORGE_${_kf_library}_LIBRARY
              NAMES lib${_kf_library}.so lib${_kf_library}.so.13 lib${_kf_library}.so.12 NAMES_PER_DIR
              PATHS ${_kf_prefixes} PATH_SUFFIXES lib64 lib lib/x86_64-linux-gnu NO_DEFAULT_PATH)
    mark_as_advanced(KERNELFORGE_${_kf_library}_LIBRARY)
endforeach()

set(KernelForgeCUDA_VERSION "")
if(KERNELFORGE_cuda_INCLUDE)
    file(STRINGS "${KERNELFORGE_cuda_INCLUDE}/cuda.h" _kf_version REGEX "^#define CUDA_VERSION [0-9]+")
    if(_kf_version MATCHES "([0-9]+)$")
        math(EXPR _kf_major "${CMAKE_MATCH_1} / 1000")
        math(EXPR _kf_minor "${CMAKE_MATCH_1} % 1000 / 10")
        set(KernelForgeCUDA_VERSION "${_kf_major}.${_kf_minor}")
    endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(KernelForgeCUDA
    REQUIRED_VARS KERNELFORGE_cuda_INCLUDE KERNELFORGE_nvrtc_INCLUDE KERNELFORGE_cupti_INCLUDE KERNELFORGE_nvrtc_LIBRARY
    VERSION_VAR KernelForgeCUDA_VERSION
    REASON_FAILURE_MESSAGE "CUDA Toolkit >= 12.6 was not found - set KERNELFORGE_CUDA_ROOT, or get NVIDIA's Python wheels with: bash cmake/get_cuda_wheels.sh")
if(KernelForgeCUDA_FOUND AND KernelForgeCUDA_VERSION VERSION_LESS 12.6)
    message(FATAL_ERROR "KernelForge needs CUDA >= 12.6, found ${KernelForgeCUDA_VERSION} in ${KERNELFORGE_cuda_INCLUDE}")
endif()

if(KernelForgeCUDA_FOUND)
    set(KERNELFORGE_CUDA_INCLUDE_FOLDERS ${KERNELFORGE_cuda_INCLUDE} ${KERNELFORGE_nvrtc_INCLUDE} ${KERNELFORGE_cupti_INCLUDE})
    list(REMOVE_DUPLICATES KERNELFORGE_CUDA_INCLUDE_FOLDERS)
    set(KERNELFORGE_CUDA_LIBRARY_FOLDERS)
    foreach(_kf_library nvrtc cupti)
        if(KERNELFORGE_${_kf_library}_LIBRARY)
            get_filename_component(_kf_folder "${KERNELFORGE_${_kf_library}_LIBRARY}" DIRECTORY)
            list(APPEND KERNELFORGE_CUDA_LIBRARY_FOLDERS "${_kf_folder}")
        endif()
    endforeach()
    list(REMOVE_DUPLICATES KERNELFORGE_CUDA_LIBRARY_FOLDERS)
    if(NOT TARGET KernelForge::cuda_headers)
        add_library(KernelForge::cuda_headers INTERFACE IMPORTED)
        target_include_directories(KernelForge::cuda_headers SYSTEM INTERFACE ${KERNELFORGE_CUDA_INCLUDE_FOLDERS})
    endif()
endif()
