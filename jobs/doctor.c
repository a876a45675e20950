// SPDX-License-Identifier: MIT
/* jobs/doctor.c - hone doctor: report on this machine and build. Includes third-party headers, for
 * their version numbers. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <stdio.h>

#include <cjson/cJSON.h>
#include <jpeglib.h>
#include <pcre2.h>
#include <png.h>
#include <utf8proc.h>
#include <xxhash.h>
#include <yaml.h>
#include <zlib.h>

#include <stdlib.h>
#include <string.h>

#include "jobs/doctor.h"
#include "work/blas_choice.h"
#include "work/isa_choice.h"
#include "plan/plan_program.h"
#include "convert/mmproj.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/numa.h"
#include "base/os.h"
#include "kernels/cuda/cuda.h"
#include "models/arch.h"
#include "runtime/measure/eval.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#ifdef LIBJPEG_TURBO_VERSION
#define JPEG_VERSION TEXT(LIBJPEG_TURBO_VERSION)
#else
#define JPEG_VERSION TEXT(JPEG_LIB_VERSION)
#endif

/* Copies text up to its first space. */
static void first_word(char out[64], const char *text) {
    snprintf(out, 64, "%.*s", (int)strcspn(text, " "), text);
}

/* Adds the table of libraries and their versions; line_editor NULL: not used. */
static void emit_libs(struct emit *m, const char *line_editor) {
    char pcre[64] = "?", pcre_short[64], xxh[32];
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) < (int)sizeof pcre)
        pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    first_word(pcre_short, pcre);
    unsigned v = XXH_versionNumber();
    snprintf(xxh, sizeof xxh, "%u.%u.%u", v / 10000, v / 100 % 100, v % 100);
    const struct {
        const char *name, *version;
    } lib[] = {{"zlib", zlibVersion()},
               {"xxHash", xxh},
               {"PCRE2", pcre_short},
               {"utf8proc", utf8proc_version()},
               {"libyaml", yaml_get_version_string()},
               {"cJSON", cJSON_Version()},
               {"libpng", png_get_libpng_ver(NULL)},
               {"libjpeg-turbo", JPEG_VERSION},
               {"libedit", line_editor}};
    emit_table(m, "libraries", "libraries");
    emit_col(m, "library", "library");
    emit_col(m, "version", "version");
    for (size_t i = 0; i < COUNT_OF(lib); i++) {
        if (!lib[i].version) continue;
        emit_row(m);
        emit_cell_str(m, lib[i].name);
        emit_cell_str(m, lib[i].version);
    }
}

/* Emits the speed of OpenBLAS and of hone's kernels, by use and size. */
static void emit_blas(struct emit *m, const struct blas_tried *b) {
    emit_table(m, "openblas_trial", "float products, GFLOP/s of one thread");
    const char *const col[] = {"use", "rows", "columns", "sum", "hone", "openblas", "used"};
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i], col[i]);
    for (int u = 0; u < BLAS_USES && !b->why_not; u++) {
        emit_row(m);
        emit_cell_str(m, blas_uses[u].name);
        emit_cell_i64(m, blas_uses[u].m);
        emit_cell_i64(m, blas_uses[u].n);
        emit_cell_i64(m, blas_uses[u].k);
        emit_cell_num(m, b->ours[u], 1);
        emit_cell_num(m, b->theirs[u], 1);
        emit_cell_bool(m, b->uses >> u & 1);
    }
}

/* Measures the instruction sets, saves the fastest for `--isa auto`, and compares OpenBLAS with it.
 */
static void emit_isas(struct emit *m, const struct work *w) {
    struct choice c;
    struct blas_tried b;
    struct err e;
    choice_measure(&c);
    if (choice_keep(w->choices, c.isa, &e)) log_info("not saved: %s", e.msg);
    emit_str(m, "fastest_isa", "fastest instruction set", kern_isa_name(c.isa));
    blas_choice_measure(w, c.isa, &b);
    emit_str(m, "openblas", "OpenBLAS", *blas_config() ? blas_config() : "not found");
    if (b.why_not) emit_str(m, "openblas_not_used", "OpenBLAS is not used", b.why_not);
    emit_table(m, "isas", "instruction sets");
    emit_col(m, "name", "name");
    emit_col(m, "available", "available");
    emit_col(m, "active", "active");
    emit_col(m, "speed", "speed");
    for (int i = 0; i < KERN_ISA_COUNT; i++) {
        emit_row(m);
        emit_cell_str(m, kern_isa_name((enum kern_isa)i));
        emit_cell_str(m, kern_isa_has((enum kern_isa)i) ? "yes" : "no");
        emit_cell_str(m, i == (int)w->isa ? "yes" : "no");
        if (c.speed[i] > 0)
            emit_cell_num(m, c.speed[i], 2);
        else
            emit_cell_none(m);
    }
    emit_blas(m, &b);
}

/* Adds the table of CUDA devices with their memory. */
static void emit_devices(struct emit *m) {
    emit_table(m, "devices", "CUDA devices");
    const char *const col[] = {"index",           "name",         "compute_capability",
                               "multiprocessors", "memory_bytes", "memory_free_bytes"};
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i], col[i]);
    struct err e;
    int n = 0;
    if (cu_built() && cu_devices(&n, &e)) log_warn("%s", e.msg);
    for (int i = 0; i < n; i++) {
        struct cu_ctx *ctx = NULL;
        struct cu_info info;
        if (cu_open(&ctx, i, &e) || cu_get_info(ctx, &info, &e)) {
            log_warn("device %d: %s", i, e.msg);
            cu_close(ctx);
            continue;
        }
        emit_row(m);
        emit_cell_i64(m, i);
        emit_cell_str(m, info.name);
        emit_cell_num(m, info.cc / 10.0, 1);
        emit_cell_i64(m, info.n_sm);
        emit_cell_i64(m, (int64_t)info.mem_total);
        emit_cell_i64(m, (int64_t)info.mem_free);
        cu_close(ctx);
    }
}

/* Emits, by type, how products with 8-bit activations are computed. */
static void emit_products(struct emit *m, const struct work *w) {
    struct kern *k = xcalloc(1, sizeof *k);
    kern_init(k, w->isa);
    emit_table(m, "products", "products with 8-bit activations");
    emit_col(m, "type", "type");
    emit_col(m, "rows", "packed rows");
    emit_col(m, "otherwise", "otherwise");
    for (int t = 0; t < QT_COUNT; t++) {
        if (!kern_has(k, (enum qtype)t)) continue;
        emit_row(m);
        emit_cell_str(m, qtype_name((enum qtype)t));
        if (k->op[t].gemm)
            emit_cell_i64(m, k->op[t].rows);
        else
            emit_cell_none(m);
        emit_cell_str(m, k->op[t].dot ? "dot of a row" : "decoded to f32");
    }
    free(k);
}

/* Returns how far hone was tested on a system, or NULL where it is tested and timed
 * (docs/platforms.md). */
static const char *system_state(const char *system, const char *machine) {
    static const struct {
        const char *system, *machine, *state; /* machine "": any */
    } row[] = {{"Darwin", "", "compiled, not run; packaging/macos-check.sh checks it here"},
               {"Windows", "", "tested with Wine 8, not on Windows"},
               {"Linux", "aarch64", "tested with QEMU, not on an ARM machine"}};
    for (size_t i = 0; i < COUNT_OF(row); i++)
        if (strcmp(row[i].system, system) == 0 &&
            (!*row[i].machine || strcmp(row[i].machine, machine) == 0))
            return row[i].state;
    return NULL;
}

/* Emits processor, memory, instruction sets, devices and libraries. */
static int doctor_machine(struct work *w, const char *line_editor, struct emit *m, struct err *e) {
    char cpu[128], memory[48];
    char system[80], machine[80];
    struct machine hw;
    struct numa numa;
    TRY(work_pool(w, e));
    choice_processor(cpu);
    emit_fmt_bytes(memory, mem_available());
    emit_str(m, "version", "hone", HONE_VERSION);
    os_name(system, sizeof system, machine, sizeof machine);
    if (*system) {
        emit_str(m, "system", "system", system);
        emit_str(m, "machine", "machine", machine);
        const char *state = system_state(system, machine);
        if (state) emit_str(m, "system_state", "tested", state);
    }
    emit_str(m, "cpu", "cpu", cpu);
    emit_str(m, "cpu_isa", "instruction set", kern_isa_name(w->isa));
    machine_read("", &hw);
    numa_read("", &numa);
    emit_i64(m, "n_processors", "processors", hw.n_cpus);
    emit_i64(m, "n_cores", "cores", hw.n_cores);
    emit_i64(m, "n_big_cores", hw.n_big < hw.n_cores ? "of them fast" : NULL, hw.n_big);
    emit_i64(m, "n_nodes", numa.n > 1 ? "memory nodes" : NULL, numa.n);
    emit_i64(m, "n_quota", hw.n_quota ? "processors allowed by its control group" : NULL,
             hw.n_quota);
    emit_i64(m, "n_threads", "threads", pool_size(w->pool));
    emit_i64(m, "memory_available_bytes", NULL, (int64_t)mem_available());
    emit_str(m, "memory_available", "memory available", memory);
    emit_num(m, "bandwidth_gb_per_s", "memory read GB/s", eval_bandwidth(w->pool), 1);
    const char *without = w->device.unused_card
                              ? "not built, though there is an NVIDIA GPU: make HAVE_CUDA=1"
                              : "not built (make HAVE_CUDA=1)";
    emit_str(m, "cuda", "CUDA", cu_built() ? cu_built() : without);
    emit_isas(m, w);
    emit_devices(m);
    emit_products(m, w);
    emit_libs(m, line_editor);
    return 0;
}

/* Emits the limits on untrusted input. */
static void doctor_limits(struct emit *m) {
    emit_table(m, "limits", "limits");
    emit_col(m, "key", "limit");
    emit_col(m, "what", "of");
    emit_col(m, "most", "at most");
    emit_col(m, "untrusted", "with --untrusted");
    emit_col(m, "unit", "unit");
    for (int i = 0; i < LIM_COUNT; i++) {
        const struct limit_row *r = limit_row((enum limit)i);
        emit_row(m);
        emit_cell_str(m, r->key);
        emit_cell_str(m, r->what);
        emit_cell_i64(m, (int64_t)r->most);
        emit_cell_i64(m, (int64_t)r->untrusted);
        emit_cell_str(m, r->unit);
    }
}

/* Emits the architectures that hone knows. */
static void doctor_models(struct emit *m) {
    static const char *const col[][2] = {
        {"arch", "architecture"}, {"models", "models"},       {"kind", "kind"},
        {"classes", "classes"},   {"runs", "runs"},           {"vision", "vision"},
        {"drafts", "drafts"},     {"keeps_mtp", "keeps MTP"}, {"tools", "tool calls"}};
    emit_table(m, "models", "models");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i][0], col[i][1]);
    for (int i = 0; arch_at(i); i++) {
        const struct arch *a = arch_at(i);
        struct buf classes = {0};
        for (const char *const *k = a->hf_classes; *k; k++)
            buf_fmt(&classes, "%s%s", k == a->hf_classes ? "" : " ", *k);
        emit_row(m);
        emit_cell_str(m, a->name);
        emit_cell_str(m, a->family);
        emit_cell_str(m, a->size_note);
        emit_cell_str(m, classes.data);
        emit_cell_bool(m, a->decoder != NULL);
        emit_cell_bool(m, mmproj_known(a->name));
        emit_cell_bool(m, a->drafts);
        emit_cell_bool(m, a->drafts || a->keeps_mtp);
        if (a->tools)
            emit_cell_str(m, a->tools);
        else
            emit_cell_none(m);
        buf_release(&classes);
    }
}

/* Emits how a model file would run on this machine, and what would be slow. */
static int doctor_model(struct work *w, const char *path, struct emit *m, struct err *e) {
    struct gguf *g;
    struct dry_program o;
    TRY(gguf_open(&g, path, GGUF_TOLERANT, e));
    int rc = dry_program_open(&o, g, ACT_Q8, e);
    if (!rc) {
        work_device(w);
        o.place = w->device.place;
        o.brings = plan_brings(&w->device);
        dry_program_split(&o, &w->device);
        emit_str(m, "file", "file", io_base(path));
        emit_str(m, "arch", "architecture", o.arch->name);
        emit_str(m, "cpu_isa", "instruction set", kern_isa_name(w->isa));
        emit_str(m, "device", "device", w->device.kind == DEVICE_CPU ? "cpu" : "cuda");
        plan_notes(m, w, &o);
        dry_program_close(&o);
    }
    gguf_close(g);
    return rc;
}

int doctor_run(struct work *w, const struct doctor_opts *o, struct emit *m, struct err *e) {
    if (o->limits && o->models) return err_set(e, ERR_USAGE, "give --limits or --models, not both");
    if (o->model && (o->limits || o->models))
        return err_set(e, ERR_USAGE, "give only one of MODEL, --limits and --models");
    if (o->model) return doctor_model(w, o->model, m, e);
    if (o->limits)
        doctor_limits(m);
    else if (o->models)
        doctor_models(m);
    else
        return doctor_machine(w, o->line_editor, m, e);
    return 0;
}
