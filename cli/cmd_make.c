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
#include "cli/eval.h"
#include "cli/kept.h"
#include "cli/make.h"
#include "cli/mix.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/prog.h"
#include "quantize/quantize.h"
#include "report/result.h"
#include "text/suite.h"

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

static void release(struct make *mk) {
    for (int i = 0; i < mk->n_files; i++) {
        free(mk->file[i].file);
        free(mk->file[i].path);
        buf_release(&mk->file[i].eval);
        buf_release(&mk->file[i].speed);
        buf_release(&mk->file[i].tools);
    }
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

/* Everything that can be known to be wrong before hours of work. */
static int check_request(struct make *mk, struct err *e) {
    TRY(make_check_source(mk->src, e));
    for (int i = 0; i < mk->recipes.n; i++) {
        const char *name = recipe_find(mk->recipes.v[i]);
        if (!name)
            return err_set(e, ERR_USAGE, "--recipes: no recipe '%s'; 'hone recipes' lists them",
                           mk->recipes.v[i]);
        mk->recipes.v[i] = name;
    }
    int64_t depth[EVAL_MAX_LIST];
    int n_depths;
    TRY(eval_parse_list(mk->depths, "--depths", depth, &n_depths, e));
    for (int i = 0; i < n_depths; i++)
        if (depth[i] > INT32_MAX)
            return err_set(e, ERR_USAGE, "--depths: %s is too far", mk->depths);
    if (mk->budget.n > MIX_MAX_BUDGETS)
        return err_set(e, ERR_USAGE, "--budget: at most %d", MIX_MAX_BUDGETS);
    for (int i = 0; i < mk->budget.n; i++) {
        uint64_t size;
        TRY(cli_size(mk->budget.v[i], "--budget", &size, e));
    }
    if (mk->tools && strcmp(mk->tools, "none") != 0) { /* its faults before hours of work */
        struct suite suite;
        TRY(eval_suite_read(&suite, mk->tools, e));
        suite_close(&suite);
    }
    const struct str_list *texts[] = {&mk->calib, &mk->eval, &mk->probe};
    for (size_t k = 0; k < COUNT_OF(texts); k++) TRY(make_check_texts(texts[k], e));
    for (int i = 0; i < mk->calib.n; i++)
        for (int k = 0; k < mk->eval.n; k++)
            if (strcmp(mk->calib.v[i], mk->eval.v[k]) == 0)
                log_warn("%s is used for calibration and evaluation: the numbers will flatter the "
                         "quants",
                         mk->calib.v[i]);
    return 0;
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

static int all_steps(struct make *mk, struct err *e) {
    static int (*const steps[])(struct make * mk, struct err * e) = {
        make_source,  make_convert, make_texts, make_imatrix, make_quantize, make_mix,
        remove_parts, make_eval,    make_speed, make_tools,   make_report};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        if (prog_interrupted())
            return err_set(e, ERR_INTR,
                           "interrupted; run the same command again "
                           "to go on");
        TRY(steps[i](mk, e));
    }
    return 0;
}

static int show(struct make *mk, double seconds, struct err *e) {
    struct result r;
    char *path = job_path(&mk->job, "results.json");
    int rc = result_open(&r, path, e);
    free(path);
    if (rc) return rc;
    struct emit *m = emit_new();
    static const char *const col[][2] = {{"file", "file"},
                                         {"size_bytes", "bytes"},
                                         {"bpw", "bpw"},
                                         {"ppl", "PPL"},
                                         {"mean_kld", "mean KLD"},
                                         {"kld_p999", "99.9 %"},
                                         {"same_top1", "same top-1"},
                                         {"pp_tok_per_s", "pp t/s"},
                                         {"tg_tok_per_s", "tg t/s"}};
    emit_str(m, "folder", "folder", mk->job.dir);
    emit_num(m, "seconds", "seconds", seconds, 1);
    emit_table(m, "files", "");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i][0], col[i][1]);
    for (int i = 0; i < r.n_files; i++) {
        const struct result_file *f = &r.file[i];
        emit_row(m);
        emit_cell_str(m, f->file);
        emit_cell_i64(m, f->size_bytes);
        emit_cell_num(m, f->bpw, 2);
        emit_cell_num(m, f->ppl, 4);
        if (f->is_base) {
            for (int k = 0; k < 3; k++) emit_cell_none(m);
        } else {
            emit_cell_num(m, f->mean_kld, 6);
            emit_cell_num(m, f->kld_p999, 4);
            emit_cell_num(m, f->same_top1, 4);
        }
        emit_cell_num(m, f->pp_tok_per_s, 0);
        emit_cell_num(m, f->tg_tok_per_s, 1);
    }
    cli_emit(mk->c, m);
    emit_free(m);
    result_close(&r);
    if (mk->c->form == EMIT_TABLE)
        log_info("report: %s/README.md and %s/report.html", mk->job.dir, mk->job.dir);
    return 0;
}

int cmd_make(struct cli *c, int argc, char **argv, struct err *e) {
    const char *out = NULL, *recipes = "Q8_0,Q6_K,Q5_K_M,Q4_K_M,IQ4_XS,Q3_K_M,Q2_K";
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
                      .search = "fast"};
    mk.job.lock_fd = -1;
    const struct opt opts[] = {
        {"output", 'o', OPT_STR, &out, "DIR", "folder of the results"},
        {"recipes", 0, OPT_STR, &recipes, "A,B,..", "what to make (Q8_0,Q6_K,Q5_K_M,Q4_K_M,...)"},
        {"calib", 0, OPT_LIST, &mk.calib, "FILE", "calibration text or .jsonl; repeatable"},
        {"budget", 0, OPT_LIST, &mk.budget, "SIZE", "also the best mix of this size; repeatable"},
        {"probe", 0, OPT_LIST, &mk.probe, "FILE", "text the mixes are chosen on; repeatable"},
        {"probe-time", 0, OPT_NUM, &mk.probe_minutes, "MINUTES", "limit of these probes (none)"},
        {"eval", 0, OPT_LIST, &mk.eval, "FILE", "evaluation text or .jsonl; repeatable"},
        {"tools", 0, OPT_STR, &mk.tools, "SUITE",
         "tool calls to ask for: .jsonl, builtin, none (default: SRC/tools.jsonl)"},
        {"tools-cases", 0, OPT_I64, &mk.tools_cases, "N",
         "cases of it, evenly spread (12); 0: all"},
        {"calib-ctx", 0, OPT_I64, &mk.calib_ctx, "N", "tokens per calibration chunk (512)"},
        {"calib-chunks", 0, OPT_I64, &mk.calib_chunks, "N", "at most N chunks; 0: all (default)"},
        {"ctx", 0, OPT_I64, &mk.eval_ctx, "N", "tokens per evaluation chunk (512)"},
        {"chunks", 0, OPT_I64, &mk.eval_chunks, "N", "evaluate at most N chunks (100); 0: all"},
        {"type", 0, OPT_STR, &mk.type, "NAME", "type of the base: auto, f32, f16, bf16, q8_0"},
        {"search", 0, OPT_STR, &mk.search, "NAME", "quantizer search: fast, best, conventional"},
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
        "SRC -o DIR [--recipes A,B,..] [--budget SIZE]... [--calib FILE]... [--eval FILE]... "
        "[--resume]",
        "Hugging Face folder (or GGUF) in; measured GGUFs with a report out: convert, importance "
        "matrix,\n"
        "every recipe, perplexity and divergence of each from the base, speed, tool calls, "
        "README.md, "
        "report.html,\n"
        "results.json, SHA256SUMS. Steps already done with the same inputs are reused; -f redoes "
        "all.",
        opts,
        COUNT_OF(opts),
        1,
        1};
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    if (!out) return err_set(e, ERR_USAGE, "make: say where the results go with -o DIR");
    double t0 = prog_now_s();
    mk.src = c->arg[0];
    mk.redo = c->overwrite;
    cli_split(c, recipes, &mk.recipes);
    int rc;
    TRY_GOTO(out, rc, check_request(&mk, e));
    if (c->device.kind == DEVICE_CUDA) c->device.kind = DEVICE_AUTO; /* a step may be too large */
    TRY_GOTO(out, rc, cli_pool(c, e));
    TRY_GOTO(out, rc, make_check_base(&mk, e));
    TRY_GOTO(out, rc, job_open(&mk.job, out, e));
    TRY_GOTO(out, rc, make_name(&mk, e));
    if (mk.redo) TRY_GOTO(out, rc, remove_parts(&mk, e));
    open_kept(&mk);
    TRY_GOTO(out, rc, all_steps(&mk, e));
    keep_close(c->kept, true); /* every number has its record */
    c->kept = NULL;
    rc = show(&mk, prog_now_s() - t0, e);
out:
    release(&mk);
    return rc;
}
