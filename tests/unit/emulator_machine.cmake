#SPDX - License - Identifier : Apache - 2.0
kernelforge_add_tests(
    unit emulator_machine SOURCES emulator_kernels_test.cpp emulator_machine_test.cpp LIBRARIES
        kernelforge_emulator_machine kernelforge_emulator_checker kernelforge_emulator_decode
              kernelforge_compile_role)
