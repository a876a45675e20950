// SPDX-License-Identifier: MIT
/* make/publish.c - writer of the texts, manifest and checksums of a release.
 *
 * All texts are built first, then conflicts are checked (make/file_guard.h), then the files are
 * written, each completely or not at all; manifest.json and SHA256SUMS come last. Tensor data are
 * read once. Nothing is deleted. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "make/publish.h"
#include "make/publish_fit.h"
#include "work/open.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "report/manifest.h"
#include "report/release.h"
#include "report/versus.h"
#include "report/result.h"
#include "template/chat.h"
#include "template/judge.h"

#define COMPARE_NAME "versus.json"
enum { MAX_TEXT = 64 << 20, MAX_TEXTS = 24 };

struct text_file {
    const char *name;
    struct buf text;
    bool aside; /* the user has a file of this name */
};
struct publish {
    const struct publish_opts *o;
    struct publish_report *r;
    struct release rel;
    struct result res;
    bool have_result;
    struct text_file file[MAX_TEXTS];
    int n_files;
    struct buf results; /* new contents of results.json */
    char *prompt, *notes, *fault;
    struct constraint *guard;
    struct facts facts;
    cJSON *compare; /* results of hone versus; NULL: none */
    cJSON *old;     /* existing manifest; NULL: none */
};

/* ---- from the model ---- */

/* Renders a conversation of one turn in the form that the model sees. */
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

/* Adds a file to write and returns its text, to be filled; `name` is not copied. */
static struct buf *add_text(struct publish *p, const char *name) {
    p->file[p->n_files].name = name;
    return &p->file[p->n_files++].text;
}

/* Files to copy, with new names if different: pulls from the Hub use a file named "system". */
static const char *const copied[][2] = {{"LICENSE", NULL},
                                        {"LICENSE.txt", NULL},
                                        {"LICENSE.md", NULL},
                                        {"NOTICE", NULL},
                                        {"USE_POLICY.md", NULL},
                                        {"config.json", NULL},
                                        {"generation_config.json", NULL},
                                        {"chat_template.jinja", NULL},
                                        {"SYSTEM_PROMPT.txt", "system"}};

/* Reads the files of --source that belong to a release, such as the config. */
static int copy_source(struct publish *p, struct err *e) {
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
                /* A license text with blanks to be filled in is not copied. */
                bool whole = !copied[i][1] || !memchr(text, '{', len);
                bool ours = p->o->tmpl && strcmp(name, "chat_template.jinja") == 0;
                if (ours)
                    buf_str(add_text(p, name), p->o->tmpl);
                else if (whole)
                    buf_add(add_text(p, name), text, len);
                free(text);
            }
        }
        free(path);
        if (rc) return rc;
    }
    return 0;
}

/* Updates hone's copy of the template if the files' was changed since. */
static int update_template(struct publish *p, struct err *e) {
    static const char name[] = "chat_template.jinja";
    const char *text = p->rel.template;
    enum guard_state state;
    if (p->o->source || !*text || !release_has(&p->rel, name)) return 0;
    TRY(guard_ask(p->guard, name, text, strlen(text), &state, e));
    if (state == GUARD_FREE) buf_str(add_text(p, name), text);
    return 0;
}

/* Replaces the facts in results.json. */
static void set_facts(const struct publish *p, cJSON *root) {
    cJSON *facts = doc_new();
    facts_put(&p->facts, facts);
    if (!doc_get(root, "facts"))
        doc_put(root, "facts", facts);
    else
        cJSON_ReplaceItemInObjectCaseSensitive(root, "facts", facts);
}

/* Checks that the files that were measured still have the same weights. The SHA-256 of one whose
 * metadata changed is no longer shown. */
static int check_measured(struct publish *p, struct err *e) {
    for (int i = 0; i < p->res.n_files; i++) {
        struct result_file *f = &p->res.file[i];
        const enum result_match is = result_match(f, p->o->dir);
        if (is == RESULT_OTHER)
            return err_set(e, ERR_DATA,
                           "%s: its weights are not those whose numbers results.json has: measure "
                           "again with hone make, or remove results.json",
                           f->file);
        if (is == RESULT_EDITED) f->sha256 = "";
    }
    return 0;
}

/* Reads the measurements, if there are any, and the facts, which may be stored with them. */
static int open_results(struct publish *p, struct err *e) {
    char *path = io_join(p->o->dir, "results.json");
    const cJSON *given = p->o->results;
    cJSON *root = given ? cJSON_Duplicate(given, true) : NULL;
    int rc = given ? doc_check(root, e) : 0;
    if (!given && io_exists(path)) rc = doc_read(&root, path, MAX_TEXT, e);
    if (rc == 0) rc = publish_facts_find(&p->facts, p->o, root, e);
    if (rc == 0 && root) {
        set_facts(p, root);
        rc = doc_print(root, &p->results, e);
        buf_chr(&p->results, '\n');
    }
    if (rc == 0 && root) {
        rc = result_take(&p->res, root, path, e);
        p->have_result = rc == 0;
        root = NULL;
        if (rc == 0 && !given) rc = check_measured(p, e);
    }
    cJSON_Delete(root);
    free(path);
    return rc;
}

/* Adds results.json. A file that the user wrote or edited is read but not replaced; the manifest
 * also has the facts. */
static int add_results(struct publish *p, struct err *e) {
    enum guard_state state = GUARD_FREE;
    if (!p->o->results)
        TRY(guard_ask(p->guard, "results.json", p->results.data, p->results.len, &state, e));
    if (state == GUARD_FREE) buf_add(add_text(p, "results.json"), p->results.data, p->results.len);
    return 0;
}

/* Reads the publisher's notes: from --notes, else from the existing card. */
static int read_notes(struct publish *p, struct err *e) {
    char *path = io_join(p->o->dir, "README.md"), *text = NULL;
    const char *notes;
    size_t len, n;
    int rc = 0;
    if (p->o->notes) {
        rc = io_read_file(&text, &len, p->o->notes, MAX_TEXT, e);
        if (rc == 0 &&
            (strlen(text) != len || strstr(text, NOTES_BEGIN) || strstr(text, NOTES_END)))
            rc = err_set(
                e, ERR_DATA,
                "--notes %s: not a text file, or it contains the marker lines that delimit notes",
                p->o->notes);
        if (rc == 0) p->notes = xasprintf("\n%s%s", text, len && text[len - 1] == '\n' ? "" : "\n");
    } else if (io_exists(path)) {
        rc = io_read_file(&text, &len, path, MAX_TEXT, e);
        if (rc == 0 && guard_notes(text, len, &notes, &n)) p->notes = xstrndup(notes, n);
    }
    free(text);
    free(path);
    return rc;
}

/* Inserts the notes before the first section of the card. */
static void add_notes(const struct publish *p, struct buf *card) {
    const char *at = card->len ? strstr(card->data, "\n## ") : NULL;
    size_t n = at ? (size_t)(at + 1 - card->data) : card->len;
    struct buf out = {0};
    buf_add(&out, card->data ? card->data : "", n);
    buf_fmt(&out, NOTES_BEGIN "%s" NOTES_END "\n\n", p->notes ? p->notes : "\n");
    buf_add(&out, card->data ? card->data + n : "", card->len - n);
    buf_release(card);
    *card = out;
}

/* Returns the row that belongs to a model file: it has the file's hash or, in documents without
 * hashes, its name and size. NULL: none; *named is then set if a row has its name. */
static const cJSON *compared_row(const cJSON *rows, const struct release_file *f, const char *hash,
                                 bool *named) {
    for (const cJSON *row = doc_first(rows); row; row = row->next) {
        const char *file = doc_str(row, "file"), *of = doc_str(row, "sample_xxh128");
        const bool same = file && strcmp(io_base(file), f->file) == 0;
        int64_t size = -1;
        doc_i64(row, "size_bytes", &size);
        if (of ? strcmp(of, hash) == 0 : same && (uint64_t)size == f->size_bytes) return row;
        *named = *named || same;
    }
    return NULL;
}

/* Finds the folder's models in the results of hone versus, and warns about results of other files.
 * Returns false if a row has the name of a model, but was measured on another file. */
static bool find_compared(struct publish *p, const char *path) {
    bool any = false, all = true;
    for (int i = 0; i < p->rel.n_files; i++) {
        struct release_file *f = &p->rel.file[i];
        char hash[33] = "", *model = io_join(p->o->dir, f->file);
        bool named = false;
        struct gguf *g;
        struct err ignored;
        if (gguf_open(&g, model, GGUF_TOLERANT, &ignored) == 0) {
            gguf_sample_hash(g, hash);
            gguf_close(g);
        }
        const cJSON *row = compared_row(doc_get(p->compare, "files"), f, hash, &named);
        free(model);
        f->compared = doc_str(row, "name");
        any = any || row;
        if (row || !named) continue;
        all = false;
        log_warn("%s: its numbers for %s are those of another file of this name", path, f->file);
    }
    if (!any && all) log_warn("%s: compares no model of %s", path, p->o->dir);
    return all;
}

/* Reads the results of hone versus: from --compare, else from the folder's own copy, which is only
 * used if it is valid and of the files as they are now. */
static int read_compare(struct publish *p, struct err *e) {
    struct err ignored;
    if (p->o->compare) {
        TRY(versus_read(&p->compare, p->o->compare, e));
        (void)find_compared(p, p->o->compare);
        /* It has paths of the machine that measured; "command" does not. */
        cJSON_DeleteItemFromObjectCaseSensitive(p->compare, "command_line");
        TRY(doc_print(p->compare, add_text(p, COMPARE_NAME), e));
        buf_chr(&p->file[p->n_files - 1].text, '\n');
        return 0;
    }
    char *path = io_join(p->o->dir, COMPARE_NAME);
    if (io_exists(path) && versus_read(&p->compare, path, &ignored)) {
        log_warn("%s is not shown in the card: %s", path, ignored.msg);
    } else if (p->compare && !find_compared(p, path)) {
        log_warn("%s is not shown in the card: compare the files again and use --compare", path);
        cJSON_Delete(p->compare);
        p->compare = NULL;
        for (int i = 0; i < p->rel.n_files; i++) p->rel.file[i].compared = NULL;
    }
    free(path);
    return 0;
}

/* Writes the texts of all files of the release to memory. */
static int make_texts(struct publish *p, struct err *e) {
    struct result compared;
    if (p->have_result) {
        const char *name = p->facts.text[FACT_NAME];
        if (name && *name) p->res.name = name;
        TRY(add_results(p, e));
    }
    TRY(read_compare(p, e));
    const bool seen =
        !p->have_result && p->compare && versus_result(&compared, &p->rel, p->compare);
    publish_fit(&p->rel, p->have_result ? &p->res : seen ? &compared : NULL);
    if (seen) result_close(&compared);
    for (int i = 0; i < p->rel.n_files && !p->have_result; i++) {
        char *path = io_join(p->o->dir, p->rel.file[i].file);
        struct err why;
        p->rel.unknown |= unknown_model(path, &why);
        free(path);
    }
    render_prompt(p);
    TRY(copy_source(p, e));
    TRY(update_template(p, e));
    TRY(read_notes(p, e));
    struct buf *card = add_text(p, "README.md");
    report_readme(p->have_result ? &p->res : NULL, &p->rel, p->compare, card);
    add_notes(p, card);
    if (p->have_result) {
        struct buf depth = {0}, speed = {0};
        report_html(&p->res, &p->rel, add_text(p, "report.html"));
        report_svg_kld(&p->res, false, add_text(p, "kld.svg"));
        if (report_svg_kld_depth(&p->res, false, &depth)) *add_text(p, "kld-depth.svg") = depth;
        if (report_svg_speed_depth(&p->res, false, &speed)) *add_text(p, "speed-depth.svg") = speed;
    }
    if (p->rel.drafts) return 0; /* the other files are for programs that load models */
    release_modelfile(&p->rel, add_text(p, "Modelfile"));
    release_params(&p->rel, add_text(p, "params"));
    release_model_yaml(&p->rel, add_text(p, "model.yaml"));
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Checks all files before any is written. */
static int may_write(struct publish *p, struct err *e) {
    static const char *const lists[] = {MANIFEST_NAME, "SHA256SUMS"};
    for (int i = 0; i < p->n_files; i++) {
        struct text_file *f = &p->file[i];
        const char *text = f->text.data ? f->text.data : "";
        enum guard_state state;
        TRY(guard_ask(p->guard, f->name, text, f->text.len, &state, e));
        if (state != GUARD_FREE && p->o->way == GUARD_REFUSE)
            return guard_check(p->guard, f->name, text, f->text.len, e);
        f->aside = state != GUARD_FREE && p->o->way == GUARD_ASIDE;
        if (!f->aside) guard_announce(p->guard, f->name, text, f->text.len);
    }
    for (size_t i = 0; i < COUNT_OF(lists) && p->o->way == GUARD_REFUSE; i++)
        TRY(guard_check(p->guard, lists[i], NULL, 0, e));
    return 0;
}

/* Writes the texts to disk through the guard, which protects files that users changed. */
static int write_texts(struct publish *p, struct err *e) {
    TRY(may_write(p, e));
    TRY(guard_begin(p->guard, e));
    for (int i = 0; i < p->n_files; i++) {
        const struct buf *b = &p->file[i].text;
        bool written;
        TRY(guard_write(p->guard, p->file[i].name, b->data ? b->data : "", b->len, p->o->way,
                        &written, e));
        p->r->n_written += written;
    }
    return 0;
}

/* Copies what answers about images lose with this file, or with this projector, from its row in
 * `rows` of the results. */
static void put_images(cJSON *to, const cJSON *rows, const char *name) {
    static const char *const member[] = {"images_kld", "images_changed", "images_right"};
    const cJSON *row = doc_first(rows);
    while (row && !doc_is(row, "file", name)) row = row->next;
    for (size_t i = 0; i < COUNT_OF(member); i++)
        if (doc_get(row, member[i])) doc_put_copy(to, member[i], doc_get(row, member[i]));
}

static const char *const draft_member[] = {"acceptance", "acceptance_stderr", "n_drafts"};

/* Returns the row with the acceptance of a draft file; NULL: not measured. That of an earlier
 * manifest counts if the file is the same. */
static const cJSON *draft_row(const struct publish *p, const char *name) {
    const cJSON *row = doc_first(p->o->drafts ? p->o->drafts : doc_get(p->old, "files"));
    char hex[65], *path = io_join(p->o->dir, name);
    struct err ignored;
    while (row && !doc_is(row, "file", name)) row = row->next;
    if (!doc_get(row, draft_member[0]) ||
        (!p->o->drafts && (sha256_file(path, hex, &ignored) || !doc_is(row, "sha256", hex))))
        row = NULL;
    free(path);
    return row;
}

/* Sets the acceptance of draft files for the card. */
static void set_acceptance(struct publish *p) {
    for (int i = 0; i < p->rel.n_files && p->rel.drafts; i++) {
        struct release_file *f = &p->rel.file[i];
        const cJSON *row = draft_row(p, f->file);
        f->acceptance = doc_num(row, draft_member[0], 0);
        f->acceptance_stderr = doc_num(row, draft_member[1], 0);
        f->n_drafts = doc_num(row, draft_member[2], 0);
    }
}

/* Adds a file to the manifest and to the checksums. */
static int list_file(struct publish *p, cJSON *files, struct buf *sums, const char *name,
                     struct progress *prog, struct err *e) {
    char hex[65], *path = io_join(p->o->dir, name);
    size_t n = strlen(name);
    uint64_t size = 0;
    bool gguf = n > 5 && strcmp(name + n - 5, ".gguf") == 0;
    const char *written = guard_hash_of(p->guard, name);
    int rc = gguf ? manifest_add_gguf(files, path, hex, prog, e)
                  : manifest_add_file(files, path, written, hex, e);
    if (rc == 0 && gguf && p->have_result) {
        cJSON *entry = cJSON_GetArrayItem(files, cJSON_GetArraySize(files) - 1);
        put_images(entry, doc_get(p->res.root, "files"), name);
        put_images(entry, doc_get(doc_get(p->res.root, "vision"), "files"), name);
    }
    const cJSON *row = rc == 0 && gguf && p->rel.drafts ? draft_row(p, name) : NULL;
    for (size_t i = 0; i < COUNT_OF(draft_member) && row; i++)
        doc_put_copy(cJSON_GetArrayItem(files, cJSON_GetArraySize(files) - 1), draft_member[i],
                     doc_get(row, draft_member[i]));
    if (rc == 0) rc = io_file_size(path, &size, e);
    if (rc == 0) buf_fmt(sums, "%s  %s\n", hex, name);
    p->r->n_bytes += size;
    p->r->n_listed++;
    free(path);
    return rc;
}

/* Adds the releases that --supersedes names; without it, an existing list is kept. */
static int add_superseded(struct publish *p, cJSON *root, const char *sums, struct err *e) {
    if (p->o->supersedes) return manifest_add_superseded(root, p->o->supersedes, sums, e);
    const cJSON *list = doc_get(p->old, "supersedes");
    if (doc_first(list)) doc_put_copy(root, "supersedes", list);
    return 0;
}

/* Adds the source of the job that made the files: from the measurements, or else from the existing
 * manifest. */
static void add_source(const struct publish *p, cJSON *root) {
    static const char *const member[][2] = {{"name", "source"},
                                            {"xxh128", "source_xxh128"},
                                            {"weights_xxh128", "source_weights_xxh128"}};
    cJSON *read = p->have_result ? NULL : doc_find(p->o->dir, "results.json", 4 * MAX_TEXT);
    const cJSON *model = doc_get(p->have_result ? p->res.root : read, "model");
    if (doc_str(model, "source")) {
        cJSON *source = doc_obj(root, "source");
        for (size_t i = 0; i < COUNT_OF(member); i++) {
            const char *s = doc_str(model, member[i][1]);
            if (s) doc_put_str(source, member[i][0], s);
        }
    } else {
        doc_put_copy(root, "source", doc_get(p->old, "source"));
    }
    cJSON_Delete(read);
}

/* Writes a list of the release's files. */
static int write_list(struct publish *p, const char *name, const struct buf *text, struct err *e) {
    bool written;
    TRY(guard_write(p->guard, name, text->data, text->len, p->o->way, &written, e));
    p->r->n_written++;
    return 0;
}

/* Writes the manifest and SHA256SUMS for the folder's files, then removes the marker of a folder
 * that is being written. */
static int write_lists(struct publish *p, struct err *e) {
    struct release now; /* includes the files just written */
    struct buf json = {0}, sums = {0};
    struct progress prog;
    uint64_t total = 0;
    TRY(release_open(&now, p->o->dir, e));
    for (int i = 0; i < now.n_files; i++) total += now.file[i].size_bytes;
    cJSON *root = doc_new();
    doc_put_str(root, "format", "hone-manifest");
    doc_put_i64(root, "version", 1);
    doc_put_str(root, "hone_version", HONE_VERSION);
    if (facts_any(&p->facts)) facts_put(&p->facts, doc_obj(root, "facts"));
    add_source(p, root);
    cJSON *files = doc_arr(root, "files");
    progress_begin(&prog, "hashing", PROG_BYTES, total);
    int rc = 0;
    for (int i = 0; i < now.n_names && rc == 0; i++) {
        const char *s = now.name[i];
        if (strcmp(s, "SHA256SUMS") == 0 || strcmp(s, MANIFEST_NAME) == 0 || strstr(s, ".tmp-") ||
            guard_is_aside(s))
            continue;
        rc = list_file(p, files, &sums, s, &prog, e);
    }
    progress_end(&prog);
    if (rc == 0) rc = add_superseded(p, root, sums.data ? sums.data : "", e);
    if (rc == 0) rc = doc_print(root, &json, e);
    cJSON_Delete(root);
    buf_chr(&json, '\n');
    char hex[65];
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, json.data, json.len);
    sha256_hex(&h, hex);
    buf_fmt(&sums, "%s  " MANIFEST_NAME "\n", hex);
    if (rc == 0) rc = write_list(p, MANIFEST_NAME, &json, e);
    if (rc == 0) rc = write_list(p, "SHA256SUMS", &sums, e);
    if (rc == 0) rc = guard_end(p->guard, e);
    buf_release(&json);
    buf_release(&sums);
    release_close(&now);
    return rc;
}

/* Judges the chat template. Fails if no conversation can use it, unless that is permitted. */
static int judge_template(struct publish *p, struct err *e) {
    struct template_verdict v;
    struct buf how = {0};
    const char *text = p->rel.template;
    int rc = 0;
    if (!*text || p->rel.drafts) return 0;
    TRY(template_judge(&v, text, strlen(text), p->o->any_template ? REPAIR_NEVER : REPAIR_UNUSABLE,
                       e));
    if (v.unusable) p->rel.fault = p->fault = xstrdup(v.why);
    if (v.unusable && !p->o->any_template) {
        char *path = io_join(p->o->dir, p->rel.file[0].file);
        template_remedy(&v, path, &how);
        rc = err_set(e, ERR_DATA, "%s: %s; %s%s", path, v.why, how.data,
                     p->rel.n_files > 1 ? ", and likewise in the other models" : "");
        free(path);
    }
    buf_release(&how);
    template_verdict_free(&v);
    return rc;
}

/* Opens the folder and collects the facts for the model card. */
static int publish_open(struct publish *p, struct err *e) {
    TRY(guard_open(&p->guard, p->o->dir, e));
    p->old = doc_find(p->o->dir, MANIFEST_NAME, 4 * MAX_TEXT);
    p->r->n_models = p->rel.n_files;
    if (p->o->manifest_only)
        TRY(publish_facts_find(&p->facts, p->o, NULL, e));
    else
        TRY(open_results(p, e));
    publish_facts_apply(&p->facts, &p->rel);
    set_acceptance(p);
    p->r->has_license = *p->rel.license != 0;
    p->r->has_base = *p->rel.base_model != 0;
    return 0;
}

int publish_folder(const struct publish_opts *o, struct publish_report *r, struct err *e) {
    struct publish *p = xcalloc(1, sizeof *p);
    memset(r, 0, sizeof *r);
    p->o = o;
    p->r = r;
    facts_init(&p->facts);
    int rc = release_open(&p->rel, o->dir, e);
    if (rc == 0) {
        rc = publish_open(p, e);
        if (rc == 0 && !o->manifest_only) rc = judge_template(p, e);
        if (rc == 0 && !o->manifest_only) rc = make_texts(p, e);
        if (rc == 0) rc = write_texts(p, e);
        if (rc == 0) rc = write_lists(p, e);
        release_close(&p->rel);
    }
    if (p->have_result) result_close(&p->res);
    for (int i = 0; i < p->n_files; i++) buf_release(&p->file[i].text);
    cJSON_Delete(p->old);
    cJSON_Delete(p->compare);
    guard_free(p->guard);
    facts_release(&p->facts);
    buf_release(&p->results);
    free(p->notes);
    free(p->prompt);
    free(p->fault);
    free(p);
    return rc;
}

int publish_check_folder(const char *dir, const char *source, struct err *e) {
    static const char *const texts[] = {
        "README.md", "report.html", "results.json", "kld.svg", "kld-depth.svg", "speed-depth.svg",
        "Modelfile", "params",      "model.yaml",   "system",  MANIFEST_NAME,   "SHA256SUMS"};
    struct constraint *g;
    TRY(guard_open(&g, dir, e));
    int rc = 0;
    for (size_t i = 0; i < COUNT_OF(texts) && rc == 0; i++)
        rc = guard_check(g, texts[i], NULL, 0, e);
    for (size_t i = 0; i < COUNT_OF(copied) && rc == 0 && source; i++) {
        char *path = io_join(source, copied[i][0]), *text = NULL;
        size_t len = 0;
        const char *name = copied[i][1] ? copied[i][1] : copied[i][0];
        if (io_exists(path) && !io_is_dir(path)) rc = io_read_file(&text, &len, path, MAX_TEXT, e);
        if (rc == 0 && text) rc = guard_check(g, name, text, len, e);
        free(text);
        free(path);
    }
    guard_free(g);
    return rc;
}
