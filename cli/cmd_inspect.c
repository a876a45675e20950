// SPDX-License-Identifier: MIT
/* cli/cmd_inspect.c - hone inspect: options of jobs/inspect.c. */
#include "cli/cmd.h"
#include "jobs/inspect.h"

#include <string.h>

int cmd_inspect(struct cli *c, int argc, char **argv, struct err *e) {
    const char *keys = "short";
    struct inspect_opts a = {0};
    static const char *const which[] = {"short", "all", "none"};
    const struct opt opts[] = {
        {"keys", 0, OPT_STR, &keys, "WHICH",
         "metadata: short (long values cut, default), all, none"},
        {"tensors", 0, OPT_FLAG, &a.tensors, NULL, "list every tensor"},
    };
    const struct cmd_spec spec = {
        .name = "inspect",
        .synopsis = "FILE [--keys WHICH] [--tensors]",
        .about =
            "Says what a file is, from its headers: a GGUF file or the first file of a split set, "
            "a folder of GGUF files, a Hugging Face folder, a safetensors file, an importance "
            "matrix, a base-logits file.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    size_t k = 0;
    while (k < COUNT_OF(which) && strcmp(keys, which[k]) != 0) k++;
    if (k == COUNT_OF(which))
        return err_set(e, ERR_USAGE, "inspect: --keys is short, all or none, not '%s'", keys);
    a.keys = (enum inspect_keys)k;
    a.path = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, inspect_run(&a, m, e));
}
