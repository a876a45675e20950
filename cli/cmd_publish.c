// SPDX-License-Identifier: MIT
/* cli/cmd_publish.c - hone publish: options of jobs/publish_job.c. */
#include "cli/cmd.h"
#include "cli/facts_opts.h"
#include "base/io.h"
#include "jobs/publish_job.h"

struct publish_args {
    bool only_check, quick;
    struct publish_opts o;
    struct publish_facts given;
};

#define AT(member) offsetof(struct publish_args, member)
static const struct option publish_opts[] = {
    ROW("check", 0, OPT_FLAG, AT(only_check), NULL,
        "only look for faults; exit 1 if any are found"),
    ROW("quick", 0, OPT_FLAG, AT(quick), NULL, "with --check: do not read tensor data"),
    PUBLISH_FACT_OPTIONS(struct publish_args, given),
    ROW("notes", 0, OPT_TEXT, AT(o.notes), "FILE",
        "your own words for README.md, kept from then on"),
    ROW("source", 0, OPT_TEXT, AT(o.source), "HF_DIR", "copy license and config from this folder"),
    ROW("supersedes", 0, OPT_TEXT, AT(o.supersedes), "MANIFEST",
        "manifest.json of the release that this one replaces"),
    ROW("manifest-only", 0, OPT_FLAG, AT(o.manifest_only), NULL,
        "write manifest.json and SHA256SUMS only"),
    {0}};
#undef AT
static const struct cmd_spec publish_spec = {
    .name = "publish",
    .synopsis = "DIR [--check] [--repo USER/NAME] [--base-model ORG/NAME] [--source HF_DIR]",
    .about = "Makes a folder of GGUF files ready for the Hub: README.md, Modelfile, params, "
             "model.yaml,\nmanifest.json with a hash per tensor, SHA256SUMS. With --check it "
             "looks for faults instead,\nin anyone's folder.",
    .opts = publish_opts,
    .min_args = 1,
    .max_args = 1,
};

int cmd_publish(struct cli *c, int argc, char **argv, struct err *e) {
    struct publish_args x = {0};
    TRY(cli_parse(c, &publish_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.o.dir = c->arg[0];
    x.o.way = c->work.overwrite ? GUARD_KEEP : GUARD_REFUSE;
    struct emit *m = emit_new();
    return x.only_check ? cli_verdict(c, m, publish_job_check(x.o.dir, x.quick, m, e))
                        : cli_result(c, m, publish_job_run(&x.given, &x.o, m, e));
}
