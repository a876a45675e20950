// SPDX-License-Identifier: MIT
/* cli/cmd_serve.c - command line of hone serve; runs jobs/serve_job.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "base/mem.h"
#include "base/os.h"
#include "jobs/serve_job.h"
#include "lib/options.h"

static const struct cmd_spec serve_spec = {
    .name = "serve",
    .synopsis = "MODEL.gguf... | FOLDER [--host ADDR] [--port N] [--ctx N] [--parallel N] "
                "[--context-memory SIZE]",
    .about =
        "Runs an HTTP server with the APIs of OpenAI, Anthropic and Ollama and the model's own "
        "template.\nMany requests run at once; each gets the answer that it would get alone. "
        "Ctrl-C lets running\nanswers finish. With several files, or a folder that hone make "
        "wrote, the request's model\nselects the file: it is loaded at its first use and kept "
        "while --max-memory allows.",
    .opts = serve_options,
    .min_args = 1,
    .max_args = -1,
};

static void log_line(void *ud, const char *line) {
    (void)ud;
    fprintf(stderr, "%s\n", line);
}

/* Prints the line that says where the server listens; ud: the cli. */
static void say_ready(void *ud, const char *line) {
    const struct cli *c = ud;
    fprintf(c->out, "%s\n", line);
    fflush(c->out);
}

int cmd_serve(struct cli *c, int argc, char **argv, struct err *e) {
    struct serve_job_opts a = serve_job_usual;
    a.log_line = log_line;
    a.ready = say_ready;
    a.key_from = "HONE_API_KEY";
    a.key = getenv(a.key_from);
    a.ready_ud = c;
    TRY(cli_parse(c, &serve_spec, &a, argc, argv, e));
    if (c->done) return 0;
    mem_give_back();
    os_give_up_rights(a.key_file ||
                      (a.key && *a.key)); /* It starts no programs, and keys must not leak. */
    a.path = c->arg[0];
    for (int i = 1; i < c->n_args; i++) work_list_add(&c->work, &a.more, c->arg[i]);
    if (a.log && strcmp(a.log, "off") == 0) a.log = NULL, a.log_line = NULL;
    return serve_job_run(&c->work, &a, e);
}
