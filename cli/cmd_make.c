// SPDX-License-Identifier: MIT
/* cli/cmd_make.c - hone make: the main job. Orders the steps; each is skipped when its record says
 * that it was done with the same inputs (cli/step.h), so an interrupted or extended job goes on
 * where it stopped. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/kept.h"
#include "cli/make.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/prog.h"

bool make_reuse(const struct make *mk, struct step *s, struct json **root,
                const struct json **result) {
    if (mk->redo || !step_done(s, root, result)) return false;
    log_debug("%s: done before", s->name);
    return true;
}

void make_members(const struct json *obj, struct buf *out) {
    for (const struct json *m = json_first(obj); m; m = json_next(m)) {
        bool rows = json_type(m) == JSON_ARR;
        if (json_type(m) != JSON_NUM && !rows) continue;
        if (out->len) buf_str(out, ", ");
        json_quote(out, json_name(m), strlen(json_name(m)));
        if (rows) {
            struct jw w;
            buf_str(out, ": ");
            jw_init(&w, out, false);
            jw_copy(&w, NULL, m);
        } else {
            buf_fmt(out, ": %.17g", json_num(m, 0));
        }
    }
}

void make_note(struct make *mk, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cli_list_add(mk->c, &mk->notes, arena_strdup(&mk->c->mem, text));
}

void make_left_out(struct make *mk, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (int i = 0; i < mk->cut_short.n; i++)
        if (strcmp(mk->cut_short.v[i], text) == 0) return;
    cli_list_add(mk->c, &mk->cut_short, arena_strdup(&mk->c->mem, text));
}

void made_release(struct made *f) {
    free(f->file);
    free(f->path);
    free(f->why);
    buf_release(&f->eval);
    buf_release(&f->speed);
    buf_release(&f->tools);
    *f = (struct made){0};
}

void made_drop(struct make *mk) {
    made_release(&mk->file[--mk->n_files]);
}

static void release(struct make *mk) {
    while (mk->n_files) made_drop(mk);
    free(mk->file);
    free(mk->name);
    free(mk->imatrix);
    keep_close(mk->c->kept, false);
    mk->c->kept = NULL;
    buf_release(&mk->model_json);
    buf_release(&mk->imatrix_json);
    buf_release(&mk->eval_json);
    job_close(&mk->job);
}

static int remove_parts(struct make *mk, struct err *e) {
    return job_remove_parts(&mk->job, e);
}

/* What the steps measure, window by window, until they have records of their own. */
static void open_kept(struct make *mk) {
    char *path = io_join(mk->job.state, "measured");
    if (mk->redo) (void)unlink(path);
    mk->c->kept = kept_open_own(path);
    free(path);
}

static bool always(const struct make *mk) {
    return mk->job.dir != NULL;
}
static bool wants_presets(const struct make *mk) {
    return mk->recipes.n > 0;
}
static bool wants_classes(const struct make *mk) {
    return mk->classes.n > 0;
}
static bool wants_budgets(const struct make *mk) {
    return mk->budget.n > 0;
}
static bool wants_probes(const struct make *mk) {
    return mk->classes.n || mk->budget.n;
}

static const struct make_step {
    const char *what; /* NULL: not announced */
    int (*run)(struct make *mk, struct err *e);
    bool (*asked)(const struct make *mk);
    enum plan_part part; /* of the forecast, done with this step; PART_COUNT: none */
} steps[] = {
    {NULL, make_source, always, PART_COUNT},
    {"conversion", make_convert, always, PART_COUNT},
    {NULL, make_texts, always, PART_COUNT},
    {NULL, make_forecast, always, PART_COUNT},
    {"importance matrix", make_imatrix, always, PART_IMATRIX},
    {"presets", make_quantize, wants_presets, PART_PRESETS},
    {"what each type costs each part of the model", make_sensitivity, wants_probes, PART_PROBES},
    {"the best file of each size class", make_ladder, wants_classes, PART_COUNT},
    {"mixes of other sizes", make_mix, wants_budgets, PART_JUDGE},
    {NULL, remove_parts, always, PART_COUNT},
    {"perplexity and divergence", make_eval, always, PART_EVAL},
    {"speed", make_speed, always, PART_SPEED},
    {"tool calls", make_tools, always, PART_TOOLS},
    {"checksums and report", make_report, always, PART_REPORT},
};

static int all_steps(struct make *mk, struct err *e) {
    int n = 0, at = 0, rc = 0;
    for (size_t i = 0; i < COUNT_OF(steps); i++) n += steps[i].what && steps[i].asked(mk);
    for (size_t i = 0; i < COUNT_OF(steps) && !rc; i++) {
        const struct make_step *s = &steps[i];
        if (!s->asked(mk)) continue;
        if (prog_interrupted()) {
            rc = err_set(e, ERR_INTR, "interrupted; run the same command again to go on");
            break;
        }
        if (s->what) {
            prog_set_step(++at, n);
            log_info("step %d of %d: %s", at, n, s->what);
        }
        rc = s->run(mk, e);
        if (!rc && s->part < PART_REPORT) rc = make_replan(mk, s->part, e);
    }
    prog_set_step(0, 0);
    return rc;
}

int cmd_make(struct cli *c, int argc, char **argv, struct err *e) {
    const char *out = NULL, *recipes = NULL;
    struct make mk = {.c = c,
                      .calib_ctx = 512,
                      .eval_ctx = 512,
                      .eval_chunks = 100,
                      .pp = 512,
                      .tg = 64,
                      .reps = 3,
                      .depths = "0",
                      .tools_cases = 12,
                      .type = "auto",
                      .hours = 12};
    mk.job.lock_fd = -1;
    const struct opt opts[] = {
        {"output", 'o', OPT_STR, &out, "DIR", "folder of the results"},
        {"recipes", 0, OPT_STR, &recipes, "A,B,..",
         "what to make (Q8_0,Q6_K,Q5_K_M,Q4_K_M,IQ4_XS,Q3_K_M,IQ3_S,Q2_K)"},
        {"plain", 0, OPT_FLAG, &mk.plain, NULL, "presets only, no mixes"},
        {"time", 0, OPT_TIME, &mk.hours, "HOURS", "of the whole job (12); 0: no limit"},
        {"dry-run", 0, OPT_FLAG, &mk.dry_run, NULL,
         "print steps, sizes, disk, memory and hours; write nothing"},
        {"calib", 0, OPT_LIST, &mk.calib, "FILE", "calibration text or .jsonl; repeatable"},
        {"budget", 0, OPT_LIST, &mk.budget, "SIZE", "also the best mix of this size; repeatable"},
        {"probe", 0, OPT_LIST, &mk.probe, "FILE", "text the mixes are chosen on; repeatable"},
        {"probe-time", 0, OPT_TIME, &mk.probe_minutes, "MINUTES", "limit of these probes (none)"},
        {"eval", 0, OPT_LIST, &mk.eval, "FILE", "evaluation text or .jsonl; repeatable"},
        {"tools", 0, OPT_STR, &mk.tools, "SUITE",
         "tool calls to ask for: .jsonl, builtin, none (default: SRC/tools.jsonl)"},
        {"tools-cases", 0, OPT_I64, &mk.tools_cases, "N",
         "cases of it, evenly spread (12); 0: all"},
        {"calib-ctx", 0, OPT_I64, &mk.calib_ctx, "N", "tokens per calibration chunk (512)"},
        {"calib-chunks", 0, OPT_I64, &mk.calib_chunks, "N", "at most N chunks; 0: all (default)"},
        {"ctx", 0, OPT_I64, &mk.eval_ctx, "N", "tokens per evaluation chunk (512)"},
        {"chunks", 0, OPT_I64, &mk.eval_chunks, "N", "evaluate at most N chunks (100); 0: all"},
        {"pre", 0, OPT_STR, &c->pre, "NAME",
         "split text by the rules of this pre-tokenizer; remembered with the job"},
        {"type", 0, OPT_STR, &mk.type, "NAME", "type of the base: auto, f32, f16, bf16, q8_0"},
        {"search", 0, OPT_STR, &mk.search, "NAME",
         "quantizer search: fast, best, conventional (presets fast, mixes best)"},
        {"pp", 0, OPT_I64, &mk.pp, "N", "prompt tokens of the speed test (512)"},
        {"tg", 0, OPT_I64, &mk.tg, "N", "generated tokens of the speed test (64)"},
        {"reps", 0, OPT_I64, &mk.reps, "N", "repetitions of the speed test (3)"},
        {"by-depth", 0, OPT_FLAG, &mk.by_depth, NULL, "divergence also by tokens of context"},
        {"depths", 0, OPT_STR, &mk.depths, "LIST", "speed with context already filled: 0,4096 (0)"},
        MAKE_FACT_OPTIONS(mk),
        {"resume", 0, OPT_FLAG, &mk.resume, NULL,
         "go on with a folder's job (always done anyway), also inside small files"},
    };
    const struct cmd_spec spec = {
        "make",
        "SRC -o DIR [--recipes A,B,..] [--plain] [--time HOURS] [--dry-run] [--budget SIZE]... "
        "[--calib FILE]... [--eval FILE]... [--resume]",
        "Hugging Face folder (or GGUF) in; measured GGUFs with a report out. At each usual size "
        "the best file that\n"
        "was found: types chosen by measurement, error feedback, kept only where it is measured to "
        "be better than the\n"
        "preset of the same bytes. Then perplexity and divergence of each from the base, speed, "
        "tool calls, README.md,\n"
        "report.html, results.json, SHA256SUMS. Steps already done with the same inputs are "
        "reused; -f redoes all.",
        opts,
        COUNT_OF(opts),
        1,
        1};
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    if (!out) return err_set(e, ERR_USAGE, "make: say where the results go with -o DIR");
    mk.t0 = prog_now_s();
    mk.src = c->arg[0];
    mk.redo = c->overwrite;
    mk.asked_chunks = mk.eval_chunks;
    int rc;
    TRY_GOTO(out, rc, make_pre_recall(&mk, out, e));
    TRY_GOTO(out, rc, make_ask(&mk, recipes, e));
    if (c->device.kind == DEVICE_CUDA) c->device.kind = DEVICE_AUTO; /* a step may be too large */
    TRY_GOTO(out, rc, cli_pool(c, e));
    TRY_GOTO(out, rc, make_check_base(&mk, e));
    if (mk.dry_run) {
        rc = make_dry_run(&mk, out, e);
        goto out;
    }
    TRY_GOTO(out, rc, job_open(&mk.job, out, e));
    TRY_GOTO(out, rc, make_name(&mk, e));
    TRY_GOTO(out, rc, make_pre_keep(&mk, e));
    if (mk.redo) TRY_GOTO(out, rc, remove_parts(&mk, e));
    open_kept(&mk);
    TRY_GOTO(out, rc, all_steps(&mk, e));
    keep_close(c->kept, true); /* every number has its record */
    c->kept = NULL;
    rc = make_show(&mk, prog_now_s() - mk.t0, e);
out:
    release(&mk);
    return rc;
}
