#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: quickstart.sh
# Installs what is missing (Debian, Ubuntu), builds, and does the main job: a task folder goes in, a verified faster
# kernel comes out. The model's completions are recorded ones, so no key is needed. Without a GPU it shows what can
# be shown there: compilation, plan check, static facts.
set -euo pipefail
cd "$(dirname "$0")/.."
bash cmake/install_dependencies.sh
cmake --preset release -DKERNELFORGE_BUILD_TESTS=OFF -DKERNELFORGE_BUILD_EXAMPLES=OFF >/dev/null
cmake --build --preset release --target kernelforge_program kernelforge_worker
kernelforge=build/release/bin/kernelforge
task=examples/tasks/add_rmsnorm

say() { printf '\n== %s\n' "$*"; }

say "what this machine has: kernelforge doctor"
if "$kernelforge" doctor; then
    run=${KERNELFORGE_QUICKSTART_RUN:-quickstart-run}
    say "the main job: kernelforge optimize $task"
    "$kernelforge" optimize "$task" --run "$run" --generations 4 --rounds 3 --seed 1 \
        --llm 'replay:{"file": "examples/recordings/add_rmsnorm.jsonl"}'
    exit 0
fi

say "no GPU here, so nothing is run or timed; what compilation alone shows follows"
"$kernelforge" profile "$task" "$task/candidates/fast.cu" --workload 0 --workload 13 || true
say "a candidate whose plan is wrong is refused before it is compiled"
broken=$(mktemp -d)
trap 'rm -rf "$broken"' EXIT
sed 's/<<<(T), (THREADS)>>>/<<<(T), (4 * THREADS)>>>/' "$task/candidates/fast.cu" >"$broken/too_many_threads.cu"
"$kernelforge" evaluate "$task" "$broken/too_many_threads.cu" || true
say "one that does not compile is refused with its own line"
sed 's/uint4 out;/uint4 result;/' "$task/candidates/fast.cu" >"$broken/does_not_compile.cu"
"$kernelforge" evaluate "$task" "$broken/does_not_compile.cu" || true
say "on a machine with a GPU the same command runs the whole search on $task"
