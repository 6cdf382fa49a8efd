#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tasks.sh BIN_FOLDER [TASK ...]
# Judges the candidates of the example tasks on the emulator, with their checker: those whose names begin with `wrong`
# are refused, all others are ok, or use what the emulator does not execute (rule not_emulated). One line a candidate with
# the seconds that its evaluation took; ends with 1 if any verdict is another.
set -u
bin=$(realpath "$1")
shift
cd "$(dirname "$0")/../../examples/tasks" || exit 2
[ $# -gt 0 ] || set -- */

read_answer='
import json, sys
answer = json.loads(sys.stdin.read().splitlines()[-1])
one = answer["evaluations"][0] if answer.get("evaluations") else answer
if "error" in one:
    one = {"status": one["error"]["code"], "message": one["error"]["message"]}
rule = one.get("rule") or "-"
seconds = one.get("total_time", 0)
message = " ".join(str(one.get("message") or "").split())[:160]
print(one["status"], rule, "%.2f" % seconds, message)
'

failures=0
for task in "$@"; do
    task=${task%/}
    for candidate in "$task"/reference.cu "$task"/baseline.cu "$task"/candidates/*.cu; do
        read -r status rule seconds message < <("$bin/kernelforge" --json evaluate "$task" "$candidate" \
            --evaluator emulator --depth check --time-limit 240 2>/dev/null | python3 -c "$read_answer" 2>&1)
        right=no
        case $(basename "$candidate") in
            wrong*) [ "$status" = wrong_result ] || [ "$rule" = emulator_checker ] || [ "$status" = crashed ] && right=yes ;;
            *) [ "$status" = ok ] && right=yes ;;
        esac
        [ "$rule" = not_emulated ] && right=yes
        [ "$right" = yes ] || failures=$((failures + 1))
        printf '%-46s %-14s %-16s %6s s %s %s\n' "$candidate" "$status" "$rule" "$seconds" \
            "$([ "$right" = yes ] || echo UNEXPECTED)" "$message"
    done
done
printf '%d unexpected\n' "$failures"
[ "$failures" -eq 0 ]
