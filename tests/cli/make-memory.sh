#!/bin/sh
# hone make applies --max-memory and --time in the same way in the forecast and in the run, and reports which of them
# caused parts to be left out.
set -eu
. tests/making.sh
cp -r tests/golden/models/qwen3 "$t/Tiny"
make() { # folder, more
    folder=$1
    shift
    small_make 0 "$t/$folder" --recipe Q4_K_M "$@"
}

# ---- memory ----
# too little for error feedback: forecast and run report it, name a sufficient size, and agree on the rest
make x --time 0 --max-memory 20MiB --dry-run --json
cp "$t/o" "$t/dry"
[ "$(number feedback "$t/dry")" = false ] || say "feedback within 20 MiB: $(cat "$t/dry")"
[ "$(number buffer_bytes "$t/dry")" -le 20971520 ] || say "buffers of $(number buffer_bytes "$t/dry") bytes within 20 MiB"
what=$(grep -o 'error feedback: needs [^"]*' "$t/dry") || say "no word on memory: $(cat "$t/dry")"
make few --time 0 --max-memory 20MiB
grep -qF "skipped: $what" "$t/e" || say "the run does not say '$what': $(cat "$t/e")"
grep -qF "$what" "$t/few/results.json" || say "results.json does not say '$what'"
size=$(echo "$what" | sed -n 's/.*--max-memory \([0-9]*[MG]iB\) would.*/\1/p')
[ -n "$size" ] || say "no remedy in '$what'"
# with that size both include it, and nothing is left out
make x --time 0 --max-memory "$size" --dry-run --json
[ "$(number feedback "$t/o")" = true ] || say "$size does not bring it back: $(cat "$t/o")"
limit=$(number buffer_bytes "$t/o") rest=$(grep -o 'output gradients in error feedback: needs [^"]*' "$t/o" || true)
make few --time 0 --max-memory "$size"
grep -q "with error feedback" "$t/e" || say "no error feedback with $size: $(cat "$t/e")"
if grep -q '"error feedback: needs' "$t/few/results.json"; then say "results.json still leaves it out"; fi
[ -z "$rest" ] || grep -qF "$rest" "$t/few/results.json" || say "results.json does not say '$rest'"
[ "$limit" -gt 20971520 ] || say "buffers of $limit bytes"
# an earlier run without memory for the moments, which its record tells: the same command keeps that, a new plan tries again
lose_moments() { # folder
    record=$t/$1.work/imatrix.json
    tr '\n' ' ' < "$record" | sed 's/, *{ *"file": "work:gram.gguf"[^}]*}//; s/"result": {[^}]*}/"result": {"left_out": "error feedback: no memory"}/' > "$t/record"
    mv "$t/record" "$record" && rm "$t/$1.work/gram.gguf"
}
lose_moments few
make few --time 0 --max-memory "$size"
[ ! -e "$t/few.work/gram.gguf" ] && grep -q '"error feedback: no memory"' "$t/few/results.json" || say "the record's gap is not reported: $(cat "$t/e")"
make few --time 100h --max-memory "$size"
[ -e "$t/few.work/gram.gguf" ] || say "a new plan did not collect the moments: $(cat "$t/e")"
if grep -q '"error feedback: no memory"' "$t/few/results.json"; then say "error feedback is said to be left out"; fi
# a mix of --budget made without moments is made again once they are there
make mix --time 0 --budget 500K
lose_moments mix
rm "$t/mix.work/quantize-500K-mix.json"
make mix --time 0 --budget 500K
[ ! -e "$t/mix.work/gram.gguf" ] && grep -q "making the best mix" "$t/e" || say "no mix without moments: $(cat "$t/e")"
make mix --time 100h --budget 500K
[ -e "$t/mix.work/gram.gguf" ] && grep -q "making the best mix" "$t/e" || say "a mix without moments is kept: $(cat "$t/e")"
# another failure does not turn error feedback off: the job ends, and the same command continues. Here, no file may have
# more than two thirds of the bytes of the moments.
(
    trap '' XFSZ
    ulimit -f $(($(wc -c < "$t/few.work/gram.gguf") / 768))
    small_make 4 "$t/limited" --recipe Q4_K_M --time 0
    exit $fail
) || fail=1
grep -q gram.gguf "$t/e" && ! grep -q "without error feedback" "$t/e" || say "moments that cannot be written: $(cat "$t/e")"
make limited --time 0
grep -q "with error feedback" "$t/e" || say "no error feedback once they can be written: $(cat "$t/e")"
# the given size decides, not free memory: far more than this machine has gives the full plan
make x --time 0 --max-memory 1000000GiB --dry-run --json
[ "$(number feedback "$t/o")" = true ] || say "feedback with all memory: $(cat "$t/o")"
if grep -q left_out "$t/o"; then say "left out with all memory: $(cat "$t/o")"; fi
# short passes change no results
make a --plain --time 0 --max-memory 20MiB && make b --plain --time 0
cmp "$t/a/Tiny-Q4_K_M.gguf" "$t/b/Tiny-Q4_K_M.gguf" || say "the file depends on --max-memory"
for i in a b; do grep -o '"mean_kld": [0-9.e-]*' "$t/$i/results.json" > "$t/$i.kld"; done
cmp "$t/a.kld" "$t/b.kld" || say "divergences depend on --max-memory"

# a deep context counts
run 4 make "$t/Tiny" -o "$t/x" --plain --recipe Q8_0 --time 0 --max-memory 200MiB --depths 0,1000000 --dry-run
grep -q 'measurements alone take' "$t/e" || say "--depths: no word on memory: $(cat "$t/e")"
# the dry run prints ok only if the run completes
for size in 1MiB 6MiB 14MiB 20MiB; do
    how="make $t/Tiny -o $t/least --calib $t/calib.txt --eval $t/eval.txt --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 --tg 2 --reps 1 --tools none
        --plain --recipe Q8_0 --time 0 --max-memory $size"
    dry=0 rc=0
    # shellcheck disable=SC2086
    "$HONE" $how --dry-run > "$t/o" 2> "$t/e" || dry=$?
    # shellcheck disable=SC2086
    "$HONE" $how > "$t/o" 2> "$t/e" || rc=$?
    [ "$dry" != 0 ] || [ "$rc" = 0 ] || say "--max-memory $size: the dry run says ok, the run says $(cat "$t/e")"
    case $size in
    1MiB) [ "$dry" = 4 ] && [ "$rc" = 4 ] || say "1 MiB: the dry run exits $dry, the run $rc" ;;
    20MiB) [ "$dry" = 0 ] || say "20 MiB are not enough: $(cat "$t/e")" ;;
    esac
done

# ---- disk ----
# a disk that the job does not fit on is refused before the work, in the forecast and, once begun, in the run
small() { # size of a file system at $t/small, commands
    unshare -m sh -c "mount -t tmpfs -o size=$1 none '$t/small' && { $2; }"
}
mkdir "$t/small"
HONE_JOB="\"$HONE\" make '$t/Tiny' -o '$t/small/out' --calib '$t/calib.txt' --eval '$t/eval.txt' --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 --tg 2 --reps 1 --tools none --recipe Q4_K_M"
HONE_JOB_IN=$(echo "$HONE_JOB" | sed "s|'$t/Tiny'|'$t/small/m'|; s|Q4_K_M|Q8_0,Q6_K,Q4_K_M --plain --consume|")
if small 100k true 2> /dev/null; then
    small 100k "$HONE_JOB --dry-run" > "$t/o" 2> "$t/e" || say "the forecast of a small disk: $(cat "$t/e")"
    head -1 "$t/o" | grep -q "Note: not enough space for .*small/out: [0-9]* bytes needed, 102400 free" || say "no word on the disk: $(head -1 "$t/o")"
    # a temporary folder without room for the base: the forecast is a guess
    small 100k "TMPDIR='$t/small' $HONE_JOB --dry-run" > "$t/o" 2> "$t/e" || say "the forecast with a small TMPDIR: $(cat "$t/e")"
    for time in "" "--time 0"; do
        rc=0
        small 100k "$HONE_JOB $time; rc=\$?; ls -A '$t/small'; exit \$rc" > "$t/o" 2> "$t/e" || rc=$?
        [ $rc = 4 ] && grep -q "error: not enough space for .*small/out" "$t/e" || say "a small disk $time: exit $rc: $(cat "$t/e")"
        [ ! -s "$t/o" ] || say "refused, but something was written: $(cat "$t/o")"
        # with --consume, no shard is deleted for a job that does not fit
        rc=0
        small 3100k "cp -r '$t/Tiny' '$t/small/m' && $HONE_JOB_IN $time; rc=\$?; ls '$t/small/m'/*.safetensors; exit \$rc" > "$t/o" 2> "$t/e" || rc=$?
        [ $rc = 4 ] && grep -q "error: not enough space for .*small/out" "$t/e" && grep -q model.safetensors "$t/o" ||
            say "--consume on a small disk $time: exit $rc: $(cat "$t/o" "$t/e")"
    done
    small 100m "$HONE_JOB && \"$HONE\" verify '$t/small/out'" > "$t/o" 2> "$t/e" || say "a disk that is large enough: $(cat "$t/e")"
else
    echo "note: no right to mount a small file system; full disk not tried"
fi

# ---- time ----
run 0 make "$t/Tiny" -o "$t/y" --plain --time 0 --dry-run --calib "$t/calib.txt" --eval "$t/eval.txt"
grep -q "limit of --time" "$t/o" && say "no limit is a limit: $(cat "$t/o")"
make x --time 0.0001s --dry-run
head -1 "$t/o" | grep -q "cannot be met: even presets" || say "no word on the time: $(head -1 "$t/o")"
small_make 4 "$t/c" --recipe Q4_K_M --time 0.0001s
grep -q "error: --time (.*) cannot be met" "$t/e" || say "the run does not say that the time is too short: $(cat "$t/e")"
run 0 make "$t/Tiny" -o "$t/y" --plain --recipe bartowski-Q4_K_L --dry-run --calib "$t/calib.txt" --eval "$t/eval.txt"
grep -q "^Tiny-like-bartowski-Q4_K_L.gguf" "$t/o" || say "the forecast has another name than the job: $(cat "$t/o")"
small_make 2 "$t/y" --plain --recipe Q8_0 --name "$(printf %0200d 7)"
grep -q 'has 200 characters' "$t/e" || say "a name that is too long: $(cat "$t/e")"
[ ! -e "$t/y.work" ] || say "a name that is too long: something was written"
small_make 0 "$t/it's" --plain --recipe Q8_0
grep -q "hone serve '.*/it'.''s/Tiny-Q8_0.gguf'" "$t/o" || say "the folder is not quoted: $(cat "$t/o")"
make x --time 10h --dry-run
if grep -q "cannot be met" "$t/o"; then say "10 hours are said to be too few"; fi
exit $fail
