// SPDX-License-Identifier: MIT
/* cli/cmd_eval_kv.c - hone eval kv: options of runtime/measure/caches.c. */
#include "cli/cmd_eval.h"
#include "runtime/measure/caches.h"

#define AT(member) offsetof(struct caches_opts, member)
static const struct option kv_opts[] = {
    ROW("head-dims", 0, OPT_TEXT, AT(dims), "LIST", "values of a head (64,128,256)"),
    ROW("depths", 0, OPT_TEXT, AT(depths), "LIST", "keys in the cache (512,4096)"),
    ROW("kv-type", 0, OPT_TEXT, AT(types), "T[,T...]", "cache types, or K/V (the usual ones)"),
    OPT_PLOT(AT(plot), "error of the output by depth, a line per head size and type"),
    ROW("cosine", 0, OPT_NUMBER, AT(cosine), "X", "of queries with the key they look for (0.5)"),
    {0}};
#undef AT
static const struct cmd_spec kv_spec = {
    .name = "eval kv",
    .synopsis = "[--head-dims 64,128,256] [--depths 512,4096] [--kv-type T,T] [--cosine 0.5] "
                "[--plot FILE]",
    .about = "Error and speed of KV cache types on synthetic attention: no model is needed.",
    .opts = kv_opts,
    .min_args = 0,
    .max_args = 0,
};

int eval_cmd_kv(struct cli *c, int argc, char **argv, struct err *e) {
    struct caches_opts o = eval_caches_usual;
    TRY(cli_parse(c, &kv_spec, &o, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_caches_run(&c->work, &o, m, e));
}
