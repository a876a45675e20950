// SPDX-License-Identifier: MIT
/* cli/cmd_split.c - hone split: one GGUF (or a set) into shards that any loader opens by the first.
 *
 * The first shard holds the keys alone unless --no-metadata-first: a new chat template then costs
 * an upload of megabytes. `hone merge` gives the file back, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "jobs/copy.h"
#include "core/log.h"
#include "core/num.h"
#include "core/mem.h"

/* The Hub's advice is at most 50 GB a file; the header comes on top of what is counted. */
static const uint64_t default_max = UINT64_C(49000000000);

struct split_args {
    const char *out;
    uint64_t max_size;
    bool data_first, dry_run;
};

/* As the writer deals tensors out: shards by padded bytes, none of a shard's tensors cut. */
static int count_shards(const struct gguf *g, uint64_t max, bool data_first, uint64_t *largest) {
    int n = data_first ? 0 : 1;
    uint64_t sum = 0, align = gguf_alignment(g);
    *largest = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        uint64_t bytes = round_up(gguf_tensor_at(g, i)->n_bytes, align);
        if (i == 0 || (sum && sum + bytes > max)) {
            n++;
            sum = 0;
        }
        sum += bytes;
        if (sum > *largest) *largest = sum;
    }
    return n;
}

static void emit_split(struct cli *c, const char *first, int n, uint64_t total, uint64_t largest,
                       const struct copy_report *r) {
    struct emit *m = emit_new();
    char size[48];
    emit_fmt_bytes(size, total);
    emit_str(m, "first", "first file", first);
    emit_i64(m, "n_files", "files", n);
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)total);
    emit_fmt_bytes(size, largest);
    emit_str(m, "largest", "most tensor data in a file", size);
    emit_i64(m, "largest_bytes", NULL, (int64_t)largest);
    if (r) {
        emit_i64(m, "n_tensors", "tensors copied and compared", r->n_tensors);
        emit_i64(m, "n_manifest", "known to the manifest", r->n_known);
        emit_num(m, "seconds", "seconds", r->seconds, 1);
    }
    cli_emit(c, m);
    emit_free(m);
}

static int split(struct cli *c, const struct split_args *a, const struct gguf *g, struct err *e) {
    uint64_t max = a->max_size ? a->max_size : default_max, largest;
    const char *path = a->out ? a->out : gguf_path(g);
    int n = count_shards(g, max, a->data_first, &largest);
    if (gguf_n_tensors(g) == 0)
        return err_set(e, ERR_USAGE, "%s has no tensors, so there is nothing to split",
                       gguf_path(g));
    if (n < 2 || (!a->max_size && largest <= max && n == 2 && !a->data_first))
        return err_set(e, ERR_USAGE,
                       "%s fits in one file of %llu bytes; give a smaller --max-size to split it",
                       gguf_path(g), (unsigned long long)max);
    if (largest > max)
        log_warn("a tensor is larger than --max-size: its file has %llu bytes",
                 (unsigned long long)largest);
    struct gguf_w *w = gguf_w_new();
    struct copy_report r;
    char *first = gguf_split_name(path, 0, n);
    gguf_w_split(w, max, !a->data_first);
    int rc = copy_declare(g, w, e);
    if (rc == 0 && !a->dry_run) rc = copy_write(g, w, path, first, c->work.overwrite, &r, e);
    if (rc == 0) emit_split(c, first, n, gguf_w_total_bytes(w), largest, a->dry_run ? NULL : &r);
    gguf_w_free(w);
    free(first);
    return rc;
}

#define AT(member) offsetof(struct split_args, member)
static const struct opt split_opts[] = {
    {"output", 'o', OPT_STR, AT(out), "OUT.gguf",
     "names OUT-00001-of-0000N.gguf ... (default: as the input)"},
    {"max-size", 0, OPT_SIZE, AT(max_size), "SIZE", "tensor bytes of one file (49G)"},
    {"no-metadata-first", 0, OPT_FLAG, AT(data_first), NULL, "put tensors into the first file too"},
    {"dry-run", 0, OPT_FLAG, AT(dry_run), NULL, "print number and sizes, write nothing"},
};
#undef AT
static const struct cmd_spec split_spec = {
    .name = "split",
    .synopsis = "IN.gguf [-o OUT.gguf] [--max-size SIZE] [--no-metadata-first] [--dry-run]",
    .about = "Splits a GGUF into shards OUT-00001-of-0000N.gguf; loaders are given the first.\n"
             "Every tensor is read back and compared; 'hone merge' restores the same bytes.",
    .opts = split_opts,
    .n_opts = (int)COUNT_OF(split_opts),
    .min_args = 1,
    .max_args = 1,
};

int cmd_split(struct cli *c, int argc, char **argv, struct err *e) {
    struct split_args a = {0};
    struct gguf *g;
    TRY(cli_parse(c, &split_spec, &a, argc, argv, e));
    if (c->done) return 0;
    TRY(gguf_open(&g, c->arg[0], GGUF_TOLERANT, e));
    int rc = split(c, &a, g, e);
    gguf_close(g);
    return rc;
}
