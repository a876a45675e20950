#!/bin/sh
# hone make and hone publish never lose a user's files: the results folder holds only published files; job state is kept
# next to it.
set -eu
. tests/making.sh
cp -r tests/golden/models/qwen3 "$t/Tiny"
make() { # expected exit, folder, more
    want=$1 folder=$2
    shift 2
    small_make "$want" "$folder" --plain --recipe Q8_0 "$@"
}
private() { # folder: the job's files are next to it, none in it
    [ ! -e "$1/.hone" ] || say "$1/.hone is there"
    [ -z "$(find "$1" -name '*BF16*')" ] || say "the base lies in $1"
    [ -e "$1.work/convert.json" ] && [ -e "$1.work/Tiny-BF16.gguf" ] || say "no records or base in $1.work: $(ls "$1.work")"
}

# ---- locations ----
make 0 "$t/out//"
private "$t/out"
base=$(stat -c '%i %Y' "$t/out.work/Tiny-BF16.gguf") file=$(stat -c '%i %Y' "$t/out/Tiny-Q8_0.gguf")
# without its lock, which is an empty file, the state is still recognized; blocks that an interrupted job left are removed, other files are not
rm "$t/out.work/lock"
printf 'hone-snap-v1\r\n\032\n' > "$t/out.work/block-Q2_K.gguf.blocks.part"
cp "$t/out.work/block-Q2_K.gguf.blocks.part" "$t/out/llama.gguf.blocks.part" # of quantize --sequential
make 0 "$t/out"
[ "$base" = "$(stat -c '%i %Y' "$t/out.work/Tiny-BF16.gguf")" ] || say "without its lock: the base was made again"
[ ! -e "$t/out.work/block-Q2_K.gguf.blocks.part" ] || say "the blocks of an interrupted job are left"
[ -e "$t/out/llama.gguf.blocks.part" ] || say "the blocks of a person's own job were removed"
rm "$t/out/llama.gguf.blocks.part"
# a folder of an earlier version is migrated, and nothing is made again
mv "$t/out.work" "$t/out/.hone"
mv "$t/out/.hone/Tiny-BF16.gguf" "$t/out/"
sed -i 's/"work:/"/' "$t/out/.hone/convert.json"
make 0 "$t/out"
private "$t/out"
[ "$base" = "$(stat -c '%i %Y' "$t/out.work/Tiny-BF16.gguf")" ] || say "the base was made again"
[ "$file" = "$(stat -c '%i %Y' "$t/out/Tiny-Q8_0.gguf")" ] || say "the quant was made again"
# a file that no longer matches its record stays where it is
mkdir "$t/old" && mv "$t/out.work" "$t/old/.hone" && mv "$t/out/Tiny-Q8_0.gguf" "$t/old/"
sed -i 's/"work:/"/' "$t/old/.hone/convert.json"
echo "mine" > "$t/old/Tiny-BF16.gguf" && mv "$t/old/.hone/Tiny-BF16.gguf" "$t/base.gguf"
make 2 "$t/old"
[ "$(cat "$t/old/Tiny-BF16.gguf")" = mine ] || say "a file of another was moved"
rm -r "$t/old" "$t/old.work"
# names that users may choose are untouched; the current folder has its state next to it too
mkdir -p "$t/here/x" "$t/foreign.work"
echo 1 > "$t/here/x/my.tmp-notes" && echo 1 > "$t/here/x/llama.gguf.part" && echo 1 > "$t/foreign.work/mine"
# shellcheck disable=SC2030,SC2031
(cd "$t/here/x" && case $HONE in /*) ;; *) HONE=$OLDPWD/$HONE ;; esac; make 0 .; exit $fail) || fail=1
private "$t/here/x"
[ -e "$t/here/x/my.tmp-notes" ] && [ -e "$t/here/x/llama.gguf.part" ] || say "a person's file was removed"
make 2 "$t/foreign"
grep -q "foreign.work" "$t/e" || say "foreign.work: $(cat "$t/e")"
[ ! -e "$t/foreign" ] || say "a refused job left a folder"

# ---- files of others, and edited ones ----
for f in README.md report.html results.json Modelfile model.yaml params SHA256SUMS manifest.json config.json imatrix.gguf Tiny-Q8_0.gguf; do
    rm -rf "$t/f" && mkdir "$t/f" && echo "my file" > "$t/f/$f"
    make 2 "$t/f"
    [ "$(cat "$t/f/$f")" = "my file" ] && [ "$(ls -A "$t/f")" = "$f" ] || say "$f was replaced: $(ls -A "$t/f")"
    grep -q "$f" "$t/e" && grep -q -- "-f" "$t/e" && [ "$(wc -l < "$t/e")" = 1 ] || say "$f: $(cat "$t/e")"
    [ ! -e "$t/f.work" ] || say "a refused job left its state"
done
make 0 "$t/f" -f
[ "$(cat "$t/f/Tiny-Q8_0.gguf.orig")" = "my file" ] || say "-f lost a file"
grep -q orig "$t/f/SHA256SUMS" "$t/f/manifest.json" && say "a file that is not ours is published"
make 0 "$t/f"
rm -rf "$t/f" "$t/f.work"
d=$t/here/x
for f in README.md report.html Modelfile model.yaml SHA256SUMS config.json; do
    cp "$d/$f" "$t/was"
    case $f in *.json) sed -i '1s/{/{ /' "$d/$f" ;; *) echo "# mine" >> "$d/$f" ;; esac
    cp "$d/$f" "$t/edited"
    make 2 "$d"
    run 2 publish "$d" --repo me/other --license mit --source "$t/Tiny"
    cmp -s "$d/$f" "$t/edited" || say "an edited $f was replaced"
    cp "$t/was" "$d/$f"
done
make 0 "$d" # no edits are left
cp "$d/results.json" "$t/was"
sed -i '1s/{/{ /' "$d/results.json"
make 2 "$d"
run 0 publish "$d" --repo me/other # what it must know is in the manifest too
[ "$(head -c 2 "$d/results.json")" = "{ " ] || say "edited results.json was replaced"
cp "$t/was" "$d/results.json"
run 0 publish "$d" --repo ''
# edited, with new checksums: still not hone's
echo "my words" >> "$d/README.md"
run 0 publish "$d" --manifest-only
run 2 publish "$d"
grep -q "my words" "$d/README.md" || say "an edited card was lost by way of --manifest-only"
run 0 publish "$d" -f
grep -q "my words" "$d/README.md.orig" || say "-f lost an edited card"
# an edited model is not made again over the edit; damaged data are
cp "$d/Tiny-Q8_0.gguf" "$t/good"
at=$(grep -abo "for m in messages\|general.type" "$d/Tiny-Q8_0.gguf" | head -1 | cut -d: -f1)
printf 'G' | dd of="$d/Tiny-Q8_0.gguf" bs=1 seek="$at" conv=notrunc 2> "$t/e"
make 2 "$d"
printf 'X' | dd if="$t/good" of="$d/Tiny-Q8_0.gguf" bs=1 skip="$at" seek="$at" count=1 conv=notrunc 2> "$t/e"
printf 'XYZ' | dd of="$d/Tiny-Q8_0.gguf" bs=1 seek=500000 conv=notrunc 2> "$t/e"
make 0 "$d"
cmp -s "$d/Tiny-Q8_0.gguf" "$t/good" || say "a damaged model was not made again"
# without its state the folder is still recognized as hone's
rm -r "$d.work"
make 0 "$d"
# an edit while a job runs: the card stays, the new one is written next to it
echo "in the night" >> "$d/README.md"
cp "$d/README.md" "$t/edited"
(make 0 "$d" -f --recipes Q8_0; exit $fail) || fail=1
grep -q "in the night" "$d"/README.md* || say "an edit was lost"

# ---- a folder of results belongs to one model ----
another() { # what, arguments: refused in one line, with and without -f, and nothing in $d or $d.work changes
    what=$1
    shift
    sums=$(find "$d" "$d.work" -type f -exec sha256sum {} + | sort)
    for f in "" -f --dry-run; do
        run 2 make "$@" --plain --recipes Q8_0 --eval "$t/eval.txt" --calib "$t/calib.txt" --tools none ${f:+$f}
        [ "$(wc -l < "$t/e")" = 1 ] && grep -qe "-o" "$t/e" || say "$what: $(cat "$t/e")"
        [ "$sums" = "$(find "$d" "$d.work" -type f -exec sha256sum {} + | sort)" ] || say "$what: the first job was touched"
    done
}
rm -f "$d"/*.orig* && make 0 "$d"
cp -r "$t/Tiny" "$t/Other"
another "a model of another name" "$t/Other" -o "$d"
grep -q "job of another model (Tiny, from" "$t/e" || say "$(cat "$t/e")"
another "another name" "$t/Tiny" -o "$d" --name Big
grep -q "under the name Tiny: continue with --name Tiny" "$t/e" || say "another name: $(cat "$t/e")"
mkdir "$t/elsewhere" && cp -r tests/golden/models/mistral "$t/elsewhere/Tiny"
run 2 make "$t/elsewhere/Tiny" -o "$d" --plain --recipes Q8_0 --eval "$t/eval.txt" --calib "$t/calib.txt" --tools none
grep -q "job of another model" "$t/e" || say "a model of the same name: $(cat "$t/e")"
mv "$d" "$t/results"
run 2 make "$t/elsewhere/Tiny" -o "$d" --plain --recipes Q8_0 --eval "$t/eval.txt" --calib "$t/calib.txt" --tools none
[ "$(wc -l < "$t/e")" = 1 ] && [ ! -e "$d" ] || say "its state alone: $(cat "$t/e")"
mv "$t/results" "$d"
mv "$d.work" "$t/state"
run 2 make "$t/Other" -o "$d" --plain --recipes Q8_0
grep -q "job of another model" "$t/e" || say "without its state: $(cat "$t/e")"
mv "$t/state" "$d.work"
cp -r "$t/Tiny" "$t/moved" && mkdir "$t/place" && mv "$t/moved" "$t/place/Tiny"
run 0 make "$t/place/Tiny" -o "$d" --plain --recipes Q8_0 --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 --tg 2 --reps 1 --tools none \
    --eval "$t/eval.txt" --calib "$t/calib.txt" # the same model in another place continues
# different weights under the same path, in a folder and in a file; a different card with the same weights resumes
cp -r "$t/Tiny" "$t/keep"
"$HONE" convert "$t/Tiny" -o "$t/file.gguf" -q > "$t/o"
small() { run "$1" make "$2" -o "$3" --plain --recipes Q8_0 --eval "$t/eval.txt" --calib "$t/calib.txt" --tools none --ctx 64 --chunks 2 --calib-ctx 64 --pp 4 --tg 2 --reps 1; }
small 0 "$t/file.gguf" "$t/of-file"
echo "# another card" >> "$t/Tiny/README.md" && make 0 "$d"
printf 'XYZ' | dd of="$t/Tiny/model.safetensors" bs=1 seek=200000 conv=notrunc 2> "$t/e"
another "other weights at the same path" "$t/Tiny" -o "$d"
grep -q "before its weights changed" "$t/e" || say "other weights: $(cat "$t/e")"
"$HONE" convert "$t/Tiny" -o "$t/file.gguf" -f -q > "$t/o"
small 2 "$t/file.gguf" "$t/of-file"
# the manifest alone suffices: by its entry for the source, and by the names of the files
mv "$d.work" "$t/state" && mv "$d/results.json" "$t/results"
for how in source names; do
    cp "$d/manifest.json" "$t/manifest"
    [ $how = source ] || sed -i '/"source": {/,/}/d' "$d/manifest.json"
    run 2 make "$t/Other" -o "$d" --plain --recipes Q8_0
    grep -q "job of another model (Tiny" "$t/e" || say "manifest alone, $how: $(cat "$t/e")"
    [ $how = names ] || run 2 make "$t/Tiny" -o "$d" --plain --recipes Q8_0
    cp "$t/manifest" "$d/manifest.json"
done
mv "$t/state" "$d.work" && mv "$t/results" "$d/results.json"
rm -r "$t/Tiny" && mv "$t/keep" "$t/Tiny" && make 0 "$d"
# a different model's source folder, and an unwritable location: the dry run reports the same as the run
echo 1 > "$t/plain"
for o in "$t/Other" "$t/plain/out" "$t/plain" /proc/out; do
    for f in "" -f; do
        was=0
        "$HONE" make "$t/Tiny" -o "$o" --plain --recipes Q8_0 ${f:+$f} > "$t/o" 2> "$t/said" || was=$?
        run "$was" make "$t/Tiny" -o "$o" --plain --recipes Q8_0 --dry-run ${f:+$f}
        [ "$was" != 0 ] && [ "$(wc -l < "$t/e")" = 1 ] && cmp -s "$t/said" "$t/e" || say "-o $o: $(cat "$t/said" "$t/e")"
    done
done
[ ! -e "$t/Other.work" ] && [ -z "$(find "$t" -name '.hone-probe*')" ] || say "a refused job or a dry run left something"
ln -s Tiny "$t/link"
for o in "$t/Tiny" "$t/Tiny/" "$t/Tiny/quants" "$t/link/a/b" "$t/place/../Tiny"; do
    run 2 make "$t/Tiny" -o "$o" --plain --recipes Q8_0
    grep -q "model's own folder" "$t/e" || say "-o $o: $(cat "$t/e")"
    [ -z "$(find "$t/Tiny" "$t" -maxdepth 1 -name 'quants*' -o -maxdepth 1 -name 'Tiny.work')" ] || say "-o $o was made"
done
make 0 "$t/Tiny-quants" # next to it
# a foreign model in the folder, an unreadable one, and a source inside it; a projector is allowed
(cd "$t" && mkdir theirs && cp file.gguf theirs/mine.gguf && mkdir broken && head -c 5000 file.gguf > broken/cut.gguf)
for f in theirs/mine broken/cut; do
    sum=$(cksum < "$t/$f.gguf")
    for more in "" --dry-run; do
        small_make 2 "$t/${f%/*}" --plain --recipe Q8_0 ${more:+$more}
        grep -q "${f#*/}.gguf" "$t/e" && grep -q -- "-o" "$t/e" && [ "$(wc -l < "$t/e")" = 1 ] || say "$f: $(cat "$t/e")"
    done
    [ "$sum" = "$(cksum < "$t/$f.gguf")" ] && [ "$(ls -A "$t/${f%/*}")" = "${f#*/}.gguf" ] && [ ! -e "$t/${f%/*}.work" ] || say "$f: touched"
    small_make 0 "$t/${f%/*}" --plain --recipe Q8_0 -f
    [ "$sum" = "$(cksum < "$t/$f.gguf.orig")" ] || say "$f: lost by -f"
    grep -q "${f#*/}" "$t/${f%/*}/SHA256SUMS" && say "$f: published"
done
mkdir "$t/vision" && "$HONE" convert tests/golden/models/qwen35 --mmproj "$t/vision/mmproj-x.gguf" -q > "$t/o" 2> "$t/e"
small_make 0 "$t/vision" --plain --recipe Q8_0
grep -q mmproj-x.gguf "$t/vision/SHA256SUMS" || say "a projector is not published"
mkdir "$t/with" && cp "$t/file.gguf" "$t/with/x.gguf"
small 2 "$t/with/x.gguf" "$t/with"
grep -q "with/x.gguf is inside" "$t/e" && [ "$(ls -A "$t/with")" = x.gguf ] || say "a source in the folder: $(cat "$t/e")"
# shellcheck disable=SC2031
(cd "$t/with" && case $HONE in /*) ;; *) HONE=$OLDPWD/$HONE ;; esac; small 2 x.gguf .; exit $fail) || fail=1
# above the source, which would be published, too; within the results or the state of a different job
was=$(find "$t" | sort)
(cd "$t/Tiny" && run 2 make . -o .. --plain --recipes Q8_0)
run 2 make "$t/Tiny" -o "$t/link/.." --plain --recipes Q8_0
grep -q "contains the model's own folder" "$t/e" || say "above the source: $(cat "$t/e")"
for o in "$d/more" "$d/a/b" "$d.work" "$d.work/more"; do
    for m in "$t/Other" "$t/Tiny"; do
        run 2 make "$m" -o "$o" --plain --recipes Q8_0 -f
        grep -q "of another job (Tiny)" "$t/e" || say "-o $o: $(cat "$t/e")"
    done
done
[ "$was" = "$(find "$t" | sort)" ] || say "a refused place was written to"

# ---- the publisher's words ----
printf 'Made with care.\n' > "$t/words"
rm -f "$d"/*.orig*
run 0 publish "$d" --notes "$t/words"
grep -q "Made with care" "$d/README.md" || say "no notes"
sed -i 's/with care/by hand/' "$d/README.md"
run 0 publish "$d" --repo me/Tiny-GGUF --license mit --base-model you/Tiny --quantized-by me --language en,fr --tags tiny --name "Tiny One"
grep -q "Made by hand" "$d/README.md" || say "notes were not kept"
make 0 "$d"
grep -q "Made by hand" "$d/README.md" || say "notes were not kept by make"

# ---- facts are given once ----
facts() { # folder
    for l in '^license: "\{0,1\}mit' '^base_model: "you/Tiny"' '^quantized_by: "me"' '^- "en"' '^- "fr"' '^- "tiny"' '^# Tiny One' 'me/Tiny-GGUF'; do
        grep -q "$l" "$1/README.md" || say "$2: no $l in $(head -30 "$1/README.md")"
    done
}
facts "$d" "after make"
run 0 publish "$d" --license mit
facts "$d" "after publish"
# on another machine, and in a folder without measurements
mkdir "$t/copy" && cp "$d/Tiny-Q8_0.gguf" "$d/README.md" "$d/manifest.json" "$d/SHA256SUMS" "$t/copy/"
run 0 publish "$t/copy"
facts "$t/copy" "in a copy"
run 0 publish "$d" --license apache-2.0
grep -q '^license: "\{0,1\}apache-2.0' "$d/README.md" && grep -q '"license": "apache-2.0"' "$d/results.json" || say "a fact given anew was not taken"

# ---- facts of the source's card ----
cat > "$t/Tiny/README.md" <<'END'
---
license: other # see below
license_name: tiny-license
license_link: "https://huggingface.co/acme/Tiny/blob/main/LICENSE"
language: [en,
  de]
base_model:
- acme/Tiny-Base
tags: ["chat", 'safetensors']
pipeline_tag: text-generation
library_name: transformers
---
# Tiny
    AutoModel.from_pretrained("acme/Tiny")
END
make 0 "$t/src" --repo me/Tiny-GGUF --quantized-by me
for l in '^license: "\{0,1\}other' '^license_name: "\{0,1\}tiny-license' '^license_link: "https' '^base_model: "acme/Tiny"' '^- "en"' '^- "de"' '^- "chat"' 'me/Tiny-GGUF'; do
    grep -q "$l" "$t/src/README.md" || say "from the source: no $l in $(head -30 "$t/src/README.md")"
done
grep -q safetensors "$t/src/README.md" && say "the source's format is a tag"
run 0 publish --check "$t/src"
# a changed card of the source replaces what an earlier one said, but no option; without the source, the saved facts count
sed -i 's/^license: .*/license: mit/; /^license_/d; /AutoModel/d' "$t/Tiny/README.md"
run 0 publish "$t/src" --source "$t/Tiny" --language fr
for l in '^license: "\{0,1\}mit' '^- "fr"' '^- "chat"' 'me/Tiny-GGUF'; do grep -q "$l" "$t/src/README.md" || say "changed source: no $l"; done
grep -q '^license_' "$t/src/README.md" && say "the name of a license that the source no longer has"
run 0 publish "$t/src"
for l in '^license: "\{0,1\}mit' '^- "fr"' 'me/Tiny-GGUF'; do grep -q "$l" "$t/src/README.md" || say "without the source: no $l"; done
# base_model of a source of unknown origin is the model that it was trained from
make 0 "$t/tuned"
grep -q 'acme' "$t/tuned/README.md" && say "the parent of the source is named: $(grep acme "$t/tuned/README.md")"
run 0 publish "$t/tuned"
grep -q -- '--base-model' "$t/e" || say "nobody asks for the base model: $(cat "$t/e")"
sed -i 1d "$t/Tiny/README.md"
make 0 "$t/none"
run 1 publish --check "$t/none"
grep -q -- "--license" "$t/e" || say "no remedy: $(cat "$t/e")"
exit $fail
