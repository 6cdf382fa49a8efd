#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts NVIDIA's Python wheels with the headers and libraries that KernelForge needs (CUDA runtime headers, CCCL,
# NVRTC, CUPTI) into the folder .cuda of the source tree, where the build finds them. Nothing is installed
# outside that folder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-$root/.cuda}
python3 -m pip --version >/dev/null 2>&1 || { echo "python3 with pip is needed: apt-get install python3-pip" >&2; exit 3; }
python3 -m pip install --quiet --no-deps --upgrade --target "$target" \
    'nvidia-cuda-runtime>=13.0,<13.1' 'nvidia-cuda-nvrtc>=13.0,<13.1' 'nvidia-cuda-cupti>=13.0,<13.1' \
    'nvidia-cuda-crt>=13.0,<13.1' 'nvidia-cuda-cccl>=13.0,<13.1'
echo "CUDA wheels are in $target"
