// SPDX-License-Identifier: MIT
/* report/folder_lint.c - driver of the linter: collects findings, lists files, checks names and the
 * metadata of models. A finding never stops later checks. */
#include "report/folder_lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"
#include "report/release.h"

enum { MAX_TEXT = 64 << 20 };
static const uint64_t hub_limit =
    UINT64_C(50000000000); /* maximum file size recommended by the Hub, in bytes */

void lint_add(struct lint *l, bool error, const char *rule, const char *file, const char *fmt,
              ...) {
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    l->finding = xreallocarray(l->finding, (size_t)l->n + 1, sizeof *l->finding);
    l->finding[l->n++] =
        (struct lint_finding){error, rule, xstrdup(file ? file : "-"), xstrdup(text)};
    l->n_errors += error;
}

void lint_release(struct lint *l) {
    for (int i = 0; i < l->n; i++) {
        free(l->finding[i].file);
        free(l->finding[i].text);
    }
    free(l->finding);
    l->finding = NULL;
    l->n = l->n_errors = 0;
}

char *lint_text(struct lint *l, const char *name, size_t *len) {
    char *path = io_join(l->dir, name), *text = NULL;
    struct err e;
    if (io_exists(path) && io_read_file(&text, len, path, MAX_TEXT, &e)) {
        lint_add(l, true, "file-unreadable", name, "%s", e.msg);
        text = NULL;
    }
    free(path);
    return text;
}

const char *lint_local_path(const char *s, size_t len) {
    static const char *const roots[] = {
        "/home/",   "/root/", "/Users/", "/mnt/",  "/workspace/", "/tmp/",  "/content/",
        "/kaggle/", "/opt/",  "/media/", "/data/", "/var/",       "/work/", "/scratch/"};
    for (size_t i = 0; i < len; i++) {
        /* "https://x/home/..." and "a/tmp/b" are not local paths */
        bool starts = i == 0 || strchr(" \t\n\"'`(=:,[<>|", s[i - 1]) != NULL;
        for (size_t k = 0; starts && s[i] == '/' && k < sizeof roots / sizeof *roots; k++) {
            size_t n = strlen(roots[k]);
            if (len - i > n && memcmp(s + i, roots[k], n) == 0 &&
                strchr(" \n\"'`", s[i + n]) == NULL)
                return s + i;
        }
        if (starts && len - i > 3 &&
            ((s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= 'a' && s[i] <= 'z')) && s[i + 1] == ':' &&
            s[i + 2] == '\\')
            return s + i;
    }
    return NULL;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Reports keys that contain a local path. */
static void check_paths(struct lint *l, const struct gguf *g, const char *file) {
    for (int64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        if (kv->type != GV_STR || strncmp(kv->key, "tokenizer.", 10) == 0) continue;
        const char *s = lint_local_path((const char *)kv->data, (size_t)kv->count);
        if (s)
            lint_add(l, true, "meta-local-path", file, "key %s contains a local path: %.60s",
                     kv->key, gguf_kv_text(g, kv) + (s - (const char *)kv->data));
    }
}

void lint_gguf(struct lint *l, const struct gguf *g) {
    const char *file = io_base(gguf_path(g));
    struct err e;
    bool quantized = false;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++)
        quantized |= (qtype_info((int64_t)gguf_tensor_at(g, i)->type)->flags & QF_QUANT) != 0;
    if (!*gguf_str_or(g, "general.architecture", ""))
        lint_add(l, true, "meta-arch", file, "key general.architecture is missing");
    if (!*gguf_str_or(g, "general.name", ""))
        lint_add(l, false, "meta-name", file, "key general.name is missing: programs show no name");
    if (quantized && gguf_u64_or(g, "general.quantization_version", 0) != 2)
        lint_add(l, true, "meta-quant-version", file, "key general.quantization_version is not 2");
    if (!gguf_find(g, "general.file_type"))
        lint_add(l, false, "meta-file-type", file, "key general.file_type is missing");
    if (gguf_check_tokenizer(g, &e)) lint_add(l, true, "meta-tokenizer", file, "%s", e.msg);
    if (!gguf_find(g, "tokenizer.ggml.tokens"))
        lint_add(l, true, "meta-tokenizer", file, "there is no tokenizer in the file");
    else if (!gguf_find(g, "tokenizer.ggml.eos_token_id"))
        lint_add(l, true, "meta-eos", file,
                 "key tokenizer.ggml.eos_token_id is missing: generation may never stop");
    if (!*gguf_str_or(g, "tokenizer.chat_template", ""))
        lint_add(l, false, "meta-template", file, "there is no chat template in the file");
    check_paths(l, g, file);
}

/* Returns whether a key has exactly this text; a missing key counts as "". */
static bool same_text(const struct gguf *g, const char *key, const char *with) {
    return strcmp(gguf_str_or(g, key, ""), with) == 0;
}

struct seen { /* findings about several models */
    char (*encoding)[32];
    char *template, *arch;
    int n;
    bool q4km, quantized, sees, mmproj;
    const char *image; /* lint_image_text() of the first model that has one */
    struct {           /* unquantized models */
        char *file;
        uint64_t n_bytes;
    } * plain;
    int n_plain;
    struct shape {         /* what models and draft files share */
        char *file, *arch; /* owned; NULL: there is no such file */
        uint64_t n_embd, n_tokens;
    } model, draft;
};

/* Records what the first model and the first draft file must have in common. */
static void note_shape(const struct gguf *g, const char *file, struct shape *s) {
    char key[160];
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    if (s->file) return;
    s->file = xstrdup(file);
    s->arch = xstrdup(gguf_str_or(g, "general.architecture", ""));
    snprintf(key, sizeof key, "%.100s.embedding_length", s->arch);
    s->n_embd = gguf_u64_or(g, key, 0);
    s->n_tokens = tokens ? tokens->count : 0;
}

/* Reports a draft file of another model, and releases both records. */
static void check_draft(struct lint *l, struct seen *s) {
    const struct shape *m = &s->model, *d = &s->draft;
    if (m->file && d->file &&
        (strcmp(m->arch, d->arch) != 0 || m->n_embd != d->n_embd || m->n_tokens != d->n_tokens))
        lint_add(l, true, "draft-differs", d->file,
                 "the draft file belongs to another model: its architecture, embedding length or "
                 "number of tokens differs from %s",
                 m->file);
    struct shape *both[] = {&s->model, &s->draft};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        free(both[i]->file);
        free(both[i]->arch);
    }
}

/* Checks a file that only drafts for another model. */
static void check_draft_file(struct lint *l, const struct gguf *g, const char *file,
                             struct seen *s) {
    const char *kind = gguf_draft_kind(g), *arch = gguf_str_or(g, "general.architecture", "");
    const size_t n = strlen(kind);
    if (strcmp(kind, "mtp") == 0 && strcmp(arch, "gemma4-assistant") != 0)
        note_shape(g, file, &s->draft); /* an MTP block is a part of its model */
    if (strncmp(file, kind, n) != 0 || file[n] != '-')
        lint_add(
            l, false, "draft-name", file,
            "a file that only drafts: llama.cpp's -hf finds it only as %s-MODEL-Q8_0.gguf, and "
            "loads it as the model under other names",
            kind);
    check_paths(l, g, file);
}

/* Reports a file name that differs from the file's type. */
static void check_encoding(struct lint *l, const struct gguf *g, const char *file, struct seen *s) {
    char enc[32];
    uint64_t type = gguf_u64_or(g, "general.file_type", UINT64_MAX);
    const char *is = type < INT32_MAX ? qtype_ftype_name((int64_t)type) : NULL;
    if (!gguf_name_encoding(file, enc)) {
        lint_add(
            l, false, "name-encoding", file,
            "the name does not end in an encoding, so the Hub shows none and -hf REPO:TAG cannot "
            "find the file: rename it to MODEL-%s.gguf",
            is ? is : "Q4_K_M");
        return;
    }
    char *stem = gguf_stem(file);
    if (strlen(stem) == strlen(enc))
        lint_add(l, false, "name-model", file,
                 "the name is only an encoding, meaningless among other downloads: rename "
                 "it to MODEL-%s.gguf",
                 enc);
    free(stem);
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->encoding[i], enc) == 0)
            lint_add(l, false, "name-twice", file,
                     "a second file with the encoding %s: programs given only the encoding load "
                     "either one",
                     enc);
    s->encoding = xreallocarray(s->encoding, (size_t)s->n + 1, sizeof *s->encoding);
    memcpy(s->encoding[s->n++], enc, sizeof enc);
    s->q4km |= strcmp(enc, "Q4_K_M") == 0;
    int named = qtype_ftype_id(enc);
    if (named >= 0 && is && strcasecmp(is, enc) != 0)
        lint_add(l, true, "name-file-type", file, "the name says %s, key general.file_type says %s",
                 enc, is);
}

/* Records whether the file is quantized and, if not, its size. */
static void note_plain(const struct gguf *g, const char *file, struct seen *s) {
    for (int64_t i = 0; i < gguf_n_tensors(g); i++)
        if (qtype_info((int64_t)gguf_tensor_at(g, i)->type)->flags & QF_QUANT) {
            s->quantized = true;
            return;
        }
    s->plain = xreallocarray(s->plain, (size_t)s->n_plain + 1, sizeof *s->plain);
    s->plain[s->n_plain].file = xstrdup(file);
    s->plain[s->n_plain++].n_bytes = gguf_file_bytes(g);
}

/* Reports unquantized files next to quantized ones: they are usually a mistake, and every clone of
 * the repository downloads them. */
static void check_plain(struct lint *l, struct seen *s) {
    for (int i = 0; i < s->n_plain; i++) {
        if (s->quantized)
            lint_add(l, false, "private-base", s->plain[i].file,
                     "the unquantized model (%.2f GiB) is next to its quantized files: move it "
                     "elsewhere "
                     "unless you mean to publish it",
                     (double)s->plain[i].n_bytes / 0x1p30);
        free(s->plain[i].file);
    }
    free(s->plain);
}

/* Reports a file name with characters that break links. */
static void check_name(struct lint *l, const char *file) {
    for (const char *c = file; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+", *c)) {
            lint_add(l, true, "name-characters", file,
                     "'%c' in a file name breaks links and commands", *c);
            return;
        }
}

/* Reports defects of the chat template shared by all files. */
static void check_template(struct lint *l, const char *file, const char *text) {
    struct buf what = {0};
    char *path = io_join(l->dir, file);
    const enum judged is = l->judge && *text ? l->judge(text, path, &what) : JUDGED_FINE;
    if (is != JUDGED_FINE)
        lint_add(l, is == JUDGED_ERROR,
                 is == JUDGED_ERROR ? "template-unusable" : "template-defects", file, "%s",
                 what.data);
    free(path);
    buf_release(&what);
}

/* Reports a chat_template.jinja that differs from the files' template, except for line ends. */
static void check_copy(struct lint *l, const char *template) {
    static const char name[] = "chat_template.jinja";
    size_t len, n = template ? strlen(template) : 0;
    char *text = n ? lint_text(l, name, &len) : NULL;
    if (!text) return;
    while (len && strchr("\r\n", text[len - 1])) len--;
    while (n && strchr("\r\n", template[n - 1])) n--;
    if (len != n || memcmp(text, template, n) != 0)
        lint_add(l, false, "template-copy", name,
                 "its text is not the chat template of the files: hone publish %s updates a copy "
                 "that hone made; otherwise, hone template show FILE.gguf prints theirs",
                 l->dir);
    free(text);
}

/* Reports the faults of one GGUF file. */
static void check_model(struct lint *l, const char *file, struct seen *s) {
    struct gguf *g;
    struct err e;
    char *path = io_join(l->dir, file);
    int rc = gguf_open(&g, path, GGUF_TOLERANT, &e);
    if (rc) {
        const char *text = strncmp(e.msg, path, strlen(path)) == 0 ? e.msg + strlen(path) : e.msg;
        lint_add(l, true, "gguf-damaged", file, "%s", text + strspn(text, ": "));
    }
    free(path);
    if (rc) return;
    const char *type = gguf_str_or(g, "general.type", "model");
    const enum gguf_part part = gguf_part_of(g);
    s->mmproj |= part == GGUF_TOWER;
    if (part == GGUF_DRAFT) {
        check_draft_file(l, g, file, s);
    } else if (part == GGUF_MODEL) {
        note_shape(g, file, &s->model);
        s->sees |= lint_sees(g);
        if (!s->image) s->image = lint_image_text(g);
        check_encoding(l, g, file, s);
        note_plain(g, file, s);
        lint_gguf(l, g);
        if (!s->arch) {
            s->arch = xstrdup(gguf_str_or(g, "general.architecture", ""));
            s->template = xstrdup(gguf_str_or(g, "tokenizer.chat_template", ""));
            check_template(l, file, s->template);
        } else {
            if (!same_text(g, "tokenizer.chat_template", s->template))
                lint_add(l, true, "template-differs", file,
                         "its chat template differs from the other files'");
            if (!same_text(g, "general.architecture", s->arch))
                lint_add(l, true, "arch-differs", file,
                         "its architecture differs from the other files'");
        }
        for (int i = 0; i < gguf_n_shards(g); i++)
            if (gguf_shard_bytes(g, i) > hub_limit)
                lint_add(l, false, "file-large", io_base(gguf_shard_path(g, i)),
                         "larger than 50 GB: hone split makes shards");
    } else {
        if (strcmp(type, "gram") == 0)
            lint_add(l, false, "private-moments", file,
                     "second moments (%.2f GiB), needed only to make files: move it elsewhere",
                     (double)gguf_file_bytes(g) / 0x1p30);
        check_paths(l, g, file);
    }
    gguf_close(g);
}

/* Reports a shard of a set whose first shard is missing: no loader can open it. */
static void check_orphan(struct lint *l, const char *file, int n) {
    char *first = gguf_split_name(file, 0, n), *path = io_join(l->dir, first);
    if (!io_exists(path))
        lint_add(l, true, "gguf-orphan", file, "a shard of a set without its first file, %s",
                 first);
    free(first);
    free(path);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Checks one file of the folder according to its kind. *n_gguf counts the models. */
static void check_file(struct lint *l, const char *name, struct seen *s, int *n_gguf) {
    struct os_stat st;
    int i = 0, n = 0;
    size_t len = strlen(name);
    char *path = io_join(l->dir, name);
    bool there = os_stat(path, &st) == 0;
    free(path);
    if (!there) {
        lint_add(l, true, "file-unreadable", name, "cannot be examined (a broken link?)");
        return;
    }
    if (st.kind == OS_FOLDER) return;
    l->n_files++;
    check_name(l, name);
    if (st.size == 0) lint_add(l, true, "file-empty", name, "the file is empty");
    if (strstr(name, ".tmp-") || (len > 5 && strcmp(name + len - 5, ".part") == 0) ||
        (len > 9 && strcmp(name + len - 9, ".part.log") == 0) || strstr(name, ".incomplete"))
        lint_add(l, true, "file-leftover", name, "left over from an interrupted job");
    if (len < 6 || strcasecmp(name + len - 5, ".gguf") != 0) return;
    ++*n_gguf;
    if (gguf_split_parse(name, &i, &n, &len) && i > 0)
        check_orphan(l, name, n);
    else if (st.size)
        check_model(l, name, s);
}

int lint_folder(struct lint *l, struct err *e) {
    struct io_names all;
    int n_gguf = 0, rc = io_list(&all, l->dir, e);
    struct seen s = {0};
    for (int i = 0; i < all.n && rc == 0; i++) {
        lint_private(l, all.v[i]);
        if (all.v[i][0] != '.') check_file(l, all.v[i], &s, &n_gguf);
    }
    io_names_release(&all);
    TRY(rc);
    if (!n_gguf) lint_add(l, true, "no-model", NULL, "there is no GGUF file in the folder");
    if (s.quantized && !s.q4km)
        lint_add(l, false, "no-q4-k-m", NULL,
                 "no Q4_K_M among the files: programs load it by default");
    check_plain(l, &s);
    check_draft(l, &s);
    check_copy(l, s.template);
    free(s.encoding);
    free(s.template);
    free(s.arch);
    if (n_gguf && !s.mmproj) lint_vision(l, s.sees, s.image);
    lint_card(l);
    lint_ollama(l);
    if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
    return lint_sums(l, e);
}
