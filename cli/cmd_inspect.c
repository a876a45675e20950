// SPDX-License-Identifier: MIT
/* cli/cmd_inspect.c - hone inspect: options of jobs/inspect.c. */
#include "cli/cmd.h"
#include "jobs/inspect.h"

#include <string.h>

struct inspect_args {
    const char *keys;
    struct inspect_opts a;
};
#define AT(member) offsetof(struct inspect_args, member)
static const struct option inspect_opts[] = {
    ROW("keys", 0, OPT_TEXT, AT(keys), "WHICH",
        "metadata: short (long values cut, default), all, none"),
    ROW("tensors", 0, OPT_FLAG, AT(a.tensors), NULL, "list every tensor"),
    {0}};
#undef AT
static const struct cmd_spec inspect_spec = {
    .name = "inspect",
    .synopsis = "FILE [--keys WHICH] [--tensors]",
    .about = "Says what a file is, from its headers: a GGUF file or the first file of a split set, "
             "a folder of GGUF files, a Hugging Face folder, a safetensors file, an importance "
             "matrix, a base-logits file.",
    .opts = inspect_opts,
    .min_args = 1,
    .max_args = 1,
};

int cmd_inspect(struct cli *c, int argc, char **argv, struct err *e) {
    struct inspect_args x = {.keys = "short"};
    static const char *const which[] = {"short", "all", "none"};
    TRY(cli_parse(c, &inspect_spec, &x, argc, argv, e));
    if (c->done) return 0;
    size_t k = 0;
    while (k < COUNT_OF(which) && strcmp(x.keys, which[k]) != 0) k++;
    if (k == COUNT_OF(which))
        return err_set(e, ERR_USAGE, "inspect: --keys is short, all or none, not '%s'", x.keys);
    x.a.keys = (enum inspect_keys)k;
    x.a.path = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, inspect_run(&x.a, m, e));
}
