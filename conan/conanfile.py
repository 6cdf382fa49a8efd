# SPDX-License-Identifier: Apache-2.0
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout
from conan.tools.files import copy, load


class KernelForge(ConanFile):
    name = "kernelforge"
    license = "Apache-2.0"
    description = "Makes GPU kernels faster by search with language models"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    requires = "fmt/[>=9]", "nlohmann_json/[>=3.10]", "boost/[>=1.74]", "libcurl/[>=7.80]", "cli11/[>=2.1]"
    generators = "CMakeDeps", "CMakeToolchain"

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir)

    def set_version(self):
        text = load(self, os.path.join(self._root, "CMakeLists.txt"))
        self.version = re.search(r"project\(KernelForge VERSION ([0-9.]+)", text).group(1)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "plugins/*"):
            copy(self, pattern, self._root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(variables={"BUILD_SHARED_LIBS": bool(self.options.shared), "KERNELFORGE_BUILD_TESTS": False,
                                   "KERNELFORGE_BUILD_EXAMPLES": False})
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "KernelForge")]
