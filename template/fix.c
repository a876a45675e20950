// SPDX-License-Identifier: MIT
/* template/fix.c - edits of fixes.def applied to a template's text, and storing a template in a
 * GGUF file.
 *
 * An edit is made only where its text is found exactly once, so a template of another origin is
 * never changed by accident; what is not recognised is reported as not applicable. */
#include "template/fix.h"

#include <stdint.h>
#include <string.h>

#include "base/attr.h"
#include "containers/gguf.h"

static const struct row {
    const char *id, *rule, *why, *find, *replace;
} rows[] = {
#define FIX(id, rule, why, find, replace) {id, rule, why, find, replace},
#include "template/fixes.def"
#undef FIX
};

/* Returns the offset of the only occurrence; SIZE_MAX when there is none, or more than one. */
static size_t only_once(const char *s, size_t n, const char *find) {
    size_t k = strlen(find);
    const char *hit = memmem(s, n, find, k);
    if (!hit) return SIZE_MAX;
    size_t at = (size_t)(hit - s);
    return memmem(hit + 1, n - at - 1, find, k) ? SIZE_MAX : at;
}

/* Tells whether a row belongs to edit `id` as one of its alternatives ("id"), not as a further
 * piece of it ("id+"). */
static bool is_main(const struct row *r, const char *id) {
    return strcmp(r->id, id) == 0;
}
static bool is_piece(const struct row *r, const char *id) {
    size_t n = strlen(id);
    return strncmp(r->id, id, n) == 0 && strcmp(r->id + n, "+") == 0;
}

/* Returns the row to use for an edit; NULL when the edit does not apply. */
static const struct row *main_row(const char *id, const char *s, size_t n) {
    const struct row *found = NULL;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (is_main(&rows[i], id) && only_once(s, n, rows[i].find) != SIZE_MAX) found = &rows[i];
        if (is_piece(&rows[i], id) && only_once(s, n, rows[i].find) == SIZE_MAX) return NULL;
    }
    return found;
}

int fix_list(struct fix_edit out[FIX_MAX_EDITS], const char *src, size_t len) {
    int n = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool seen = strchr(rows[i].id, '+') != NULL;
        for (int k = 0; k < n; k++) seen = seen || strcmp(out[k].id, rows[i].id) == 0;
        if (seen || n == FIX_MAX_EDITS) continue;
        const struct row *r = main_row(rows[i].id, src, len);
        out[n++] =
            (struct fix_edit){rows[i].id, r ? r->rule : rows[i].rule, rows[i].why, r != NULL};
    }
    return n;
}

static void replace(struct buf *b, const struct row *r) {
    struct buf out = {0};
    size_t at = only_once(b->data, b->len, r->find), k = strlen(r->find);
    buf_add(&out, b->data, at);
    buf_str(&out, r->replace);
    buf_add(&out, b->data + at + k, b->len - at - k);
    buf_release(b);
    *b = out;
}

static bool wanted(const char *id, const char *const *only, int n_only) {
    if (!only) return true;
    for (int i = 0; i < n_only; i++)
        if (strcmp(only[i], id) == 0) return true;
    return false;
}

int fix_apply(const char *src, size_t len, const char *const *only, int n_only, struct buf *out,
              int *n_done, struct err *e) {
    struct fix_edit edits[FIX_MAX_EDITS];
    int n = fix_list(edits, src, len);
    *n_done = 0;
    for (int i = 0; only && i < n_only; i++) {
        int k = 0;
        while (k < n && strcmp(edits[k].id, only[i]) != 0) k++;
        if (k == n) return err_set(e, ERR_USAGE, "there is no edit '%s'", only[i]);
        if (!edits[k].applies)
            return err_set(
                e, ERR_DATA,
                "edit '%s' does not apply: the template does not hold the text it repairs",
                only[i]);
    }
    struct buf b = {0};
    buf_add(&b, src, len);
    for (int k = 0; k < n; k++) {
        if (!edits[k].applies || !wanted(edits[k].id, only, n_only)) continue;
        const struct row *r = main_row(edits[k].id, b.data, b.len);
        if (!r) continue; /* An earlier edit took its text away. */
        replace(&b, r);
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            if (is_piece(&rows[i], edits[k].id)) replace(&b, &rows[i]);
        ++*n_done;
    }
    buf_add(out, b.data, b.len);
    buf_release(&b);
    return 0;
}

int fix_gguf(const char *path, const char *text, size_t len, struct gguf_edit *how, struct err *e) {
    return gguf_edit_str(path, "tokenizer.chat_template", text, len, how, e);
}
