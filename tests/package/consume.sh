#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: consume.sh build|install BUILD_TREE CONSUMER_SOURCE WORK_FOLDER COMPILER FLAGS GENERATOR
set -eu
tree=$1 build=$2 source=$3 work=$4 compiler=$5 flags=$6 generator=$7
rm -rf "$work"
mkdir -p "$work"
if [ "$tree" = install ]; then
    cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
    where="-DCMAKE_PREFIX_PATH=$work/prefix"
else
    where="-DKernelForge_DIR=$build"
fi
cmake -S "$source" -B "$work/build" -G "$generator" "$where" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_BUILD_TYPE=Debug
cmake --build "$work/build"
"$work/build/consumer" "$work/build"
if [ "$tree" = install ]; then
    "$work/prefix/bin/kernelforge" --version
    "$work/prefix/bin/kernelforge" plugins
fi
