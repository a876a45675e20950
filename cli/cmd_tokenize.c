// SPDX-License-Identifier: MIT
/* cli/cmd_tokenize.c - command line of hone tokenize; runs jobs/tokenize.c. Prints a bare JSON list
 * or text, for scripts. */
#include "cli/cmd.h"
#include "jobs/tokenize.h"
#include "lib/options.h"

static const struct cmd_spec tokenize_spec = {
    .name = "tokenize",
    .synopsis = "MODEL [TEXT] [--no-special] [--bos] [--decode] [--batch FILE.json] "
                "[--pre NAME]",
    .about = "Prints the token ids of TEXT, or of the text on standard input, as a JSON list, "
             "with the tokenizer of MODEL: a GGUF file, or a Hugging Face folder with "
             "tokenizer.json, tokenizer.model or tekken.json.",
    .opts = tokenize_options,
    .min_args = 1,
    .max_args = -1,
};

int cmd_tokenize(struct cli *c, int argc, char **argv, struct err *e) {
    struct tokenize_opts o = {0};
    TRY(cli_parse(c, &tokenize_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.model = c->arg[0];
    o.word = c->arg + 1;
    o.n_words = c->n_args - 1;
    struct buf out = {0};
    int rc = tokenize_run(&o, &out, e);
    if (rc == 0 && out.len && fwrite(out.data, 1, out.len, c->out) != out.len)
        rc = err_sys(e, "cannot write the result to standard output");
    buf_release(&out);
    return rc;
}
