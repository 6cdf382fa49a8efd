#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_readme.sh SOURCE_FOLDER [--write]: the program in README.md is the one in examples/01_optimize.cpp.
set -eu
cd "$1"
program=$(sed -n '/^\/\/ README: begin$/,/^\/\/ README: end$/p' examples/01_optimize.cpp | sed '1d;$d')
if [ "${2:-}" = --write ]; then
    program="$program" awk '/^```cpp$/ && !done {print; print ENVIRON["program"]; skip = 1; done = 1; next} /^```$/ {skip = 0} !skip {print}' README.md >README.md.new
    mv README.md.new README.md
fi
shown=$(sed -n '/^```cpp$/,/^```$/p' README.md | sed '1d;$d')
[ "$program" = "$shown" ] || { echo "README.md shows another program than examples/01_optimize.cpp; run: sh tests/package/check_readme.sh . --write"; exit 1; }
