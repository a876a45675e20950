// SPDX-License-Identifier: MIT
/* base/emit.c - result renderer: table, JSON, CSV or Markdown.
 *
 * Cells keep their type until they are rendered, and no form truncates a cell. The table form
 * right-aligns numbers. A table wider than 100 columns puts the texts of a row on one line and its
 * numbers on the next, or on as many lines as they need. The last text is wrapped between words, so
 * that only a word (such as a path) that is longer than a line exceeds the width.
 * Width is counted in code points, not bytes. CSV is a single table, so that any program can read
 * it: the first table, or "key,value" lines of the fields if there is no table. */
#include "base/emit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/visible.h"

enum { WIDTH_MAX = 100, GAP = 2, INDENT = 2, WRAP_MIN = 30 };
enum cell_kind { CELL_NONE, CELL_STR, CELL_I64, CELL_NUM, CELL_BOOL };

struct cell {
    enum cell_kind kind;
    int prec;
    int64_t i;
    double num;
    char *str; /* owned by the cell */
};
struct column {
    /* Both strings are owned. A column without a title (NULL) appears only in JSON and CSV. */
    char *key, *title;
};
struct table {
    char *key, *title;
    struct column *col;
    int n_cols;
    struct cell *cell; /* row-major */
    size_t n_cells, cap;
};
struct field {
    struct column name;
    struct cell value;
};
struct emit {
    struct field *field;
    int n_fields;
    struct table *table;
    int n_tables;
    bool one_line; /* rows of tables are never folded */
};

/* ---- building ------------------------------------------------------------------------------- */

struct emit *emit_new(void) {
    return xcalloc(1, sizeof(struct emit));
}

static void free_column(struct column *c) {
    free(c->key);
    free(c->title);
}

void emit_free(struct emit *m) {
    if (!m) return;
    for (int i = 0; i < m->n_fields; i++) {
        free_column(&m->field[i].name);
        free(m->field[i].value.str);
    }
    for (int i = 0; i < m->n_tables; i++) {
        struct table *t = &m->table[i];
        for (int k = 0; k < t->n_cols; k++) free_column(&t->col[k]);
        for (size_t k = 0; k < t->n_cells; k++) free(t->cell[k].str);
        free(t->col);
        free(t->cell);
        free(t->key);
        free(t->title);
    }
    free(m->field);
    free(m->table);
    free(m);
}

/* Returns copies of key and title. A NULL title hides the field from readers, a NULL key hides the
 * table from programs. */
static struct column make_column(const char *key, const char *title) {
    return (struct column){key ? xstrdup(key) : NULL, title ? xstrdup(title) : NULL};
}

/* Adds a field and takes ownership of the value's text; drops a second field with the same key. */
static void add_field(struct emit *m, const char *key, const char *title, struct cell value) {
    for (int i = 0; i < m->n_fields; i++)
        if (strcmp(m->field[i].name.key, key) == 0) {
            free(value.str);
            return;
        }
    m->field = xreallocarray(m->field, (size_t)m->n_fields + 1, sizeof *m->field);
    m->field[m->n_fields++] = (struct field){make_column(key, title), value};
}

/* Returns a cell with a copy of the text; s NULL: an empty cell. */
static struct cell str_cell(const char *s) {
    struct cell c = {.kind = s ? CELL_STR : CELL_NONE, .str = s ? xstrdup(s) : NULL};
    return c;
}

void emit_answer(struct emit *m, const char *sentence) {
    add_field(m, "answer", "", str_cell(sentence));
}

void emit_str(struct emit *m, const char *key, const char *title, const char *value) {
    add_field(m, key, title, str_cell(value));
}

/* Returns a cell whose text is already JSON. */
static struct cell raw_cell(const char *json_text) {
    struct cell c = str_cell(json_text);
    c.prec = 1;
    return c;
}

void emit_json(struct emit *m, const char *key, const char *title, const char *json_text) {
    add_field(m, key, title, raw_cell(json_text));
}

void emit_i64(struct emit *m, const char *key, const char *title, int64_t value) {
    add_field(m, key, title, (struct cell){.kind = CELL_I64, .i = value});
}

void emit_num(struct emit *m, const char *key, const char *title, double value, int prec) {
    add_field(m, key, title, (struct cell){.kind = CELL_NUM, .num = value, .prec = prec});
}

void emit_bool(struct emit *m, const char *key, const char *title, bool value) {
    add_field(m, key, title, (struct cell){.kind = CELL_BOOL, .i = value});
}

void emit_table(struct emit *m, const char *key, const char *title) {
    m->table = xreallocarray(m->table, (size_t)m->n_tables + 1, sizeof *m->table);
    struct column name = make_column(key, title);
    m->table[m->n_tables++] = (struct table){.key = name.key, .title = name.title};
}

/* Returns the table most recently begun, the one that cells go to. */
static struct table *last_table(struct emit *m) {
    if (m->n_tables == 0) emit_table(m, "table", NULL); /* a bug in the caller */
    return &m->table[m->n_tables - 1];
}

void emit_col(struct emit *m, const char *key, const char *title) {
    struct table *t = last_table(m);
    t->col = xreallocarray(t->col, (size_t)t->n_cols + 1, sizeof *t->col);
    t->col[t->n_cols++] = make_column(key, title);
}

/* Appends a cell and takes ownership of its text; cells fill the rows from left to right. */
static void add_cell(struct table *t, struct cell c) {
    if (t->n_cells == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->cell = xreallocarray(t->cell, t->cap, sizeof *t->cell);
    }
    t->cell[t->n_cells++] = c;
}

/* Starts a row, after completing the previous one if it is short. */
void emit_row(struct emit *m) {
    struct table *t = last_table(m);
    while (t->n_cols && t->n_cells % (size_t)t->n_cols) add_cell(t, (struct cell){0});
}

void emit_cell_str(struct emit *m, const char *value) {
    add_cell(last_table(m), str_cell(value));
}

void emit_cell_json(struct emit *m, const char *json_text) {
    add_cell(last_table(m), raw_cell(json_text));
}

void emit_cell_i64(struct emit *m, int64_t value) {
    add_cell(last_table(m), (struct cell){.kind = CELL_I64, .i = value});
}

void emit_cell_num(struct emit *m, double value, int prec) {
    add_cell(last_table(m), (struct cell){.kind = CELL_NUM, .num = value, .prec = prec});
}

void emit_cell_bool(struct emit *m, bool value) {
    add_cell(last_table(m), (struct cell){.kind = CELL_BOOL, .i = value});
}

void emit_cell_none(struct emit *m) {
    add_cell(last_table(m), (struct cell){0});
}

/* ---- text of a cell -------------------------------------------------------------------------- */

/* Returns the cell, or an empty one if the last row is too short. */
static const struct cell *cell_at(const struct table *t, size_t row, int col) {
    static const struct cell none;
    size_t i = row * (size_t)t->n_cols + (size_t)col;
    return i < t->n_cells ? &t->cell[i] : &none;
}

/* Returns the number of rows, the last of which may be incomplete. */
static size_t n_rows(const struct table *t) {
    size_t n = (size_t)t->n_cols;
    return n ? (t->n_cells + n - 1) / n : 0;
}

/* Returns whether the key names a size or a count. These get thousands separators; ids, seeds and
 * positions do not. */
static bool is_amount(const char *key) {
    size_t n = strlen(key);
    return strncmp(key, "n_", 2) == 0 || (n >= 5 && strcmp(key + n - 5, "bytes") == 0);
}

/* Appends the integer with commas between groups of three digits. */
static void put_grouped_digits(struct buf *b, int64_t v) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)v);
    for (int i = 0; i < n; i++) {
        if (i && digits[i - 1] != '-' && (n - i) % 3 == 0) buf_chr(b, ',');
        buf_chr(b, digits[i]);
    }
}

/* Formats a cell for people, on one line. Characters that could control the terminal are spelled
 * out. */
static void cell_text(struct buf *b, const struct cell *c, const char *key) {
    buf_reset(b);
    switch (c->kind) {
    case CELL_NONE:
        buf_chr(b, '-');
        break;
    case CELL_I64:
        if (is_amount(key))
            put_grouped_digits(b, c->i);
        else
            buf_fmt(b, "%lld", (long long)c->i);
        break;
    case CELL_BOOL:
        buf_str(b, c->i ? "yes" : "no");
        break;
    case CELL_NUM:
        if (fabs(c->num) >= 1e10 && isfinite(c->num)) /* decimals would only widen the table */
            buf_fmt(b, "%.4e", c->num);
        else if (isfinite(c->num))
            buf_fmt(b, "%.*f", c->prec, c->num);
        else
            buf_str(b, isnan(c->num) ? "nan" : c->num < 0 ? "-inf" : "inf");
        break;
    case CELL_STR:
        text_visible(b, c->str, strlen(c->str));
        for (size_t i = 0; i < b->len; i++)
            if (b->data[i] == '\n' || b->data[i] == '\t') b->data[i] = ' ';
        break;
    }
    buf_reserve(b, 0);
}

/* Returns the number of UTF-8 characters. */
static int text_width(const char *s) {
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void put_blanks(struct buf *b, int n) {
    for (; n > 0; n--) buf_chr(b, ' ');
}

/* Appends s padded with blanks to w characters; right: the blanks come first. */
static void put_aligned(struct buf *out, const char *s, int w, bool right) {
    int have = text_width(s);
    if (right) put_blanks(out, w - have);
    buf_str(out, s);
    if (!right) put_blanks(out, w - have);
}

/* ---- table ----------------------------------------------------------------------------------- */

struct layout {
    int *width; /* width of each column; 0: hidden */
    bool *right;
    int *line; /* on which line of a row the column is */
    int n_lines;
    int last; /* the last column with text, which is wrapped; -1: none is */
};

/* Returns the width that a column needs at least on its line. */
static int least_width(const struct layout *l, int i) {
    return i == l->last && l->width[i] > WRAP_MIN ? WRAP_MIN : l->width[i];
}

/* Distributes the columns of a wide table over the lines of a row: texts first, then numbers. */
static void fold_lines(struct layout *l, int n_cols) {
    int used = -GAP;
    for (int numbers = 0; numbers < 2; numbers++)
        for (int i = 0, first = 1; i < n_cols; i++) {
            if (!l->width[i] || l->right[i] != (numbers != 0)) continue;
            const int need = GAP + least_width(l, i);
            if (used > 0 && (used + need > WIDTH_MAX || (numbers && first))) {
                l->n_lines++;
                used = INDENT - GAP;
            }
            used += need;
            l->line[i] = l->n_lines - 1;
            first = 0;
        }
}

/* Returns the layout of a table, which the caller frees. fold: the rows of wide tables take several
 * lines, and the last text is wrapped. */
static struct layout lay_out(const struct table *t, bool fold) {
    const size_t n = (size_t)t->n_cols;
    struct layout l = {.width = xcalloc(n, sizeof *l.width),
                       .right = xcalloc(n, sizeof *l.right),
                       .line = xcalloc(n, sizeof *l.line),
                       .n_lines = 1,
                       .last = -1};
    struct buf b = {0};
    int total = -GAP;
    for (int i = 0; i < t->n_cols; i++) {
        if (!t->col[i].title) continue;
        bool any_num = false, any_str = false;
        int w = text_width(t->col[i].title);
        for (size_t r = 0; r < n_rows(t); r++) {
            const struct cell *c = cell_at(t, r, i);
            cell_text(&b, c, t->col[i].key);
            any_num |= c->kind == CELL_NUM || c->kind == CELL_I64;
            any_str |= c->kind == CELL_STR;
            if (text_width(b.data) > w) w = text_width(b.data);
        }
        l.width[i] = w > 0 ? w : 1;
        l.right[i] = any_num && !any_str;
        if (fold && !l.right[i]) l.last = i;
    }
    buf_release(&b);
    for (int i = 0; i < t->n_cols; i++) {
        const bool ends = i == l.last && l.width[i] && i + 1 == t->n_cols;
        if (l.width[i]) total += GAP + (ends ? least_width(&l, i) : l.width[i]);
    }
    if (fold && total > WIDTH_MAX) fold_lines(&l, t->n_cols);
    return l;
}

static void layout_release(struct layout *l) {
    free(l->width);
    free(l->right);
    free(l->line);
}

static void trim_right(struct buf *b) {
    while (b->len && b->data[b->len - 1] == ' ') b->data[--b->len] = 0;
}

/* Appends s, which begins in column `at`, and continues between words on further lines where it
 * would exceed the width. */
static void put_wrapped(struct buf *out, const char *s, int at) {
    const int room = WIDTH_MAX - at;
    int have = 0;
    if (text_width(s) <= room) {
        buf_str(out, s);
        return;
    }
    while (*s) {
        const size_t n = strcspn(s, " ");
        char *word = xstrndup(s, n);
        const int w = text_width(word);
        if (have && have + 1 + w > room) {
            buf_chr(out, '\n');
            put_blanks(out, at);
            have = 0;
        }
        if (have) buf_chr(out, ' ');
        buf_str(out, word);
        have += w + (have > 0);
        free(word);
        s += n + strspn(s + n, " ");
    }
}

/* Writes line k of row r (0: the titles). */
static void put_line(const struct table *t, const struct layout *l, size_t r, int k,
                     struct buf *out) {
    struct buf b = {0};
    int at = k ? INDENT : 0;
    bool first = true;
    put_blanks(out, at);
    for (int i = 0; i < t->n_cols; i++) {
        if (!l->width[i] || l->line[i] != k) continue;
        if (!first) put_blanks(out, GAP);
        at += first ? 0 : GAP;
        first = false;
        if (r > 0) cell_text(&b, cell_at(t, r - 1, i), t->col[i].key);
        const char *s = r ? b.data : t->col[i].title;
        if (i == l->last && at + l->width[i] > WIDTH_MAX)
            put_wrapped(out, s, at);
        else
            put_aligned(out, s, l->width[i], l->right[i]);
        at += l->width[i];
    }
    trim_right(out);
    buf_chr(out, '\n');
    buf_release(&b);
}

/* Appends the table as text; fold: a row may take several lines. */
static void render_table(const struct table *t, bool fold, struct buf *out) {
    struct layout l = lay_out(t, fold);
    if (out->len) buf_chr(out, '\n');
    if (t->title[0]) buf_fmt(out, "%s\n", t->title);
    for (size_t r = 0; r <= n_rows(t); r++) /* line 0 has the titles */
        for (int k = 0; k < l.n_lines; k++) put_line(t, &l, r, k, out);
    layout_release(&l);
}

/* Writes the answer, which comes first, no matter when it was added. */
static void put_answer(const struct emit *m, struct buf *out) {
    struct buf b = {0};
    for (int i = 0; i < m->n_fields; i++) {
        const struct field *f = &m->field[i];
        if (!f->name.title || f->name.title[0]) continue;
        cell_text(&b, &f->value, f->name.key);
        buf_fmt(out, "%s\n", b.data);
    }
    buf_release(&b);
}

/* Appends the document as readable text: answer, fields and titled tables. */
static void render_table_form(const struct emit *m, struct buf *out) {
    struct buf b = {0};
    int w = 0;
    bool fields = false;
    put_answer(m, out);
    for (int i = 0; i < m->n_fields; i++) {
        const char *title = m->field[i].name.title;
        if (title && text_width(title) > w) w = text_width(title);
    }
    for (int i = 0; i < m->n_fields; i++) {
        const struct field *f = &m->field[i];
        if (!f->name.title || !f->name.title[0]) continue;
        if (!fields && out->len) buf_chr(out, '\n');
        fields = true;
        cell_text(&b, &f->value, f->name.key);
        put_aligned(out, f->name.title, w, false);
        buf_fmt(out, "  %s\n", b.data);
    }
    for (int i = 0; i < m->n_tables; i++)
        if (m->table[i].title) render_table(&m->table[i], !m->one_line, out);
    buf_release(&b);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

/* Appends text with Markdown's special characters escaped. */
static void md_text(struct buf *out, const char *s) {
    for (; *s; s++) {
        if (*s == '|' || *s == '\\' || *s == '<' || *s == '*' || *s == '`') buf_chr(out, '\\');
        buf_chr(out, *s);
    }
}

/* Appends the table in Markdown. */
static void md_table(const struct table *t, struct buf *out) {
    struct layout l = lay_out(t, false);
    struct buf b = {0};
    if (out->len) buf_chr(out, '\n');
    if (t->title[0]) {
        buf_str(out, "### ");
        md_text(out, t->title);
        buf_str(out, "\n\n");
    }
    buf_chr(out, '|');
    for (int i = 0; i < t->n_cols; i++) {
        if (!l.width[i]) continue;
        buf_chr(out, ' ');
        md_text(out, t->col[i].title);
        buf_str(out, " |");
    }
    buf_str(out, "\n|");
    for (int i = 0; i < t->n_cols; i++)
        if (l.width[i]) buf_str(out, l.right[i] ? "---:|" : "---|");
    buf_chr(out, '\n');
    for (size_t r = 0; r < n_rows(t); r++) {
        buf_chr(out, '|');
        for (int i = 0; i < t->n_cols; i++) {
            if (!l.width[i]) continue;
            cell_text(&b, cell_at(t, r, i), t->col[i].key);
            buf_chr(out, ' ');
            md_text(out, b.data);
            buf_str(out, " |");
        }
        buf_chr(out, '\n');
    }
    layout_release(&l);
    buf_release(&b);
}

/* Appends the titled fields and tables in Markdown. */
static void render_md(const struct emit *m, struct buf *out) {
    struct buf b = {0};
    for (int i = 0; i < m->n_fields; i++) {
        const struct field *f = &m->field[i];
        if (!f->name.title) continue;
        cell_text(&b, &f->value, f->name.key);
        if (!f->name.title[0]) {
            md_text(out, b.data);
            buf_str(out, "\n\n");
            continue;
        }
        buf_str(out, "- **");
        md_text(out, f->name.title);
        buf_str(out, ":** ");
        md_text(out, b.data);
        buf_chr(out, '\n');
    }
    for (int i = 0; i < m->n_tables; i++)
        if (m->table[i].title) md_table(&m->table[i], out);
    buf_release(&b);
}

/* ---- JSON and CSV ---------------------------------------------------------------------------- */

/* Writes the cell as a JSON member named `key`; an empty one as null. */
static void json_cell(struct jw *w, const char *key, const struct cell *c) {
    switch (c->kind) {
    case CELL_NONE:
        jw_null(w, key);
        break;
    case CELL_STR:
        if (c->prec) /* already JSON (emit_json) */
            jw_raw(w, key, c->str);
        else
            jw_str(w, key, c->str);
        break;
    case CELL_I64:
        jw_i64(w, key, c->i);
        break;
    case CELL_NUM:
        jw_num(w, key, c->num);
        break;
    case CELL_BOOL:
        jw_bool(w, key, c->i != 0);
        break;
    }
}

/* Appends the document as a JSON object: every field, every table as a list of objects. */
static void render_json(const struct emit *m, struct buf *out) {
    struct jw w;
    jw_init(&w, out, true);
    jw_obj(&w, NULL);
    for (int i = 0; i < m->n_fields; i++) json_cell(&w, m->field[i].name.key, &m->field[i].value);
    for (int i = 0; i < m->n_tables; i++) {
        const struct table *t = &m->table[i];
        if (!t->key) continue;
        jw_arr(&w, t->key);
        for (size_t r = 0; r < n_rows(t); r++) {
            jw_obj(&w, NULL);
            for (int k = 0; k < t->n_cols; k++) json_cell(&w, t->col[k].key, cell_at(t, r, k));
            jw_end(&w);
        }
        jw_end(&w);
    }
    jw_end(&w);
    buf_chr(out, '\n');
}

/* Appends text, quoted where CSV requires it. */
static void csv_text(struct buf *out, const char *s) {
    if (!s[strcspn(s, ",\"\r\n")]) {
        buf_str(out, s);
        return;
    }
    buf_chr(out, '"');
    for (; *s; s++) {
        if (*s == '"') buf_chr(out, '"');
        buf_chr(out, *s);
    }
    buf_chr(out, '"');
}

/* Appends the cell as CSV; empty cells and numbers that are not finite yield nothing. */
static void csv_cell(struct buf *out, const struct cell *c) {
    switch (c->kind) {
    case CELL_NONE:
        break;
    case CELL_STR:
        csv_text(out, c->str);
        break;
    case CELL_I64:
        buf_fmt(out, "%lld", (long long)c->i);
        break;
    case CELL_NUM:
        if (isfinite(c->num)) buf_fmt(out, "%.9g", c->num);
        break;
    case CELL_BOOL:
        buf_str(out, c->i ? "true" : "false");
        break;
    }
}

/* Appends a header line of keys and the rows as CSV. */
static void csv_table(const struct table *t, struct buf *out) {
    for (int k = 0; k < t->n_cols; k++) {
        if (k) buf_chr(out, ',');
        csv_text(out, t->col[k].key);
    }
    buf_chr(out, '\n');
    for (size_t r = 0; r < n_rows(t); r++) {
        for (int k = 0; k < t->n_cols; k++) {
            if (k) buf_chr(out, ',');
            csv_cell(out, cell_at(t, r, k));
        }
        buf_chr(out, '\n');
    }
}

/* Appends only the first table as CSV; without tables, the fields as lines of key and value. */
static void render_csv(const struct emit *m, struct buf *out) {
    for (int i = 0; i < m->n_tables; i++) {
        if (!m->table[i].key) continue;
        csv_table(&m->table[i], out);
        return;
    }
    if (m->n_fields) buf_str(out, "key,value\n");
    for (int i = 0; i < m->n_fields; i++) {
        csv_text(out, m->field[i].name.key);
        buf_chr(out, ',');
        csv_cell(out, &m->field[i].value);
        buf_chr(out, '\n');
    }
}

void emit_render(const struct emit *m, enum emit_form form, struct buf *out) {
    static void (*const render[])(const struct emit *, struct buf *) = {
        [EMIT_TABLE] = render_table_form,
        [EMIT_JSON] = render_json,
        [EMIT_CSV] = render_csv,
        [EMIT_MD] = render_md,
    };
    struct buf b = {0}; /* renderers check whether `out` is empty */
    render[form](m, &b);
    if (b.len) buf_add(out, b.data, b.len);
    buf_release(&b);
}

void emit_one_line(struct emit *m) {
    m->one_line = true;
}

void emit_print(const struct emit *m, enum emit_form form, FILE *f) {
    struct buf b = {0};
    emit_render(m, form, &b);
    if (b.len) fwrite(b.data, 1, b.len, f);
    fflush(f);
    buf_release(&b);
}

void emit_fmt_bytes(char out[48], uint64_t n_bytes) {
    snprintf(out, 48, "%llu B (%.4f GiB)", (unsigned long long)n_bytes, (double)n_bytes / 0x1p30);
}
