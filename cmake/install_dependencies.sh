#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: install_dependencies.sh [--tests]
# Installs what the build needs on Debian or Ubuntu, with apt-get, where it is missing. Where no CUDA toolkit is
# found it gets NVIDIA's Python wheels into the folder .cuda of the source tree (asks first on a terminal;
# KERNELFORGE_CUDA_WHEELS=yes or no answers beforehand).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
packages=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libboost-dev libcurl4-openssl-dev libcli11-dev)
[ "${1:-}" = "--tests" ] && packages+=(catch2 binutils)

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    sudo=""
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { echo "needed and missing: ${missing[*]}; install them as root" >&2; exit 3; }
        sudo=sudo
    fi
    echo "installing: ${missing[*]}"
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

has_cuda() {
    local folder
    for folder in ${KERNELFORGE_CUDA_ROOT:-} ${CUDA_HOME:-} /usr/local/cuda /opt/cuda /usr/lib/cuda; do
        [ -e "$folder/include/nvrtc.h" ] || [ -e "$folder/targets/x86_64-linux/include/nvrtc.h" ] && return 0
    done
    [ -e /usr/include/nvrtc.h ] || compgen -G "$root/.cuda/nvidia/*/include/nvrtc.h" >/dev/null
}
if ! has_cuda; then
    answer=${KERNELFORGE_CUDA_WHEELS:-}
    if [ -z "$answer" ] && [ -t 0 ]; then
        read -r -p "No CUDA toolkit was found. Get NVIDIA's Python wheels (about 250 MB) into $root/.cuda? [Y/n] " answer
        case "$answer" in [nN]*) answer=no ;; *) answer=yes ;; esac
    fi
    if [ "${answer:-yes}" = no ]; then
        echo "a CUDA toolkit >= 12.6 is needed: install one, or run again with KERNELFORGE_CUDA_WHEELS=yes" >&2
        exit 3
    fi
    python3 -m pip --version >/dev/null 2>&1 || {
        sudo=""; [ "$(id -u)" -eq 0 ] || sudo=sudo
        DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends python3-pip >/dev/null
    }
    bash "$root/cmake/get_cuda_wheels.sh"
fi
