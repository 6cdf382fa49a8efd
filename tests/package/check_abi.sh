#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_abi.sh SOURCE_FOLDER COMPILER GENERATED_INCLUDE_FOLDER
# The text of the public headers without comments and white space has the digest that abi_digest.txt records
# for the present epoch. When a public type or virtual function changed: raise KERNELFORGE_ABI_EPOCH, then
# write the line that this prints into tests/package/abi_digest.txt.
set -eu
source=$1 compiler=$2 generated=$3
epoch=$(sed -n 's/^#define KERNELFORGE_ABI_EPOCH \([0-9]*\)$/\1/p' "$source/include/kernelforge/plugin.hpp")
digest=$(for header in candidate collector comparator compiler definition evaluator llm_backend plugin profile_data profiler_tool search_strategy; do
    "$compiler" -std=c++20 -fpreprocessed -dD -E -P -I"$generated" "$source/include/kernelforge/$header.hpp" 2>/dev/null
done | grep -v '^#define KERNELFORGE_ABI_EPOCH' | tr -d ' \n\t' | sha256sum | cut -c1-64)
now="$epoch $digest"
recorded=$(cat "$source/tests/package/abi_digest.txt")
if [ "$now" != "$recorded" ]; then
    echo "recorded: $recorded"
    echo "now:      $now"
    echo "the public headers changed: if a type or a virtual function did, raise KERNELFORGE_ABI_EPOCH; then record the line above"
    exit 1
fi
