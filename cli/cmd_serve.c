// SPDX-License-Identifier: MIT
/* cli/cmd_serve.c - hone serve: options of jobs/serve_job.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "base/mem.h"
#include "base/os.h"
#include "jobs/serve_job.h"

#define AT(member) offsetof(struct serve_job_opts, member)
#define SET(id) AT(set[SERVE_##id])
static const struct option serve_options[] = {
    ROW("host", 0, OPT_LIST, AT(host), "ADDR", "where to listen (127.0.0.1), or unix:PATH"),
    ROW("port", 0, OPT_COUNT, AT(port), "N", "port (8080); 0: any, told on standard output"),
    ROW("alias", 0, OPT_TEXT, AT(alias), "NAME",
        "the model's id for clients (the file's name); of several files NAME,NAME,... in their "
        "order"),
    ROW("ctx", 0, OPT_TOKENS, AT(ctx), "N",
        "longest context of a request; 0: as --context-memory allows (default)"),
    ROW("parallel", 0, OPT_COUNT, AT(parallel), "N", "answers computed at once (4)"),
    ROW("context-memory", 0, OPT_SIZE, AT(context_memory), "SIZE",
        "for all contexts of a file, kept ones too (a quarter of what is free, at most 8 GiB)"),
    ROW("cache-dir", 0, OPT_TEXT, AT(cache_dir), "DIR",
        "beginnings of prompts are kept there for the next start; files hold what clients sent"),
    ROW("cache-disk", 0, OPT_SIZE, AT(cache_disk), "SIZE", "of files in --cache-dir (32 GiB)"),
    ROW("api-key-file", 0, OPT_TEXT, AT(key_file), "FILE",
        "keys that clients must give, one a line"),
    ROW("no-key", 0, OPT_FLAG, AT(no_key), NULL, "everybody who reaches --host may ask"),
    ROW("max-tokens", 0, OPT_COUNT, AT(max_tokens), "N",
        "of an answer, for requests that do not say"),
    ROW("reasoning", 0, OPT_TEXT, AT(reasoning), "HOW", "thinking: on, off, auto (default)"),
    ROW("reasoning-budget", 0, OPT_COUNT, AT(n_think), "N",
        "tokens of thinking, then it is ended; for requests that do not say"),
    ROW("constrain", 0, OPT_TEXT, AT(constrain), "HOW",
        "calls and formats: auto (default), strict, off: the bare model"),
    ROW("strict-calls", 0, OPT_FLAG, AT(strict_calls), NULL,
        "only the template's own syntax makes a call, not bare JSON that names a tool"),
    ROW("open-objects", 0, OPT_FLAG, AT(open_objects), NULL,
        "objects may have members that their schemas do not name, as JSON Schema has it"),
    ROW("preset", 0, OPT_TEXT, AT(preset), "FILE",
        "named settings, which requests name: {\"NAME\": {\"temperature\": T, ...}}"),
    ROW("template", 0, OPT_TEXT, AT(tmpl), "FILE", "a Jinja template instead of the model's own"),
    OPT_KWARGS(AT(kwargs)),
    ROW("temp", 0, OPT_TEXT, AT(set[SERVE_TEMP]), "T",
        "for requests that do not say, as the five below"),
    OPT_SAMPLING(SET),
    OPT_KV_TYPE(AT(kv_type)),
    OPT_ACT(AT(act)),
    ROW("max-step", 0, OPT_TIME, AT(max_step), "TIME",
        "how long a running answer waits for the prompts of others (1s)"),
    ROW("draft", 0, OPT_TEXT, AT(draft), "HOW",
        "guess next tokens where few answers run and passes of several rows pay: auto, of texts "
        "that "
        "repeat themselves; mtp: by the file's MTP block, too; off (default)"),
    ROW("queue", 0, OPT_COUNT, AT(queue), "N", "requests that may wait (64)"),
    ROW("log", 0, OPT_TEXT, AT(log), "FILE",
        "a line of JSON per request (standard error); off: none"),
    ROW("record", 0, OPT_TEXT, AT(record), "FILE",
        "requests and answers are added to FILE, a line of JSON each"),
    ROW("record-last", 0, OPT_FLAG, AT(record_last), NULL,
        "of lines of --record that continue each other, the last only"),
    ROW("strict", 0, OPT_FLAG, AT(strict), NULL, "refuse names that are not ids of models"),
    ROW("allow-host", 0, OPT_LIST, AT(allow_host), "NAME", "a name of this server in Host"),
    ROW("allow-origin", 0, OPT_LIST, AT(allow_origin), "URL", "an origin whose pages may ask"),
    OPT_SPECIAL(AT(special)),
    ROW("drain", 0, OPT_TIME, AT(drain), "TIME",
        "how long running answers may take to finish when it ends (30s)"),
    ROW("max-connections", 0, OPT_COUNT, AT(max_connections), "N", "open at once (1024)"),
    ROW("max-body", 0, OPT_SIZE, AT(max_body), "SIZE", "of a request (32 MiB)"),
    ROW("pre", 0, OPT_TEXT, AT(pre), "NAME", HELP_PRE),
    {0}};
#undef SET
#undef AT
static const struct cmd_spec serve_spec = {
    .name = "serve",
    .synopsis = "MODEL.gguf... | FOLDER [--host ADDR] [--port N] [--ctx N] [--parallel N] "
                "[--context-memory SIZE]",
    .about = "An HTTP server with OpenAI's, Anthropic's and Ollama's APIs, with the model's own "
             "template.\nMany requests at once; each gets the answer that it would get alone. "
             "Ctrl-C lets running\nanswers finish. With several files, or a folder that hone make "
             "wrote, the request's model\nchooses one: it is loaded at its first use and kept "
             "while --max-memory allows.",
    .opts = serve_options,
    .min_args = 1,
    .max_args = -1,
};

static void log_line(void *ud, const char *line) {
    (void)ud;
    fprintf(stderr, "%s\n", line);
}

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
    os_give_up_rights(a.key_file || (a.key && *a.key)); /* It runs nothing, and keys stay here. */
    a.path = c->arg[0];
    for (int i = 1; i < c->n_args; i++) work_list_add(&c->work, &a.more, c->arg[i]);
    if (a.log && strcmp(a.log, "off") == 0) a.log = NULL, a.log_line = NULL;
    return serve_job_run(&c->work, &a, e);
}
