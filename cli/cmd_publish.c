// SPDX-License-Identifier: MIT
/* cli/cmd_publish.c - hone publish: card, checksums, manifest and files for other programs; or,
 * with
 * --check, what is wrong with such a folder, anyone's. */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/facts_opts.h"
#include "jobs/publish.h"
#include "core/buf.h"
#include "core/io.h"
#include "core/log.h"
#include "core/str.h"
#include "report/folder_lint.h"

static void emit_findings(struct emit *m, const struct lint *l) {
    emit_table(m, "findings", l->n ? "findings" : NULL);
    emit_col(m, "level", "level");
    emit_col(m, "rule", "rule");
    emit_col(m, "file", "file");
    emit_col(m, "finding", "finding");
    for (int i = 0; i < l->n; i++) {
        const struct lint_finding *f = &l->finding[i];
        emit_row(m);
        emit_cell_str(m, f->error ? "error" : "warning");
        emit_cell_str(m, f->rule);
        emit_cell_str(m, f->file);
        emit_cell_str(m, f->text);
    }
}

/* Can it be published, and if not, why: the first error, in full. */
static void emit_verdict(struct emit *m, const struct lint *l) {
    struct buf b = {0};
    int n_warnings = l->n - l->n_errors, first = 0;
    while (first < l->n && l->n_errors && !l->finding[first].error) first++;
    if (l->n_errors)
        buf_fmt(&b, "Not publishable: %d error%s", l->n_errors, l->n_errors == 1 ? "" : "s");
    else
        buf_fmt(&b, "Publishable: no error in %lld file%s", (long long)l->n_files,
                str_s(l->n_files));
    if (n_warnings)
        buf_fmt(&b, "%s %d warning%s", l->n_errors ? " and" : ",", n_warnings,
                n_warnings == 1 ? "" : "s");
    if (l->n) {
        const struct lint_finding *f = &l->finding[first];
        buf_fmt(&b, "; first %s: %s%s%s", l->n_errors ? "to repair" : "of them",
                f->file ? f->file : "", f->file && *f->file ? ": " : "", f->text);
    }
    if (b.data[b.len - 1] != '.') buf_chr(&b, '.');
    emit_answer(m, b.data);
    buf_release(&b);
}

static int check(struct cli *c, const char *dir, bool quick, struct err *e) {
    struct lint l = {.dir = dir, .quick = quick};
    int rc = lint_folder(&l, e);
    if (rc == 0) {
        struct emit *m = emit_new();
        emit_verdict(m, &l);
        emit_bool(m, "ok", "publishable", l.n_errors == 0);
        emit_i64(m, "n_files", "files", l.n_files);
        emit_i64(m, "n_errors", "errors", l.n_errors);
        emit_i64(m, "n_warnings", "warnings", l.n - l.n_errors);
        emit_findings(m, &l);
        cli_emit(c, m);
        emit_free(m);
        for (int i = 0; i < l.n; i++)
            if (l.finding[i].error) {
                rc = err_set(e, ERR_VERDICT, "%s: %d error%s, the first: %.100s: %.300s", dir,
                             l.n_errors, l.n_errors == 1 ? "" : "s", l.finding[i].file,
                             l.finding[i].text);
                break;
            }
    }
    lint_release(&l);
    return rc;
}

static int publish(struct cli *c, const struct publish_opts *o, struct err *e) {
    struct publish_report r;
    char size[48];
    TRY(publish_folder(o, &r, e));
    if (!r.has_license && !o->manifest_only)
        log_info("the card names no license: hone publish %s --license ID%s adds it", o->dir,
                 r.has_base ? "" : " --base-model ORG/NAME");
    struct emit *m = emit_new();
    emit_fmt_bytes(size, r.n_bytes);
    emit_str(m, "folder", "folder", o->dir);
    emit_i64(m, "n_models", "models", r.n_models);
    emit_i64(m, "n_written", "files written", r.n_written);
    emit_i64(m, "n_listed", "files listed", r.n_listed);
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)r.n_bytes);
    cli_emit(c, m);
    emit_free(m);
    return 0;
}

struct publish_args {
    bool only_check, quick;
    struct publish_opts o;
    struct publish_facts given;
};
#define AT(member) offsetof(struct publish_args, member)
static const struct opt publish_opts[] = {
    {"check", 0, OPT_FLAG, AT(only_check), NULL, "only look for faults; exit 1 when there are"},
    {"quick", 0, OPT_FLAG, AT(quick), NULL, "with --check: do not read tensor data"},
    PUBLISH_FACT_OPTIONS(struct publish_args, given),
    {"notes", 0, OPT_STR, AT(o.notes), "FILE", "your own words for README.md, kept from then on"},
    {"source", 0, OPT_STR, AT(o.source), "HF_DIR", "copy license and config from this folder"},
    {"supersedes", 0, OPT_STR, AT(o.supersedes), "MANIFEST",
     "manifest.json of the release that this one replaces"},
    {"manifest-only", 0, OPT_FLAG, AT(o.manifest_only), NULL,
     "write manifest.json and SHA256SUMS only"},
};
#undef AT
static const struct cmd_spec publish_spec = {
    .name = "publish",
    .synopsis = "DIR [--check] [--repo USER/NAME] [--base-model ORG/NAME] [--source HF_DIR]",
    .about = "Makes a folder of GGUF files ready for the Hub: README.md, Modelfile, params, "
             "model.yaml,\nmanifest.json with a hash per tensor, SHA256SUMS. With --check it "
             "looks for faults instead,\nin anyone's folder.",
    .opts = publish_opts,
    .n_opts = (int)COUNT_OF(publish_opts),
    .min_args = 1,
    .max_args = 1,
};

int cmd_publish(struct cli *c, int argc, char **argv, struct err *e) {
    struct publish_args x = {0};
    struct facts facts;
    TRY(cli_parse(c, &publish_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.o.dir = c->arg[0];
    x.o.way = c->work.overwrite ? GUARD_KEEP : GUARD_REFUSE;
    if (!io_is_dir(x.o.dir)) return err_set(e, ERR_USAGE, "%s is not a folder", x.o.dir);
    if (x.only_check) return check(c, x.o.dir, x.quick, e);
    facts_init(&facts);
    x.o.facts = &facts;
    int rc = publish_facts_parse(&x.given, &facts, e);
    if (rc == 0) rc = publish(c, &x.o, e);
    facts_release(&facts);
    return rc;
}
