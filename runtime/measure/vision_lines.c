// SPDX-License-Identifier: MIT
/* runtime/measure/vision_lines.c - reads a file of questions about images (vision_int.h). */
#include "runtime/measure/vision_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "chat/images.h"
#include "runtime/vision/image.h"
#include "text/textfile.h"

enum { MAX_QUESTIONS = 10000, MAX_PER_LINE = 64 };

int vision_at(const struct vision_lines *l, const struct vision_question *q, struct err *e) {
    err_wrap(e, "%s: line %lld", l->path, q->line);
    return (int)e->code;
}

/* Copies a string into the list's memory. */
static const char *keep(struct vision_lines *l, const char *text) {
    return arena_strndup(&l->mem, text, strlen(text));
}

/* ---- images ---- */

/* Reads the bytes of an image: a data URL, or a path relative to the folder of the file. */
static int read_bytes(const struct vision_lines *l, const char *source, struct buf *out,
                      struct err *e) {
    if (chat_image_is_data(source)) return chat_image_decode(source, out, e);
    if (strstr(source, "://"))
        return err_set(e, ERR_DATA, "images are not fetched: give a path or a data URL");
    char *data = NULL, *dir = xstrndup(l->path, (size_t)(io_base(l->path) - l->path));
    char *path = os_is_absolute(source) || !*dir ? xstrdup(source) : xasprintf("%s%s", dir, source);
    size_t n = 0;
    const int rc = io_read_file(&data, &n, path, IMAGE_MAX_BYTES, e);
    if (!rc) buf_add(out, data, n);
    free(data);
    free(path);
    free(dir);
    return rc;
}

/* Returns what messages call an image. */
static const char *image_name(const char *source) {
    return chat_image_is_data(source) ? "the image" : source;
}

/* Adds the image unless it is known, decodes it, and sets *index to its number. */
static int add_image(struct vision_lines *l, const char *source, int *index, struct err *e) {
    struct buf bytes = {0};
    struct image im = {0};
    char hash[33];
    int rc = read_bytes(l, source, &bytes, e);
    if (rc) goto out;
    hash_xxh128_hex(hash, bytes.data ? bytes.data : "", bytes.len);
    for (*index = 0; *index < l->n_images; ++*index)
        if (strcmp(l->image[*index].hash, hash) == 0) goto out;
    rc = image_decode(bytes.data ? bytes.data : "", bytes.len, &im, e);
    if (rc) goto out;
    l->image = xreallocarray(l->image, (size_t)l->n_images + 1, sizeof *l->image);
    struct image_bytes *v = &l->image[l->n_images++];
    memcpy(v->hash, hash, sizeof hash);
    v->n = bytes.len;
    v->data = buf_take(&bytes);
    v->name = keep(l, image_name(source));
    v->w = im.w;
    v->h = im.h;
out:
    image_release(&im);
    buf_release(&bytes);
    if (rc == ERR_USAGE) e->code = ERR_DATA; /* the file's data, not the command line */
    return rc ? err_wrap(e, "%.60s", image_name(source)) : 0;
}

/* ---- lines ---- */

/* Reads "image": one source, or an array of them, which may be empty. */
static int read_images(struct vision_lines *l, struct vision_question *q, const struct json *v,
                       struct err *e) {
    const bool many = json_type(v) == JSON_ARR;
    const int64_t n = many ? json_len(v) : 1;
    if (n > MAX_PER_LINE)
        return err_set(e, ERR_DATA, "\"image\" has more than %d images", MAX_PER_LINE);
    q->image = xcalloc((size_t)n + 1, sizeof *q->image);
    for (const struct json *i = many ? json_first(v) : v; i; i = many ? json_next(i) : NULL) {
        if (!json_str(i) || !*json_str(i))
            return err_set(e, ERR_DATA,
                           "\"image\" must be a path or a data URL, or an array of them");
        TRY(add_image(l, json_str(i), &q->image[q->n_images++], e));
    }
    return 0;
}

/* Reads "answer": a text, or an array of accepted texts; null: none. */
static int read_wanted(struct vision_lines *l, struct vision_question *q, const struct json *v,
                       struct err *e) {
    const bool many = json_type(v) == JSON_ARR;
    const int64_t n = json_type(v) == JSON_NULL ? 0 : many ? json_len(v) : 1;
    if (!n && !many) return 0;
    if (n < 1 || n > MAX_PER_LINE)
        return err_set(e, ERR_DATA, "\"answer\" must have 1 to %d texts", MAX_PER_LINE);
    q->want = xcalloc((size_t)n, sizeof *q->want);
    for (const struct json *i = many ? json_first(v) : v; i; i = many ? json_next(i) : NULL) {
        if (!json_str(i) || !*json_str(i))
            return err_set(e, ERR_DATA, "\"answer\" must be a text, or an array of texts");
        q->want[q->n_want++] = keep(l, json_str(i));
    }
    return 0;
}

/* Reads "choices": an array of different texts, one of which is the answer; null: none. */
static int read_choices(struct vision_lines *l, struct vision_question *q, const struct json *v,
                        struct err *e) {
    const int64_t n = v ? json_len(v) : 0;
    if (json_type(v) == JSON_NULL) return 0;
    if (json_type(v) != JSON_ARR || n < 2 || n > MAX_PER_LINE)
        return err_set(e, ERR_DATA, "\"choices\" must be an array of 2 to %d texts", MAX_PER_LINE);
    q->choice = xcalloc((size_t)n, sizeof *q->choice);
    q->right = -1;
    for (const struct json *i = json_first(v); i; i = json_next(i)) {
        if (!json_str(i) || !*json_str(i))
            return err_set(e, ERR_DATA, "\"choices\" must be an array of texts");
        for (int k = 0; k < q->n_choices; k++)
            if (strcmp(q->choice[k], json_str(i)) == 0)
                return err_set(e, ERR_DATA, "\"choices\" has a text twice");
        if (q->n_want == 1 && strcmp(q->want[0], json_str(i)) == 0) q->right = q->n_choices;
        q->choice[q->n_choices++] = keep(l, json_str(i));
    }
    if (q->right < 0)
        return err_set(e, ERR_DATA, "with \"choices\", \"answer\" must be one of them");
    return 0;
}

static int read_question(struct vision_lines *l, struct vision_question *q, const char *line,
                         size_t n, struct err *e) {
    struct json *j = NULL;
    TRY(json_parse(&j, line, n, "the line", e));
    const struct json *text = json_get(j, "question"), *image = json_get(j, "image");
    int rc = 0;
    if (json_type(j) != JSON_OBJ)
        rc = err_set(e, ERR_DATA, "not an object with \"image\" and \"question\"");
    else if (!json_str(text) || !*json_str(text))
        rc = err_set(e, ERR_DATA, "\"question\" is missing, empty or not a text");
    else if (!image)
        rc = err_set(e, ERR_DATA, "\"image\" is missing");
    if (!rc) q->text = keep(l, json_str(text));
    if (!rc) rc = read_wanted(l, q, json_get(j, "answer"), e);
    if (!rc) rc = read_choices(l, q, json_get(j, "choices"), e);
    if (!rc) rc = read_images(l, q, image, e);
    json_free(j);
    return rc;
}

/* Numbers the groups of questions about the same images. A question without images is alone. */
static void number_groups(struct vision_lines *l) {
    for (int i = 0; i < l->n; i++) {
        struct vision_question *q = &l->q[i];
        q->group = -1;
        for (int k = 0; k < i && q->group < 0 && q->n_images; k++)
            if (l->q[k].n_images == q->n_images &&
                memcmp(l->q[k].image, q->image, (size_t)q->n_images * sizeof *q->image) == 0)
                q->group = l->q[k].group;
        if (q->group < 0) q->group = l->n_groups++;
    }
}

struct line {
    const char *text;
    size_t n;
    long long number;
};
/* Lists the lines that are not blank, without a byte-order mark; the caller frees *out. */
static int split_lines(const char *text, size_t len, struct line **out, int *n, struct err *e) {
    enum { MAX_LINES = 1 << 24 };
    long long number = 0;
    *out = NULL;
    *n = 0;
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (const char *p = text + mark, *end = text + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const size_t k = nl ? (size_t)(nl - p) : (size_t)(end - p);
        number++;
        if (strspn(p, " \t\r") < k) {
            if (*n == MAX_LINES) return err_set(e, ERR_DATA, "more than %d lines", MAX_LINES);
            if ((*n & (*n - 1)) == 0)
                *out = xreallocarray(*out, *n ? 2 * (size_t)*n : 1, sizeof **out);
            (*out)[(*n)++] = (struct line){p, k, number};
        }
        p += k + (nl != NULL);
    }
    return *n ? 0 : err_set(e, ERR_DATA, "contains no question");
}

int vision_lines_read(struct vision_lines *l, const char *path, int64_t n_cases, struct err *e) {
    char *text = NULL;
    struct line *line = NULL;
    size_t len = 0;
    int n_all = 0;
    memset(l, 0, sizeof *l);
    arena_init(&l->mem);
    l->path = path;
    TRY(text_read_file(&text, &len, path, e));
    int rc = split_lines(text, len, &line, &n_all, e);
    const int n = n_cases > 0 && n_cases < n_all ? (int)n_cases : n_all;
    if (!rc && n > MAX_QUESTIONS)
        rc = err_set(e, ERR_DATA, "%d questions; --cases N takes at most %d of them", n,
                     MAX_QUESTIONS);
    if (rc) err_wrap(e, "%s", path);
    l->q = xcalloc((size_t)n + 1, sizeof *l->q);
    for (int i = 0; i < n && !rc; i++) {
        const struct line *at = &line[(int64_t)i * n_all / n];
        struct vision_question *q = &l->q[l->n++];
        q->line = at->number;
        rc = read_question(l, q, at->text, at->n, e);
        if (rc) vision_at(l, q, e);
    }
    if (!rc) number_groups(l);
    free(line);
    free(text);
    return rc;
}

void vision_lines_release(struct vision_lines *l) {
    for (int i = 0; i < l->n; i++) {
        free(l->q[i].image);
        free(l->q[i].want);
        free(l->q[i].choice);
    }
    for (int i = 0; i < l->n_images; i++) free(l->image[i].data);
    free(l->image);
    free(l->q);
    arena_release(&l->mem);
    memset(l, 0, sizeof *l);
}

int vision_lines_fit(const struct vision_lines *l, const struct vision_params *p,
                     struct image_work *work, struct err *e) {
    uint8_t *seen = xcalloc((size_t)l->n_images + 1, 1);
    int rc = 0;
    *work = (struct image_work){0};
    for (int i = 0; i < l->n && !rc; i++)
        for (int k = 0; k < l->q[i].n_images && !rc; k++) {
            const int at = l->q[i].image[k];
            const struct image_bytes *im = &l->image[at];
            struct image_work one;
            rc = image_look(p, im->w, im->h, &one, e);
            if (rc) {
                err_wrap(e, "%.60s", im->name);
                vision_at(l, &l->q[i], e);
                break;
            }
            work->n_tokens += one.n_tokens;
            if (!seen[at]) work->n_patches += one.n_patches;
            seen[at] = 1;
        }
    free(seen);
    return rc;
}

void vision_lines_hash(const struct vision_lines *l, char hex[33]) {
    struct buf b = {0};
    for (int i = 0; i < l->n; i++) {
        const struct vision_question *q = &l->q[i];
        buf_fmt(&b, "%lld %d %d %d %d;", q->line, q->n_images, q->n_want, q->n_choices, q->right);
        buf_add(&b, q->text, strlen(q->text) + 1);
        for (int k = 0; k < q->n_images; k++) buf_str(&b, l->image[q->image[k]].hash);
        for (int k = 0; k < q->n_want; k++) buf_add(&b, q->want[k], strlen(q->want[k]) + 1);
        for (int k = 0; k < q->n_choices; k++) buf_add(&b, q->choice[k], strlen(q->choice[k]) + 1);
    }
    hash_xxh128_hex(hex, b.data ? b.data : "", b.len);
    buf_release(&b);
}

/* ---- expected answers ---- */

/* Returns the part of a text that vision_right() compares. */
static const char *core(const char *s, size_t *n) {
    while (*s && strchr(" \t\r\n", *s)) s++;
    *n = strlen(s);
    while (*n && strchr(" \t\r\n", s[*n - 1])) --*n;
    if (*n > 1 && s[*n - 1] == '.') --*n;
    return s;
}

bool vision_right(const struct vision_question *q, const char *answer) {
    size_t n, k;
    const char *a = core(answer, &n);
    for (int i = 0; i < q->n_want; i++) {
        const char *b = core(q->want[i], &k);
        if (n == k && strncasecmp(a, b, n) == 0) return true;
    }
    return false;
}
