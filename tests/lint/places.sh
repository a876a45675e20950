#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/lint/places.sh - third-party headers, longjmp and walks over a graph are used only in certain files. Arguments:
# the C files.
bad=$(grep -lE '(setjmp|longjmp)\(' "$@" | grep -vE '^(template/jinja|runtime/vision/decode_(png|jpeg))\.c$')
[ -z "$bad" ] || echo "setjmp or longjmp outside template/jinja.c and the decoders of images:" $bad

while read -r header files; do
    bad=$(grep -lE "#include <$header>" "$@" 2>/dev/null | grep -vE "$files|^jobs/doctor\.c$")
    [ -z "$bad" ] || echo "$header included outside its place:" $bad
done <<EOF
zlib.h      ^(base|containers)/|^tests/
xxhash.h    ^base/
pcre2.h     ^text/|^tok/|^tests/
utf8proc.h  ^text/|^template/|^tests/
dlfcn.h     ^base/os_run\.c$|^tests/
yaml.h      ^containers/card_yaml\.c$
cjson/cJSON.h ^base/doc\.h$
histedit.h  ^cli/line\.c$
png.h       ^runtime/vision/decode_png\.c$
jpeglib.h   ^runtime/vision/decode_jpeg\.c$
EOF

# only graph.c and program.c walk over the nodes of a graph; others use struct graph_facts or walk over steps
bad=$(grep -lE '(for|while) \(.*(g|graph)(->|\.)n_nodes|= *[a-z>.-]*(g|graph)(->|\.)n_nodes;' "$@" |
    grep -vE '^(models/graph\.c|runtime/engine/program\.c|tests/.*)$')
[ -z "$bad" ] || echo "walks over the nodes of a graph (models/graph.h has facts about them):" $bad
