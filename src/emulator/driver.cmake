# SPDX-License-Identifier: Apache-2.0
kernelforge_add_room(emulator_driver
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/driver.cpp ${CMAKE_CURRENT_LIST_DIR}/driver_device.cpp
            ${CMAKE_CURRENT_LIST_DIR}/driver_launch.cpp ${CMAKE_CURRENT_LIST_DIR}/driver_memory.cpp
            ${CMAKE_CURRENT_LIST_DIR}/driver_module.cpp ${CMAKE_CURRENT_LIST_DIR}/driver_tensor_map.cpp
    LIBRARIES kernelforge_emulator_checker kernelforge_emulator_machine kernelforge_emulator_matrix
              kernelforge_emulator_decode kernelforge_emulator_ptx KernelForge::cuda_headers)
