#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: quickstart.sh
# Installs what is missing (Debian, Ubuntu), builds, and does the main job: a task folder goes in, a verified kernel comes
# out, on a GPU a measured faster one. The model's completions are recorded ones, so no key is needed. Without a GPU candidates are
# executed and checked by the emulator, and times are modelled (docs/emulator.md).
#   KERNELFORGE_QUICKSTART_BUILD  folder of a build that is there: nothing is installed or built
#   KERNELFORGE_QUICKSTART_RUN    folder of the run; it must not be there (default: a new one under build/)
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

build=${KERNELFORGE_QUICKSTART_BUILD:-}
if [ -z "$build" ]; then
    build=build/release
    bash cmake/install_dependencies.sh
    say "building into $build"
    cmake --preset release -DKERNELFORGE_BUILD_TESTS=OFF -DKERNELFORGE_BUILD_EXAMPLES=OFF >/dev/null
    cmake --build --preset release --target kernelforge_program kernelforge_worker
fi
kernelforge=$build/bin/kernelforge
task=examples/tasks/add_rmsnorm
run=${KERNELFORGE_QUICKSTART_RUN:-}
if [ -z "$run" ]; then
    run=$build/quickstart-run
    rm -rf "$run"
elif [ -e "$run" ]; then
    echo "$run: expected no run there, found one" >&2
    exit 2
fi

say "what this machine has: kernelforge doctor"
"$kernelforge" doctor

# What the recording holds: a use of printf, which a guard refuses; a compile error, a race between threads and a
# wrong result, each with the repair that the message led to; among the right ones a slower and two faster ones.
search=("$kernelforge" optimize "$task" --run "$run" --evaluator auto --seed 1 --strategy 'greedy:{"max_expansions": 4}'
    --llm 'replay:{"file": "examples/recordings/quickstart.jsonl"}')

say "the main job: kernelforge optimize $task, interrupted at the first repair"
# Exit code 1: nothing has beaten the baseline so far.
"${search[@]}" >"$build/quickstart-interrupted.txt" &
process=$!
while kill -0 "$process" 2>/dev/null && ! grep -qs '"turn":1' "$run/archive.jsonl"; do sleep 0.1; done
kill -INT "$process" 2>/dev/null || true
wait "$process" || [ $? -eq 1 ]
grep '^stopped' "$build/quickstart-interrupted.txt" || echo "it was done before it could be interrupted"

say "the same command again goes on where it was: nothing that is archived is asked or judged twice"
"${search[@]}" >"$build/quickstart-result.txt"
say "the result, with the path of the winning .cu"
cat "$build/quickstart-result.txt"
