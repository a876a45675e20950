// SPDX-License-Identifier: MIT
/* cli/mix.c - from a budget to a file: solve, write the plan, quantize. The room for metadata is
 * what a dry run says, so a file takes at most the budget to the byte. */
#include "cli/mix.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/hash.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"

int mix_file_hash(const char *path, char hex[33], struct err *e) {
    struct map m = {0};
    TRY(map_open(&m, path, e));
    hash_xxh128_hex(hex, m.data, m.size);
    map_close(&m);
    return 0;
}

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

void mix_report_release(struct mix_report *m) {
    free(m->plan);
    memset(m, 0, sizeof *m);
}

/* Errors, and losses where there is a file of them. */
static int load(struct sens *s, const struct gguf *g, struct cli *c, const struct quantize_opts *q,
                const char *sensitivity, struct err *e) {
    char hash[33] = "";
    TRY(sens_init(s, g, e));
    if (q->imatrix) TRY(mix_file_hash(q->imatrix, hash, e));
    if (sensitivity) {
        TRY(sens_read(s, sensitivity, e));
        if (strcmp(s->imatrix_hash, hash) != 0)
            log_warn("%s was measured with another importance matrix: the mix may not be the best "
                     "one for this",
                     sensitivity);
        return 0;
    }
    struct imat imat;
    imat_init(&imat);
    int rc = q->imatrix ? imat_read(&imat, q->imatrix, e) : 0;
    memcpy(s->imatrix_hash, hash, sizeof hash);
    s->search = q->search;
    if (!rc) rc = sens_errors(s, g, q->imatrix ? &imat : NULL, c->pool, e);
    imat_release(&imat);
    return rc;
}

static int write_plan(const struct sens *s, const struct gguf *g, const struct sens_mix *mix,
                      uint64_t budget, const char *path, bool overwrite, struct err *e) {
    struct buf b = {0};
    buf_fmt(&b, "# mix for %" PRIu64 " bytes, predicted divergence %.6f, bound %.6f%s\n", budget,
            mix->loss, mix->bound, mix->exact ? " (optimal)" : "");
    buf_str(&b, "# tensor<TAB>type, one line each; edit and pass as --recipe\n");
    for (int i = 0; i < s->n_groups; i++)
        for (int k = 0; k < s->group[i].n_items; k++)
            buf_fmt(&b, "%s\t%s\n", gguf_tensor_at(g, s->group[i].item[k])->name,
                    qtype_name(mix->type[i]));
    int rc = out_write_file(path, b.data, b.len, overwrite, e);
    buf_release(&b);
    return rc;
}

struct notes { /* of fixed length: they must not change the size they are computed from */
    char budget[24], loss[24], bound[24], source[40];
    struct quant_note note[4];
};

static void make_notes(struct notes *n, uint64_t budget, const struct sens_mix *mix,
                       const char *source) {
    snprintf(n->budget, sizeof n->budget, "%" PRIu64, budget);
    snprintf(n->loss, sizeof n->loss, "%.6e", mix->loss);
    snprintf(n->bound, sizeof n->bound, "%.6e", mix->bound);
    snprintf(n->source, sizeof n->source, "%s", source);
    n->note[0] = (struct quant_note){"hone.mix.budget_bytes", n->budget};
    n->note[1] = (struct quant_note){"hone.mix.predicted_kld", n->loss};
    n->note[2] = (struct quant_note){"hone.mix.predicted_kld_bound", n->bound};
    n->note[3] = (struct quant_note){"hone.mix.sensitivity_xxh128", n->source};
}

static char *plan_path(const struct quantize_opts *q, bool *temporary, struct err *e) {
    *temporary = false;
    if (q->plan_out) return xstrdup(q->plan_out);
    if (q->out && !q->dry_run) return xasprintf("%s.plan.tsv", q->out);
    const char *dir = getenv("TMPDIR");
    char *path = xasprintf("%s/hone-plan-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        err_sys(e, "%s: cannot make a temporary file", path);
        free(path);
        return NULL;
    }
    close(fd);
    *temporary = true;
    return path;
}

/* Solves until the room for metadata is right; the plan lies at path then. */
static int fit(const struct sens *s, const struct gguf *g, struct quantize_opts *o,
               const char *source, uint64_t budget, bool floors, bool overwrite,
               struct mix_report *m, struct notes *notes, struct err *e) {
    uint64_t room = 0;
    gguf_shard_header(g, 0, &room);
    for (int round = 0; round < 8; round++) {
        struct sens_mix mix;
        struct quantize_report r;
        if (room >= budget)
            return err_set(e, ERR_USAGE,
                           "--budget: %" PRIu64 " bytes are fewer than the metadata's %" PRIu64,
                           budget, room);
        TRY(sens_solve(s, budget - room, budget, floors, &mix, e));
        make_notes(notes, budget, &mix, source);
        int rc = write_plan(s, g, &mix, budget, o->recipe, overwrite || round > 0, e);
        o->dry_run = true;
        if (!rc) rc = quantize_run(o, &r, e);
        m->file_bytes = r.file_bytes;
        m->tensor_bytes = mix.bytes;
        m->loss = mix.loss;
        m->bound = mix.bound;
        m->exact = mix.exact;
        m->bpw = r.bpw;
        sens_mix_release(&mix);
        if (rc) return rc;
        uint64_t real = m->file_bytes - m->tensor_bytes;
        if (m->file_bytes <= budget && (real == room || round > 3)) return 0;
        room = m->file_bytes > budget && real <= room ? room + (m->file_bytes - budget) : real;
    }
    return err_set(e, ERR_DATA, "%s: no mix of at most %" PRIu64 " bytes was found", gguf_path(g),
                   budget);
}

int mix_quantize(struct cli *c, const struct quantize_opts *q, const char *sensitivity,
                 uint64_t budget, bool floors, struct mix_report *m, struct quantize_report *r,
                 struct err *e) {
    struct quantize_opts o = *q;
    struct gguf *g = NULL;
    struct sens s = {0};
    struct notes notes;
    char source[33] = "none";
    bool temporary = false;
    memset(m, 0, sizeof *m);
    memset(r, 0, sizeof *r);
    m->budget = budget;
    if (!q->dry_run && q->out && !q->overwrite && io_exists(q->out))
        return err_set(e, ERR_USAGE, "%s exists already; use -f to replace it", q->out);
    m->plan = plan_path(q, &temporary, e);
    if (!m->plan) return (int)e->code;
    o.recipe = m->plan;
    o.plan_out = NULL;
    o.pure = o.want_rows = false;
    o.note = notes.note;
    o.n_notes = (int)COUNT_OF(notes.note);
    o.pool = c->pool;
    int rc = gguf_open(&g, q->in, 0, e);
    if (!rc && sensitivity) rc = mix_file_hash(sensitivity, source, e);
    if (!rc) rc = load(&s, g, c, q, sensitivity, e);
    for (int i = 0; i < s.n_groups && !rc; i++) m->probed |= s.group[i].n_probes > 0;
    if (!rc) rc = fit(&s, g, &o, source, budget, floors, q->overwrite || temporary, m, &notes, e);
    o.dry_run = q->dry_run;
    o.want_rows = q->want_rows;
    if (!rc) rc = quantize_run(&o, r, e);
    if (temporary) {
        unlink(m->plan);
        free(m->plan);
        m->plan = NULL;
    }
    gguf_close(g);
    sens_release(&s);
    return rc;
}
