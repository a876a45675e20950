// SPDX-License-Identifier: MIT
/* cli/cmd_merge.c - hone merge: the shards of a split set into one GGUF. Any shard names the set;
 * all must be there. The shards stay where they are. */
#include <stdlib.h>

#include "cli/cmd.h"
#include "jobs/copy.h"
#include "core/mem.h"

static int merge(struct cli *c, const struct gguf *g, const char *out, struct err *e) {
    struct gguf_w *w = gguf_w_new();
    struct copy_report r;
    int rc = copy_declare(g, w, e);
    uint64_t total = rc ? 0 : gguf_w_total_bytes(w);
    if (rc == 0) rc = copy_write(g, w, out, out, c->work.overwrite, &r, e);
    gguf_w_free(w);
    if (rc) return rc;
    struct emit *m = emit_new();
    char size[48];
    emit_fmt_bytes(size, total);
    emit_str(m, "output", "output", out);
    emit_i64(m, "n_files", "files read", gguf_n_shards(g));
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)total);
    emit_i64(m, "n_tensors", "tensors copied and compared", r.n_tensors);
    emit_i64(m, "n_manifest", "known to the manifest", r.n_known);
    emit_num(m, "seconds", "seconds", r.seconds, 1);
    cli_emit(c, m);
    emit_free(m);
    return 0;
}

struct merge_args {
    const char *out;
};
#define AT(member) offsetof(struct merge_args, member)
static const struct opt merge_opts[] = {
    {"output", 'o', OPT_STR, AT(out), "OUT.gguf", "(default: the name without its shard number)"},
};
#undef AT
static const struct cmd_spec merge_spec = {
    .name = "merge",
    .synopsis = "SHARD.gguf [-o OUT.gguf]",
    .about = "Joins the files of a split set, named by any of them, into one GGUF. Every "
             "tensor is read\nback and compared, and checked with manifest.json when there is "
             "one beside the shards.",
    .opts = merge_opts,
    .n_opts = (int)COUNT_OF(merge_opts),
    .min_args = 1,
    .max_args = 1,
};

int cmd_merge(struct cli *c, int argc, char **argv, struct err *e) {
    struct merge_args x = {0};
    struct gguf *g;
    int i, n;
    size_t len;
    TRY(cli_parse(c, &merge_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (!gguf_split_parse(c->arg[0], &i, &n, &len))
        return err_set(e, ERR_USAGE,
                       "%s: not the name of a shard, which ends in -00001-of-00003.gguf",
                       c->arg[0]);
    char *first = gguf_split_name(c->arg[0], 0, n);
    char *whole = xasprintf("%.*s.gguf", (int)len, c->arg[0]);
    int rc = gguf_open(&g, first, GGUF_TOLERANT, e);
    if (rc == 0 && gguf_n_shards(g) < n)
        rc = err_set(e, ERR_DATA,
                     "%s: named as a shard, but key \"split.count\" does not say so; rename the "
                     "file",
                     first);
    else if (rc)
        g = NULL;
    if (rc == 0) rc = merge(c, g, x.out ? x.out : whole, e);
    gguf_close(g);
    free(first);
    free(whole);
    return rc;
}
