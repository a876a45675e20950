// SPDX-License-Identifier: MIT
/* mix/mixer.c - steps from a budget to a plan: solving, writing the plan, setting the options of
 * quantize_run. A dry run gives the exact size of the metadata, so the file never exceeds its
 * budget. For a card, models/fit.c computes how much room keys and values, state and working memory
 * leave. */
#include "mix/mixer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/measure/measurement_cache.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/os.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "models/fit.h"
#include "quantize/record.h"

int mix_search(const char *name, enum search *out, struct err *e) {
    *out = SEARCH_FAST;
    for (int k = SEARCH_FAST; name && k <= SEARCH_CONVENTIONAL; k++)
        if (strcmp(name, search_name((enum search)k)) == 0) {
            *out = (enum search)k;
            return 0;
        }
    return name ? err_set(e, ERR_USAGE, "--search: '%s' is not fast, best or conventional", name)
                : 0;
}

/* ---- the model and its losses ---------------------------------------------------------------- */

/* Reads the losses from the sensitivity file or, without one, measures the errors. */
static int load(struct mixer *x, const struct quantize_opts *q, const char *sensitivity,
                uint64_t least, struct err *e) {
    struct sens *s = &x->s;
    char hash[33] = "";
    TRY(sens_init(s, x->g, e));
    if (q->imatrix) TRY(record_file_hash(q->imatrix, hash, e));
    if (sensitivity) {
        TRY(sens_read(s, sensitivity, e));
        if (strcmp(s->imatrix_hash, hash) != 0)
            log_warn("%s was measured with another importance matrix: the mix may not be the best "
                     "for this one",
                     sensitivity);
        return 0;
    }
    struct imat imat;
    struct kept_of kept = {0};
    kept_weights(&kept, x->w->kept, x->g, hash, NULL);
    struct sens_source from = {x->g, q->imatrix ? &imat : NULL, x->w->pool, NULL, kept.of};
    imat_init(&imat);
    int rc = q->imatrix ? imat_read(&imat, q->imatrix, e) : 0;
    memcpy(s->imatrix_hash, hash, sizeof hash);
    x->measured = true;
    s->search = q->search;
    sens_set_low(s, least);
    if (!rc) rc = qdev_open(&from.dev, &q->device, from.pool, e);
    if (!rc) rc = sens_errors(s, &from, e);
    qdev_close(from.dev);
    imat_release(&imat);
    kept_release(&kept);
    return rc;
}

/* Computes the gain of error feedback for each type from the moments, if --gram was given. */
static int load_gains(struct mixer *x, const struct quantize_opts *q, struct err *e) {
    struct gram gram;
    struct imat imat;
    gram_init(&gram);
    imat_init(&imat);
    int rc = gram_read(&gram, q->gram, e);
    struct kept_of kept = {0};
    char hash[33] = "";
    if (!rc && q->imatrix) rc = imat_read(&imat, q->imatrix, e);
    if (!rc && q->imatrix) rc = record_file_hash(q->imatrix, hash, e);
    kept_weights(&kept, x->w->kept, x->g, hash, gram.file);
    const struct sens_feedback f = {.gram = &gram,
                                    .imat = q->imatrix ? &imat : NULL,
                                    .search = q->search,
                                    .without = q->without,
                                    .pool = x->w->pool,
                                    .keep = kept.of};
    if (!rc) rc = sens_gains(&x->s, x->g, &f, e);
    if (rc && rc != ERR_INTR) err_wrap(e, "%s", q->gram);
    kept_release(&kept);
    imat_release(&imat);
    gram_release(&gram);
    return rc;
}

int mixer_open(struct mixer *x, struct work *w, const struct quantize_opts *q,
               const char *sensitivity, uint64_t least, struct err *e) {
    *x = (struct mixer){.w = w, .source = "none"};
    TRY(gguf_open(&x->g, q->in, 0, e));
    if (sensitivity) TRY(record_file_hash(sensitivity, x->source, e));
    TRY(load(x, q, sensitivity, least, e));
    if (q->gram && q->search != SEARCH_CONVENTIONAL) TRY(load_gains(x, q, e));
    for (int i = 0; i < x->s.n_groups; i++) x->probed |= x->s.group[i].n_probes > 0;
    return 0;
}

int mixer_write_gains(const struct mixer *x, const char *path, struct err *e) {
    struct buf b = {0};
    for (int i = 0; i < x->s.n_groups; i++)
        for (int t = 0; t < QT_COUNT; t++)
            if (x->s.group[i].can[t]) buf_fmt(&b, "%d %d %.17g\n", i, t, x->s.group[i].gain[t]);
    int rc = out_write_file(path, b.data ? b.data : "", b.len, true, e);
    buf_release(&b);
    return rc;
}

int mixer_read_gains(struct mixer *x, const char *path, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    int rc = io_read_file(&text, &len, path, 64 << 20, e);
    for (char *s = text, *end; !rc && s && *s; s = end + (*end == '\n')) {
        long i = strtol(s, &end, 10), t = strtol(end, &end, 10);
        double gain = strtod(end, &end);
        if (i < 0 || i >= x->s.n_groups || t < 0 || t >= QT_COUNT || !(gain > 0) || gain > 1 ||
            (*end && *end != '\n'))
            rc = err_set(e, ERR_DATA, "%s: damaged; remove it", path);
        else
            x->s.group[i].gain[t] = gain;
    }
    free(text);
    return rc;
}

void mixer_close(struct mixer *x) {
    gguf_close(x->g);
    sens_release(&x->s);
    memset(x, 0, sizeof *x);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Computes how many bytes of a card are needed for things other than weights. */
static int beside_weights(const struct mixer *x, const struct mix_ask *ask, uint64_t *out,
                          struct err *e) {
    const char *name = gguf_str_or(x->g, "general.architecture", "");
    const struct arch *a = arch_find(name);
    if (!a)
        return err_set(e, ERR_DATA,
                       "%s: architecture \"%.60s\" is not known, so its cache cannot be computed; "
                       "use --budget",
                       gguf_path(x->g), name);
    struct hparams *h = xcalloc(1, sizeof *h);
    struct sizes *z = xcalloc(1, sizeof *z);
    struct fit_ask f = {.memory = ask->vram,
                        .reserve = ask->reserve,
                        .n_ctx = ask->ctx,
                        .n_slots = ask->slots,
                        .rows = ask->kv};
    struct fit_use u;
    int rc = hparams_from_gguf(h, a, x->g, e);
    if (!rc) rc = sizes_init(z, a, h, e);
    if (rc) {
        const struct err why = *e;
        err_set(e, why.code, "%.900s; so its cache cannot be computed: use --budget", why.msg);
    }
    if (!rc && !f.n_ctx) f.n_ctx = z->n_ctx_train > 0 ? z->n_ctx_train : 4096;
    if (!rc && !fit_use(z, &f, 0, 0, &u))
        rc = err_set(
            e, ERR_USAGE,
            "--kv-type %s does not fit this model's heads, or --ctx times --slots is too large",
            ask->kv_type);
    if (!rc) *out = u.total;
    free(h);
    free(z);
    return rc;
}

/* Sets *out to a mix's limits on bytes and speed and its floors. `beside` receives
 * the number of bytes of the card that are needed for things other than weights. */
static int limits(const struct mixer *x, const struct mix_ask *ask, uint64_t room,
                  struct sens_ask *out, uint64_t *beside, struct err *e) {
    *out = (struct sens_ask){.tensor_bytes = UINT64_MAX,
                             .budget = ask->budget,
                             .speed = ask->speed,
                             .floors = ask->floors};
    memcpy(out->avoid, ask->avoid, sizeof out->avoid);
    *beside = 0;
    if (ask->budget && room >= ask->budget)
        return err_set(e, ERR_USAGE,
                       "--budget: %" PRIu64 " bytes cannot hold the metadata of %" PRIu64,
                       ask->budget, room);
    if (ask->budget) out->tensor_bytes = ask->budget - room;
    if (!ask->vram) return 0;
    TRY(beside_weights(x, ask, beside, e));
    uint64_t taken = *beside + ask->reserve;
    if (taken >= ask->vram)
        return err_set(e, ERR_USAGE,
                       "--vram: of %" PRIu64 " bytes, %" PRIu64 " are kept free and %" PRIu64
                       " go to keys and values, state and working memory: nothing is left for "
                       "weights; use a shorter --ctx or a smaller --kv-type",
                       ask->vram, ask->reserve, *beside);
    out->device_bytes = ask->vram - taken;
    if (!out->budget) out->budget = out->device_bytes;
    return 0;
}

/* ---- one mix --------------------------------------------------------------------------------- */

/* Writes the mix as a plan file for `hone quantize`. */
static int write_plan(const struct mixer *x, const struct mix_ask *ask, const struct sens_mix *mix,
                      const char *path, struct err *e) {
    const struct sens *s = &x->s;
    struct buf b = {0};
    buf_str(&b, "# mix for");
    if (ask->budget) buf_fmt(&b, " %" PRIu64 " bytes", ask->budget);
    if (ask->vram) buf_fmt(&b, " a card of %" PRIu64 " bytes", ask->vram);
    buf_fmt(&b, ", predicted divergence %.6f, gap to the bound %.9f%s\n", mix->loss, mix->gap,
            mix->exact ? " (optimal)" : "");
    buf_str(&b, "# tensor<TAB>type, one line each; edit and pass as --recipe\n");
    for (int i = 0; i < s->n_groups; i++)
        for (int k = 0; k < s->group[i].n_items; k++)
            buf_fmt(&b, "%s\t%s\n", gguf_tensor_at(x->g, s->group[i].item[k])->name,
                    qtype_name(mix->type[i]));
    int rc = out_write_file(path, b.data, b.len, true, e);
    buf_release(&b);
    return rc;
}

static const char *const note_key[MIX_NOTES] = {
    "hone.mix.budget_bytes",  "hone.mix.vram_bytes",          "hone.mix.speed_weight",
    "hone.mix.predicted_kld", "hone.mix.predicted_kld_bound", "hone.mix.sensitivity_xxh128"};

/* Sets the file's notes that document the choice of types. Their length is fixed, because they are
 * computed from the file size, which must not change. */
static void make_notes(const struct mixer *x, struct mix_job *j, const struct mix_ask *ask,
                       const struct sens_mix *mix) {
    snprintf(j->text[0], sizeof j->text[0], "%" PRIu64, ask->budget);
    snprintf(j->text[1], sizeof j->text[1], "%" PRIu64, ask->vram);
    snprintf(j->text[2], sizeof j->text[2], "%g", ask->speed);
    snprintf(j->text[3], sizeof j->text[3], "%.6e", mix->loss);
    snprintf(j->text[4], sizeof j->text[4], "%.6e", fmax(0, mix->loss - mix->gap));
    snprintf(j->text[5], sizeof j->text[5], "%s", x->source);
    for (int i = 0; i < MIX_NOTES; i++) j->note[i] = (struct quant_note){note_key[i], j->text[i]};
}

int mix_read_notes(const char *path, struct gguf **g, struct quant_note note[MIX_NOTES], int *n,
                   struct err *e) {
    *n = 0;
    TRY(gguf_open(g, path, 0, e));
    for (int i = 0; i < MIX_NOTES; i++) {
        const char *text = gguf_str_or(*g, note_key[i], NULL);
        if (text) note[(*n)++] = (struct quant_note){note_key[i], text};
    }
    return 0;
}

/* Gives the job a temporary file for its plan, which mix_job_release deletes. */
static int make_temporary(struct mix_job *j, const char *tmp, struct err *e) {
    char *path = xasprintf("%s/hone-plan-XXXXXX", tmp);
    int fd = os_mkstemp(path);
    if (fd < 0) {
        const int rc = err_sys(e, "%s: cannot make a temporary file", path);
        free(path);
        return rc;
    }
    os_close(fd);
    j->m.plan = path;
    j->temporary = true;
    return 0;
}

/* Gives the final plan the name that q asks for, if any. Without `overwrite`, a file of this name
 * must be the same. */
static int keep_plan(struct mix_job *j, const struct quantize_opts *q, struct err *e) {
    char *text = NULL, *path;
    size_t len = 0;
    if (!q->plan_out && (!q->out || q->dry_run)) return 0;
    TRY(io_read_file(&text, &len, j->m.plan, UINT32_MAX, e));
    path = q->plan_out ? xstrdup(q->plan_out) : xasprintf("%s" MIX_PLAN, q->out);
    const bool is_new = !io_exists(path);
    const int rc = out_write_again(path, text, len, q->overwrite, e);
    free(text);
    if (rc) {
        free(path);
        return rc;
    }
    os_unlink(j->m.plan);
    free(j->m.plan);
    j->o.recipe = j->m.plan = path;
    j->temporary = false;
    j->new_plan = is_new;
    return 0;
}

/* Finds the best mix within the limits `sa`. If none is small enough, measures IQ1_S and IQ1_M too,
 * which need importance, and tries again with them. */
static int solve(struct mixer *x, const struct quantize_opts *q, const struct mix_ask *ask,
                 const struct sens_ask *sa, struct sens_mix *mix, struct err *e) {
    const int rc = sens_solve(&x->s, sa, mix, e);
    if (rc != ERR_USAGE || !ask->can_lower || !x->measured || x->s.low || !q->imatrix) return rc;
    log_info("no mix is small enough: measuring IQ1_S and IQ1_M too");
    sens_release(&x->s);
    TRY(load(x, q, NULL, 1, e));
    if (q->gram && q->search != SEARCH_CONVENTIONAL) TRY(load_gains(x, q, e));
    return sens_solve(&x->s, sa, mix, e);
}

/* Solves with `room` bytes reserved for metadata, and computes the size of the resulting file. */
static int attempt(struct mixer *x, const struct mix_ask *ask, uint64_t room, struct mix_job *j,
                   struct err *e) {
    struct sens_ask sa;
    struct sens_mix mix;
    struct quantize_report r = {0};
    struct mix_report *m = &j->m;
    uint64_t beside;
    TRY(limits(x, ask, room, &sa, &beside, e));
    TRY(solve(x, &j->o, ask, &sa, &mix, e));
    make_notes(x, j, ask, &mix);
    int rc = write_plan(x, ask, &mix, m->plan, e);
    bool dry = j->o.dry_run;
    j->o.dry_run = true;
    if (!rc) rc = quantize_run(&j->o, &r, e);
    j->o.dry_run = dry;
    m->file_bytes = r.file_bytes;
    m->bpw = r.bpw;
    m->tensor_bytes = mix.bytes;
    m->vram_bytes = ask->vram ? mix.device_bytes + beside : 0;
    m->device_room = sa.device_bytes;
    m->loss = mix.loss;
    m->gap = mix.gap;
    m->decode_bytes = mix.decode_bytes;
    m->price = mix.price;
    m->exact = mix.exact;
    sens_mix_release(&mix);
    return rc;
}

int mix_solve_job(struct mixer *x, const struct quantize_opts *q, const struct mix_ask *ask,
                  struct mix_job *j, struct err *e) {
    memset(j, 0, sizeof *j);
    j->o = *q;
    j->m.budget = ask->budget;
    j->m.probed = x->probed;
    if (!q->dry_run && q->out) TRY(out_check(q->out, q->overwrite, e));
    TRY(make_temporary(j, x->w->tmp, e));
    j->o.recipe = j->m.plan;
    j->o.plan_out = NULL;
    j->o.pure = j->o.want_rows = false;
    j->o.note = j->note;
    j->o.n_notes = MIX_NOTES;
    j->o.pool = x->w->pool;
    uint64_t room = 0;
    gguf_shard_header(x->g, 0, &room);
    /* Repeats until the room reserved for metadata is right. */
    for (int round = 0; round < 8; round++) {
        TRY(attempt(x, ask, room, j, e));
        uint64_t real = j->m.file_bytes - j->m.tensor_bytes;
        if (!ask->budget) return keep_plan(j, q, e);
        if (j->m.file_bytes <= ask->budget && (real == room || round > 3))
            return keep_plan(j, q, e);
        room = j->m.file_bytes > ask->budget && real <= room
                   ? room + (j->m.file_bytes - ask->budget)
                   : real;
    }
    return err_set(e, ERR_DATA, "%s: no mix of at most %" PRIu64 " bytes was found",
                   gguf_path(x->g), ask->budget);
}

int mix_solve_size(struct mixer *x, const struct quantize_opts *q, uint64_t budget,
                   struct mix_job *j, struct err *e) {
    struct mix_ask ask = {.budget = budget, .floors = true};
    const int rc = mix_solve_job(x, q, &ask, j, e);
    if (rc != ERR_USAGE && rc != ERR_DATA) return rc;
    mix_job_release(j);
    ask.floors = false;
    return mix_solve_job(x, q, &ask, j, e);
}

uint64_t mixer_device_bytes(const struct mixer *x, const struct quantize_report *r) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < r->n_tensors; i++) bytes += sens_padded(r->rows[i].out_bytes);
    for (int i = 0; i < x->s.n_groups; i++)
        for (int k = 0; x->s.group[i].host && k < x->s.group[i].n_items; k++)
            bytes -= sens_padded(r->rows[x->s.group[i].item[k]].out_bytes);
    return bytes;
}

void mix_job_release(struct mix_job *j) {
    if (j->temporary && j->m.plan) os_unlink(j->m.plan);
    free(j->m.plan);
    memset(j, 0, sizeof *j);
}

/* ---- from quality to speed ------------------------------------------------------------------- */

int mix_front(struct mixer *x, const struct mix_ask *ask, const struct mix_job *j,
              struct mix_point out[MIX_FRONT], int *n, struct err *e) {
    struct sens_ask sa;
    uint64_t beside;
    *n = 0;
    TRY(limits(x, ask, ask->budget ? j->m.file_bytes - j->m.tensor_bytes : 0, &sa, &beside, e));
    for (int i = 0; i < MIX_FRONT; i++) {
        struct sens_mix mix;
        sa.speed = i ? ldexp(1, i - 8) : 0; /* 0, 1/128 ... 128 */
        TRY(sens_solve(&x->s, &sa, &mix, e));
        struct mix_point p = {sa.speed, mix.loss, mix.decode_bytes};
        sens_mix_release(&mix);
        if (*n && !(p.decode_bytes < out[*n - 1].decode_bytes)) continue;
        while (*n && p.loss <= out[*n - 1].loss) (*n)--;
        out[(*n)++] = p;
    }
    return 0;
}
