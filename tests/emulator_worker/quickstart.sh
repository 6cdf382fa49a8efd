#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: quickstart.sh BUILD_FOLDER
# The whole loop on the machine at hand, by examples/quickstart.sh with a build that is there: what it shows must be
# there, interruption and resume included.
set -eu
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "$0")/../.."
KERNELFORGE_QUICKSTART_BUILD=$build KERNELFORGE_QUICKSTART_RUN=$work/run XDG_CACHE_HOME=$work/cache \
    bash examples/quickstart.sh >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
failures=0
says() { grep -qE -- "$1" "$work/out" || { echo "not said: $1"; failures=$((failures + 1)); }; }
holds() { grep -qE -- "$1" "$work/run/archive.jsonl" || { echo "not archived: $1"; failures=$((failures + 1)); }; }
says '^stopped: a stop was requested'
says '^nothing_to_ask: '
says "best candidate: $work/run/best.cu"
says 'going on after'
holds '"outcome":"guarded"'
holds '"status":"compile_error"'
holds '"status":"wrong_result"'
[ -s "$work/run/best.cu" ] || { echo "no best.cu"; failures=$((failures + 1)); }
if grep -qF '"times": "modelled (static)"' "$work/run/run.json"; then
    says 'candidates run on the emulator, whose times are modelled \(static\)'
    says 'best, modelled \(static\)'
    holds '"rule":"emulator_checker"'
fi
[ "$failures" -eq 0 ] || { cat "$work/out"; echo "$failures failures"; exit 1; }
