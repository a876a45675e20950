// SPDX-License-Identifier: MIT
/* cli/publish.c - see publish.h.
 *
 * All texts are made first, then every conflict is looked for, then files are written, each whole
 * or not at all; manifest.json and SHA256SUMS come last. A file that is there is replaced when it
 * is as SHA256SUMS lists it or carries our mark (nobody edited it), or with overwrite. Tensor data
 * are read once. Nothing is deleted. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/publish.h"
#include "core/buf.h"
#include "core/hash.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/prog.h"
#include "models/fit.h"
#include "report/manifest.h"
#include "report/release.h"
#include "report/result.h"
#include "text/chat.h"

enum { MAX_TEXT = 64 << 20, MAX_TEXTS = 24 };

struct text_file {
    const char *name;
    struct buf text;
};
struct publish {
    const struct publish_opts *o;
    struct publish_report *r;
    struct release rel;
    struct result res;
    bool have_result;
    struct text_file file[MAX_TEXTS];
    int n_files;
    char *prompt, *old_sums;
    struct json *old_supersedes; /* NULL: none */
};

/* ---- what the model's numbers say ------------------------------------------------------------ */

static bool file_sizes(struct sizes *z, const char *path, struct err *e) {
    struct gguf *g;
    struct hparams *h = xcalloc(1, sizeof *h);
    bool open = gguf_open(&g, path, GGUF_TOLERANT, e) == 0, ok;
    const struct arch *a = open ? arch_find(gguf_str_or(g, "general.architecture", "")) : NULL;
    ok = a && hparams_from_gguf(h, a, g, e) == 0 && sizes_init(z, a, h, e) == 0;
    for (int64_t i = 0; ok && i < gguf_n_tensors(g); i++)
        sizes_add(z, a, gguf_tensor_at(g, i)->name, gguf_tensor_at(g, i)->n_bytes);
    if (open) gguf_close(g);
    free(h);
    return ok;
}

/* Lower is better: measured divergence where there is one, else size. */
static double badness(const struct publish *p, int i) {
    const struct release_file *f = &p->rel.file[i];
    if (f->is_float) return -1;
    for (int k = 0; p->have_result && k < p->res.n_files; k++)
        if (strcmp(p->res.file[k].file, f->file) == 0 && p->res.file[k].mean_kld >= 0)
            return p->res.file[k].mean_kld;
    return 1e6 - f->bpw;
}

static void advise(struct publish *p) {
    static const int gib[] = {8, 12, 16, 24, 32, 48, 80};
    struct release *r = &p->rel;
    struct sizes *z = xcalloc((size_t)r->n_files, sizeof *z);
    bool *ok = xcalloc((size_t)r->n_files, sizeof *ok);
    struct err e;
    for (int i = 0; i < r->n_files; i++) {
        char *path = io_join(r->dir, r->file[i].file);
        ok[i] = file_sizes(&z[i], path, &e);
        if (!ok[i]) log_debug("%s: no memory figures: %s", path, e.msg);
        free(path);
    }
    for (size_t k = 0; k < COUNT_OF(gib); k++) {
        struct release_card c = {.gib = gib[k], .file = -1};
        double best = 0;
        for (int i = 0; i < r->n_files; i++) {
            struct fit f;
            if (!ok[i]) continue;
            int64_t ctx = z[i].n_ctx_train > 0 && z[i].n_ctx_train < 8192 ? z[i].n_ctx_train : 8192;
            struct fit_ask ask = {.memory = (uint64_t)gib[k] << 30,
                                  .reserve = UINT64_C(1) << 30,
                                  .n_ctx = ctx,
                                  .n_slots = 1,
                                  .kv_type = QT_F16};
            if (!fit_find(&z[i], &ask, &f) || f.way != FIT_ALL) continue;
            if (c.file >= 0 && badness(p, i) >= best) continue;
            c.file = i;
            c.max_ctx = f.max_ctx;
            best = badness(p, i);
        }
        r->card[r->n_cards++] = c;
        if (c.file >= 0 && r->file[c.file].is_float) break; /* more memory changes nothing */
    }
    free(ok);
    free(z);
}

/* A conversation of one turn as the model sees it. */
static void render_prompt(struct publish *p) {
    static const char conv[] = "{\"messages\": [{\"role\": \"system\", \"content\": "
                               "\"{system message}\"}, {\"role\": \"user\", \"content\": "
                               "\"{your question}\"}]}";
    struct chat *c;
    struct buf out = {0};
    struct err e;
    if (!*p->rel.template) return;
    if (chat_new(&c, p->rel.template, "chat template", p->rel.bos,
                 p->rel.n_stops ? p->rel.stop[0] : "", &e)) {
        log_debug("no prompt format: %s", e.msg);
        return;
    }
    if (chat_render_text(c, conv, sizeof conv - 1, NULL, true, &out, &e) == 0 && out.len < 4000)
        p->rel.prompt = p->prompt = buf_take(&out);
    buf_release(&out);
    chat_free(c);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static struct buf *add_text(struct publish *p, const char *name) {
    p->file[p->n_files].name = name;
    return &p->file[p->n_files++].text;
}

static int copy_source(struct publish *p, struct err *e) {
    /* SYSTEM_PROMPT.txt: pulls from the Hub take a file named system */
    static const char *const copied[][2] = {{"LICENSE", NULL},
                                            {"LICENSE.txt", NULL},
                                            {"LICENSE.md", NULL},
                                            {"NOTICE", NULL},
                                            {"USE_POLICY.md", NULL},
                                            {"config.json", NULL},
                                            {"generation_config.json", NULL},
                                            {"chat_template.jinja", NULL},
                                            {"SYSTEM_PROMPT.txt", "system"}};
    if (!p->o->source) return 0;
    if (!io_is_dir(p->o->source))
        return err_set(e, ERR_USAGE, "--source: %s is not a folder", p->o->source);
    for (size_t i = 0; i < COUNT_OF(copied); i++) {
        char *path = io_join(p->o->source, copied[i][0]), *text;
        size_t len;
        int rc = 0;
        if (io_exists(path) && !io_is_dir(path)) {
            rc = io_read_file(&text, &len, path, MAX_TEXT, e);
            if (rc == 0) {
                const char *name = copied[i][1] ? copied[i][1] : copied[i][0];
                /* a text with blanks to fill in is not one */
                bool whole = !copied[i][1] || !memchr(text, '{', len);
                if (whole) buf_add(add_text(p, name), text, len);
                free(text);
            }
        }
        free(path);
        if (rc) return rc;
    }
    return 0;
}

static int make_texts(struct publish *p, struct err *e) {
    char *path = io_join(p->o->dir, "results.json");
    int rc = 0;
    if (io_exists(path)) {
        rc = result_open(&p->res, path, e);
        p->have_result = rc == 0;
    }
    free(path);
    if (rc) return rc;
    advise(p);
    render_prompt(p);
    TRY(copy_source(p, e));
    report_readme(p->have_result ? &p->res : NULL, &p->rel, add_text(p, "README.md"));
    if (p->have_result) {
        struct buf depth = {0}, speed = {0};
        report_html(&p->res, add_text(p, "report.html"));
        report_svg_kld(&p->res, add_text(p, "kld.svg"));
        if (report_svg_kld_depth(&p->res, &depth)) *add_text(p, "kld-depth.svg") = depth;
        if (report_svg_speed_depth(&p->res, &speed)) *add_text(p, "speed-depth.svg") = speed;
    }
    release_modelfile(&p->rel, add_text(p, "Modelfile"));
    release_params(&p->rel, add_text(p, "params"));
    release_model_yaml(&p->rel, add_text(p, "model.yaml"));
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* SHA256SUMS has this hash for the name. */
static bool listed(const struct publish *p, const char *name, const char *hex) {
    char *line = xasprintf("%s  %s\n", hex, name);
    bool found = p->old_sums && strstr(p->old_sums, line) != NULL;
    free(line);
    return found;
}

/* *same: nothing to write. ERR_USAGE when somebody edited the file. */
static int may_replace(const struct publish *p, const char *path, const struct text_file *f,
                       bool *same, struct err *e) {
    char *old, hex[65];
    size_t len;
    struct sha256 s;
    *same = false;
    if (!io_exists(path)) return 0;
    TRY(io_read_file(&old, &len, path, MAX_TEXT, e));
    *same = len == f->text.len && memcmp(old, f->text.data ? f->text.data : "", len) == 0;
    sha256_init(&s);
    sha256_add(&s, old, len);
    sha256_hex(&s, hex);
    bool ours = *same || p->o->overwrite || strstr(old, README_MARK) || listed(p, f->name, hex);
    free(old);
    if (ours) return 0;
    return err_set(e, ERR_USAGE,
                   "%s was not written by hone, or was edited since; use -f to replace it", path);
}

static int write_texts(struct publish *p, struct err *e) {
    bool same[MAX_TEXTS];
    for (int i = 0; i < p->n_files; i++) {
        char *path = io_join(p->o->dir, p->file[i].name);
        int rc = may_replace(p, path, &p->file[i], &same[i], e);
        free(path);
        if (rc) return rc;
    }
    for (int i = 0; i < p->n_files; i++) {
        if (same[i]) continue;
        char *path = io_join(p->o->dir, p->file[i].name);
        const struct buf *b = &p->file[i].text;
        int rc = out_write_file(path, b->data ? b->data : "", b->len, true, e);
        free(path);
        if (rc) return rc;
        p->r->n_written++;
    }
    return 0;
}

static int list_file(struct publish *p, struct jw *w, struct buf *sums, const char *name,
                     struct prog *prog, struct err *e) {
    char hex[65], *path = io_join(p->o->dir, name);
    size_t n = strlen(name);
    uint64_t size = 0;
    bool gguf = n > 5 && strcmp(name + n - 5, ".gguf") == 0;
    int rc = gguf ? manifest_add_gguf(w, path, hex, prog, e) : manifest_add_file(w, path, hex, e);
    if (rc == 0) rc = io_file_size(path, &size, e);
    if (rc == 0) buf_fmt(sums, "%s  %s\n", hex, name);
    p->r->n_bytes += size;
    p->r->n_listed++;
    free(path);
    return rc;
}

/* What --supersedes names; else a list that is there stays. */
static int add_superseded(struct publish *p, struct jw *w, const char *sums, struct err *e) {
    if (p->o->supersedes) return manifest_add_superseded(w, p->o->supersedes, sums, e);
    if (!p->old_supersedes) return 0;
    jw_copy(w, "supersedes", json_get(p->old_supersedes, "supersedes"));
    return 0;
}

/* The folder's own manifest, when it has such a list and can be read. */
static struct json *read_superseded(const char *dir) {
    struct json *root = NULL;
    struct err ignored;
    char *path = io_join(dir, MANIFEST_NAME);
    if (io_exists(path) && json_read(&root, path, 4 * MAX_TEXT, &ignored) == 0 &&
        !json_first(json_get(root, "supersedes"))) {
        json_free(root);
        root = NULL;
    }
    free(path);
    return root;
}

static int write_lists(struct publish *p, struct err *e) {
    struct release now; /* with the files just written */
    struct buf json = {0}, sums = {0};
    struct jw w;
    struct prog prog;
    uint64_t total = 0;
    TRY(release_open(&now, p->o->dir, e));
    for (int i = 0; i < now.n_files; i++) total += now.file[i].size_bytes;
    jw_init(&w, &json, true);
    jw_obj(&w, NULL);
    jw_str(&w, "format", "hone-manifest");
    jw_i64(&w, "version", 1);
    jw_str(&w, "hone_version", HONE_VERSION);
    jw_arr(&w, "files");
    prog_begin(&prog, "hashing", PROG_BYTES, total);
    int rc = 0;
    for (int i = 0; i < now.n_names && rc == 0; i++) {
        const char *s = now.name[i];
        if (strcmp(s, "SHA256SUMS") == 0 || strcmp(s, MANIFEST_NAME) == 0 || strstr(s, ".tmp-"))
            continue;
        rc = list_file(p, &w, &sums, s, &prog, e);
    }
    prog_end(&prog);
    jw_end(&w);
    if (rc == 0) rc = add_superseded(p, &w, sums.data ? sums.data : "", e);
    jw_end(&w);
    buf_chr(&json, '\n');
    char hex[65], *path = io_join(p->o->dir, MANIFEST_NAME);
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, json.data, json.len);
    sha256_hex(&s, hex);
    buf_fmt(&sums, "%s  " MANIFEST_NAME "\n", hex);
    if (rc == 0) rc = out_write_file(path, json.data, json.len, true, e);
    free(path);
    path = io_join(p->o->dir, "SHA256SUMS");
    if (rc == 0) rc = out_write_file(path, sums.data, sums.len, true, e);
    if (rc == 0) p->r->n_written += 2;
    free(path);
    buf_release(&json);
    buf_release(&sums);
    release_close(&now);
    return rc;
}

static void override(struct publish *p) {
    const struct publish_opts *o = p->o;
    p->rel.repo = o->repo;
    p->rel.quantized_by = o->quantized_by;
    if (o->base_model) p->rel.base_model = o->base_model;
    if (o->license) p->rel.license = o->license;
}

int publish_folder(const struct publish_opts *o, struct publish_report *r, struct err *e) {
    struct publish *p = xcalloc(1, sizeof *p);
    size_t len;
    memset(r, 0, sizeof *r);
    p->o = o;
    p->r = r;
    int rc = release_open(&p->rel, o->dir, e);
    if (rc == 0) {
        char *path = io_join(o->dir, "SHA256SUMS");
        if (io_exists(path)) rc = io_read_file(&p->old_sums, &len, path, MAX_TEXT, e);
        free(path);
        p->old_supersedes = read_superseded(o->dir);
        r->n_models = p->rel.n_files;
        override(p);
        if (rc == 0 && !o->manifest_only) rc = make_texts(p, e);
        if (rc == 0) rc = write_texts(p, e);
        if (rc == 0) rc = write_lists(p, e);
        release_close(&p->rel);
    }
    if (p->have_result) result_close(&p->res);
    for (int i = 0; i < p->n_files; i++) buf_release(&p->file[i].text);
    json_free(p->old_supersedes);
    free(p->old_sums);
    free(p->prompt);
    free(p);
    return rc;
}
