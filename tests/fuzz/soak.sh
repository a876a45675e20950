#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/fuzz/soak.sh BIN_DIR OUT_DIR CPU_SECONDS TARGET... - runs each libFuzzer target of `make fuzz` until it has used
# that much processor time, and writes OUT_DIR/TARGET.json: executions, coverage, findings. The corpus is kept in
# OUT_DIR/corpus/TARGET, failing inputs in OUT_DIR/TARGET-crash-*. Seconds and executions of earlier runs count: the
# next run completes an interrupted one. Remove OUT_DIR/*.json to start over.
# TARGET:KIND is one kind of a target that has several (fuzz_grammar.c), with the corpus of the whole target.
# An input may take 120 s, or FUZZ_TIMEOUT: libFuzzer counts wall time, and a process may be suspended for long on a
# busy machine.
set -eu
[ $# -ge 4 ] || { sed -n '3,6p' "$0"; exit 2; }
bin=$1 out=$2 limit=$3
shift 3
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
for t in "$@"; do
    mkdir -p "$out/corpus/$t"
    had=$(sed -n 's/.*"cpu_seconds": \([0-9]*\).*/\1/p' "$out/$t.json" 2>/dev/null || true)
    ran=$(sed -n 's/.*"executions": \([0-9]*\).*/\1/p' "$out/$t.json" 2>/dev/null || true)
    had=${had:-0} ran=${ran:-0}
    [ "$had" -lt "$limit" ] || continue
    seeds="$root/tests/fuzz/corpus/${t%%:*}"
    case $t in
    *:*) export FUZZ_KIND="${t#*:}" ;;
    *) unset FUZZ_KIND ;;
    esac
    "$bin/fuzz_${t%%:*}" -timeout="${FUZZ_TIMEOUT:-120}" -report_slow_units=60 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$out/$t-" \
        "$out/corpus/$t" "$seeds" >"$out/$t.log" 2>&1 &
    pid=$!
    used=0
    while now=$(ps -o cputimes= -p $pid) && [ -n "$now" ]; do
        used=$((now))
        # USR1 is libFuzzer's request to end and print its counts
        [ $((had + used)) -lt "$limit" ] || kill -USR1 $pid 2>/dev/null || true
        sleep 1
    done
    rc=0
    wait $pid || rc=$?
    stat() { sed -n "s/^stat::$1: *//p" "$out/$t.log" | tail -1; }
    cov=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$out/$t.log" | tail -1)
    found=$(find "$out" -maxdepth 1 -name "$t-*" | wc -l)
    printf '{"target": "%s", "cpu_seconds": %d, "executions": %s, "seeds": %d, "corpus": %d, "edges": %s, "peak_rss_mib": %s, "findings": %d, "exit": %d}\n' \
        "$t" $((had + used)) $((ran + $(stat number_of_executed_units | grep . || echo 0))) "$(find "$seeds" -type f | wc -l)" \
        "$(find "$out/corpus/$t" -type f | wc -l)" "${cov:-0}" "$(stat peak_rss_mb | grep . || echo 0)" "$found" $rc >"$out/$t.json"
    cat "$out/$t.json"
done
