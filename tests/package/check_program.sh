#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_program.sh KERNELFORGE SOURCE_FOLDER
# The program's verbs, exit codes and JSON where no GPU is needed; with one, only what is the same there.
set -eu
program=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE TEXT ARGUMENTS…: exit code, and a text that stdout or stderr holds.
expect() {
    code=$1 text=$2
    shift 2
    found=0
    "$program" --cache "$work/cache" "$@" >"$work/out" 2>"$work/err" </dev/null || found=$?
    if [ "$found" != "$code" ] || ! cat "$work/out" "$work/err" | grep -qF -- "$text"; then
        echo "kernelforge $*: expected exit code $code and \"$text\", found $found and:"
        cat "$work/out" "$work/err"
        failures=$((failures + 1))
    fi
}
json() { python3 -c 'import json,sys; d=json.loads(open(sys.argv[1]).read()); assert isinstance(d, dict)' "$work/out" 2>/dev/null ||
    { echo "not one JSON object: $(head -c 300 "$work/out")"; failures=$((failures + 1)); }; }

gpu=0
"$program" --cache "$work/cache" doctor --json 2>/dev/null | grep -qF '"evaluator":"cuda"' && gpu=1

expect 0 "0." --version
expect 2 "subcommand" 
expect 0 "search_strategy" plugins
"$program" no-such-verb 2>&1 | grep -qF 'unknown verb "no-such-verb"' || { echo "no-such-verb is not named"; failures=1; }
expect 0 '"plugins"' plugins --json
json
expect 2 "/none/such" evaluate /none/such x.cu
expect 2 "candidate" evaluate "$source/examples/tasks/add_rmsnorm"
expect 2 "nothing.so" --plugin nothing.so plugins

task=$source/examples/tasks/add_rmsnorm
printf '//@kernelforge 1\n//@launch k<<<(T), (2048)>>>(x, y)\nextern "C" __global__ void k(const void* x, void* y) {}\n' >"$work/threads.cu"
expect 1 "threads.cu:2:" evaluate "$task" "$work/threads.cu"
printf '//@kernelforge 1\n//@launch k<<<(T), (32)>>>(x, nothing)\nextern "C" __global__ void k(const void* x, void* y) {}\n' >"$work/name.cu"
expect 1 "name.cu:2:" evaluate "$task" "$work/name.cu" --json
json
printf '//@kernelforge 1\n//@launch k<<<(T), (32)>>>(x, y)\n#include </etc/passwd>\nextern "C" __global__ void k(const void* x, void* y) {}\n' >"$work/include.cu"
expect 1 "include.cu:3:" evaluate "$task" "$work/include.cu"
expect 2 "--depth" evaluate "$task" "$task/candidates/fast.cu" --depth deep
expect 2 "--workload 99" evaluate "$task" "$task/candidates/fast.cu" --workload 99
expect 2 "--workload 1: expected it once" evaluate "$task" "$task/candidates/fast.cu" --workload 1 --workload 1
expect 2 "excludes --repeat" evaluate "$task" --admit --repeat 2
expect 2 "excludes --bind" evaluate "$task" --admit --bind T=1
expect 2 "no llm_backend named" optimize "$task" --run "$work/run" --llm nobody
expect 2 "unknown" optimize "$task" --run "$work/run" --llm 'replay:{"fiel": "x"}'

if [ "$gpu" = 0 ]; then
    expect 0 "which --evaluator auto takes; times are modelled (static)" doctor
    expect 2 "auto: expected no options" evaluate "$task" "$task/candidates/fast.cu" --evaluator 'auto:{"threads": 1}'
    expect 3 "compiled and checked" evaluate "$task" "$task/candidates/fast.cu" --evaluator cuda --json
    json
    expect 3 "occupancy" profile "$task" "$task/candidates/fast.cu" --evaluator cuda
    # Every example compiles and its plan is right.
    for folder in "$source"/examples/tasks/*/; do
        for candidate in "$folder"candidates/*.cu; do
            expect 3 "plan and compilation are right" evaluate "$folder" "$candidate" --evaluator cuda
        done
    done
fi
[ "$failures" = 0 ] || { echo "$failures failures"; exit 1; }
