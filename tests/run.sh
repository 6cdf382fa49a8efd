#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh [PRESET]     (dev, release, asan or tsan; default dev)
# Installs what is missing, builds, and runs all tests that this machine can run.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-dev}
bash cmake/install_dependencies.sh --tests
command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)"
