#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_symbols.sh plugin.so: fails unless `kernelforge_plugin` is all that it exports.
set -eu
exported=$(nm -D --defined-only "$1" | awk '{print $3}' | sort | tr '\n' ' ')
if [ "$exported" != "kernelforge_plugin " ]; then
    echo "$1 exports: $exported"
    echo "expected only: kernelforge_plugin"
    exit 1
fi
if undefined=$(nm -D --undefined-only "$1" | awk '{print $2}' | c++filt | grep kernelforge::); then
    echo "$1 leaves undefined: $undefined"
    exit 1
fi
