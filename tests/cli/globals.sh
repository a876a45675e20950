#!/bin/sh
# No mutable global state: every writable variable of the program that is not thread-local is in the list below, with
# the reason. Variables are found in the objects' symbols (sections .data, .bss, .tdata, .tbss, COMMON), so no form of
# declaration can hide one. Two jobs in separate contexts (base/ctx.h) share nothing else.
set -eu
all=$(dirname "$HONE")/all.a
command -v objdump > /dev/null && [ -e "$all" ] || { echo "SKIP: no objdump, or no $all"; exit 77; }
[ -z "${SANF:-}" ] || { echo "SKIP: a sanitizer adds variables of its own"; exit 77; }
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
. tests/expect.sh

# object:variable, as shell patterns: compilers append a number to the name of a function's static variable, or prepend
# the function
allowed() {
    case $1 in
    # the process's context, for threads that have entered none; a thread's pointers to its context and cost budget, and
    # its current chunk
    ctx.o:process | ctx.o:current | ctx.o:cost | pool.o:inside) ;;
    # filled once, by pthread_once, and only read afterwards
    grid.o:grid | grid.o:grid_once | grid_near.o:tables | grid_near.o:once | gridq.o:levels | gridq.o:lowest) ;;
    gridq.o:levels_once | kern.o:amx_once | kern.o:amx_agrees | blas.o:blas_once | blas.o:blas_lib) ;;
    grid_around.o:lists | grid_around.o:lock) ;; # filled once, under a lock
    # the machine's abilities, measured once under a lock
    speed.o:*known* | speed.o:*lock* | agree.o:*known* | agree.o:*lock*) ;;
    # data for signal handlers, which have no context: temporaries to remove, maps that may be truncated (under a lock)
    out.o:temps | out.o:temp_count | map.o:live | map.o:n_live | map.o:lock | main.o:*busy* | os_run.o:map_fault_handler) ;;
    os_run.o:hangup_handler) ;; # the same
    # the terminal; a process has only one
    chat_line.o:asked | chat_line.o:ended | line.o:tty | line.o:have_tty | line.o:resized | line.o:continued | line.o:wake_fd) ;;
    # set only by interruption tests
    gguf_edit.o:gguf_edit_hook) ;;
    # set once, atomically: the driver's context belongs to the process, and a permanent error ends it for all jobs
    # devices that were opened: only these can be lost, and each is described once
    ctx.o:_ZL4lost | ctx.o:_ZL6opened) ;;
    # added by nvcc to register kernels
    *:*__nv_* | *:*__fat* | *:*__cuda* | *:*__device_stub*) ;;
    *) return 1 ;;
    esac
}
objdump -t "$all" "$(dirname "$all")/cli/main.o" | awk '
    /file format/ { object = $1; sub(/:$/, "", object); sub(/.*\//, "", object) }
    / (\.t?data|\.t?bss|\*COM\*|\.data\.[^r][^ ]*|\.data\.rel|\.data\.rel\.local|\.bss\.[^ ]*)\t/ {
        if ($NF !~ /^\.(t?data|t?bss)/) print object ":" $NF }' | sort -u > "$t/all"
[ "$(wc -l < "$t/all")" -ge 10 ] || say "only these were found, so the search is wrong: $(cat "$t/all")"
while read -r v; do
    allowed "$v" || say "${v%%:*} has a variable '${v#*:}' that belongs to the process; put it into struct ctx (base/ctx.h) or into what its caller holds"
done < "$t/all"

# the search finds variables in all forms of declaration
printf '%s\n' 'static int plain;' 'int shared = 1; static char *name = "x";' '_Thread_local int mine;' \
    'int *f(void) { static int inner; plain++; name++; return &inner + shared + plain + mine; }' \
    'static const int fixed = 3; const int *g(void) { return &fixed; } extern char **n; char **n = &name;' > "$t/x.c"
${CC:-cc} -fPIC -c "$t/x.c" -o "$t/x.o"
n=$(objdump -t "$t/x.o" | grep -cE ' (\.t?data|\.t?bss|\*COM\*|\.data\.rel(\.local)?)	[0-9a-f]+ +(\.hidden )?(plain|shared|name|mine|inner\.[0-9]+|n)$') || true
[ "$n" = 6 ] || say "six variables of a test file, $n found"
exit $fail
