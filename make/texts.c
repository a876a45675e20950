// SPDX-License-Identifier: MIT
/* make/texts.c - the built-in texts that `hone make` uses if no texts are given, written next to
 * the step records as ordinary files. A part of the calibration texts is held out for the probes:
 * types should not be judged on the text on which importance was measured. */
#include <stdlib.h>
#include <string.h>

#include "calib/defaults.h"
#include "make/make.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/out.h"
#include "base/mem.h"
#include "template/chat_src.h"

enum { HELD_OUT = 5 }; /* every fifth document is for the probes */

/* Returns the end of a document: its line in a .jsonl; in prose, a blank line after at least 1 KiB.
 */
static size_t document(const struct default_text *t, size_t at) {
    const size_t len = default_text_len(t);
    if (t->is_chat) {
        const char *nl = memchr(t->data + at, '\n', len - at);
        return nl ? (size_t)(nl - t->data) + 1 : len;
    }
    for (size_t i = at + 1024; i + 1 < len; i++)
        if (t->data[i] == '\n' && t->data[i + 1] == '\n') return i + 2;
    return len;
}

/* Divides a text's documents: every HELD_OUT-th is for probes, the rest for calibration. */
static void divide_docs(const struct default_text *t, struct buf *calib, struct buf *probe) {
    const size_t len = default_text_len(t);
    size_t n = 0;
    for (size_t at = 0, end; at < len; at = end) {
        end = document(t, at);
        buf_add(++n % HELD_OUT ? calib : probe, t->data + at, end - at);
    }
}

/* Writes a text to a file and adds its path to the list; nothing if it is empty. */
static int write_text(struct make *mk, const char *name, const char *data, size_t len,
                      struct str_list *to, struct err *e) {
    if (!len) return 0;
    char *path = io_join(mk->text_dir ? mk->text_dir : mk->job.state, name);
    int rc = out_write_file(path, data, len, true, e);
    work_list_add(mk->w, to, arena_strdup(&mk->w->mem, path));
    free(path);
    return rc;
}

/* Splits a text into two parts and writes them: "default-calib.txt" and "default-probe.txt". */
static int write_divided(struct make *mk, const struct default_text *t, struct err *e) {
    struct buf calib = {0}, probe = {0};
    const char *dot = strrchr(t->name, '.');
    char *name = xasprintf("default-probe%s", dot ? dot : "");
    divide_docs(t, &calib, &probe);
    int rc = write_text(mk, t->name, calib.data, calib.len, &mk->calib, e);
    if (rc == 0) rc = write_text(mk, name, probe.data, probe.len, &mk->probe, e);
    free(name);
    buf_release(&calib);
    buf_release(&probe);
    return rc;
}

/* Sets *has to whether chats can be written with the base's template, or that of the source if
 * there is no base yet. */
static int find_template(const struct make *mk, bool *has, struct err *e) {
    struct gguf *g = NULL;
    struct chat_src s;
    struct err ignored;
    *has = false;
    if (mk->tmpl_fault) return 0;
    if (!mk->n_files) {
        *has = chat_src_open(&s, mk->src, NULL, &ignored) == 0;
        if (*has) chat_src_close(&s);
        return 0;
    }
    TRY(gguf_open(&g, mk->file[0].path, GGUF_ONE_FILE, e));
    *has = gguf_find(g, "tokenizer.chat_template") != NULL;
    gguf_close(g);
    return 0;
}

int make_texts(struct make *mk, struct err *e) {
    bool has_template;
    TRY(find_template(mk, &has_template, e));
    bool want[2] = {mk->calib.n == 0, mk->eval.n == 0};
    bool hold_out = !mk->probe.n && (mk->classes.n || mk->budget.n);
    for (int i = 0; default_text_at(i); i++) {
        const struct default_text *t = default_text_at(i);
        if (!want[t->is_eval] || (t->is_chat && !has_template)) continue;
        if (!t->is_eval && hold_out)
            TRY(write_divided(mk, t, e));
        else
            TRY(write_text(mk, t->name, t->data, default_text_len(t),
                           t->is_eval ? &mk->eval : &mk->calib, e));
    }
    return 0;
}
