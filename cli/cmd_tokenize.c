// SPDX-License-Identifier: MIT
/* cli/cmd_tokenize.c - hone tokenize: options of jobs/tokenize.c. The result is the bare JSON list,
 * or text, that scripts expect. */
#include "cli/cmd.h"
#include "jobs/tokenize.h"

struct tokenize_args {
    struct tokenize_opts o;
    bool no_special;
};
#define AT(member) offsetof(struct tokenize_args, member)
static const struct option tokenize_opts[] = {
    ROW("decode", 0, OPT_FLAG, AT(o.decode), NULL, "ids to text: reads a JSON list of ids"),
    ROW("bos", 0, OPT_FLAG, AT(o.bos), NULL,
        "begin with BOS, if this vocabulary has texts begin with it"),
    ROW("no-special", 0, OPT_FLAG, AT(no_special), NULL,
        "control tokens in the text are plain text; with --decode they are left out"),
    ROW("batch", 0, OPT_TEXT, AT(o.batch), "FILE.json",
        "a list of texts (or of lists of ids), all at once"),
    ROW("pre", 0, OPT_TEXT, AT(o.pre), "NAME", CLI_HELP_PRE),
    {0}};
#undef AT
static const struct cmd_spec tokenize_spec = {
    .name = "tokenize",
    .synopsis = "MODEL [TEXT] [--no-special] [--bos] [--decode] [--batch FILE.json] "
                "[--pre NAME]",
    .about = "Prints the token ids of TEXT, or of the text on standard input, as a JSON list, "
             "with the tokenizer of MODEL: a GGUF file, or a Hugging Face folder with "
             "tokenizer.json, tokenizer.model or tekken.json.",
    .opts = tokenize_opts,
    .min_args = 1,
    .max_args = -1,
};

int cmd_tokenize(struct cli *c, int argc, char **argv, struct err *e) {
    struct tokenize_args x = {0};
    TRY(cli_parse(c, &tokenize_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.o.model = c->arg[0];
    x.o.word = c->arg + 1;
    x.o.n_words = c->n_args - 1;
    x.o.special = !x.no_special;
    struct buf out = {0};
    int rc = tokenize_run(&x.o, &out, e);
    if (rc == 0 && out.len && fwrite(out.data, 1, out.len, c->out) != out.len)
        rc = err_sys(e, "cannot write the result to standard output");
    buf_release(&out);
    return rc;
}
