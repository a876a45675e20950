// SPDX-License-Identifier: MIT
/* base/emit.h - result documents in four forms: table, JSON, CSV, Markdown.
 *
 * A result is a list of scalar fields followed by any number of tables. Values are added in order;
 * emit_print writes the whole document. JSON is one object: the fields, then "name": [ {row}, ... ]
 * for each table, with the keys as given. CSV is the first table, or key,value lines of the fields
 * if there is no table. The table form is for people: it shows the titles, puts thousands
 * separators into amounts (keys that begin with n_ or end in bytes), never truncates, and folds
 * rows wider than 100 columns into lines with texts above numbers; the last text is wrapped. */
#ifndef HONE_BASE_EMIT_H
#define HONE_BASE_EMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

enum emit_form { EMIT_TABLE, EMIT_JSON, EMIT_CSV, EMIT_MD };
struct emit;
/* Returns an empty document; release it with emit_free(). */
struct emit *emit_new(void);
/* Releases the document; m may be NULL. */
void emit_free(struct emit *m);

/* Sets the one-sentence answer: the first line of the table form, "answer" in JSON. */
void emit_answer(struct emit *m, const char *sentence);

/* Adds a scalar to the document. `title` is for people; NULL hides the field from the table form.
 * If a key is added twice, the first value counts. */
void emit_str(struct emit *m, const char *key, const char *title, const char *value);
/* Adds a value that is already JSON text; the JSON form copies it unchanged. */
void emit_json(struct emit *m, const char *key, const char *title, const char *json_text);
/* Adds an integer field; title NULL: shown only in the JSON and CSV forms. */
void emit_i64(struct emit *m, const char *key, const char *title, int64_t value);
/* Adds a number. `prec` is the number of decimals in the table form; JSON always uses %.9g. */
void emit_num(struct emit *m, const char *key, const char *title, double value, int prec);
/* Adds a truth value; title NULL: shown only in the JSON and CSV forms. */
void emit_bool(struct emit *m, const char *key, const char *title, bool value);

/* Starts a table. Declare its columns, then for each row add one cell per column, in order. title
 * NULL: JSON and CSV only; "": no headline. key NULL: table and Markdown forms only. */
void emit_table(struct emit *m, const char *key, const char *title);
void emit_col(struct emit *m, const char *key, const char *title); /* title NULL: JSON/CSV only */
void emit_row(struct emit *m); /* before the cells of a row; completes a short previous row */
/* Appends a cell to the last table; NULL: an empty cell. */
void emit_cell_str(struct emit *m, const char *value);
void emit_cell_json(struct emit *m, const char *json_text); /* like emit_json */
void emit_cell_i64(struct emit *m, int64_t value);
/* Appends a number, shown with `prec` decimals, to the last table. */
void emit_cell_num(struct emit *m, double value, int prec);
void emit_cell_bool(struct emit *m, bool value);
void emit_cell_none(struct emit *m); /* null, "-" */

/* Keeps each row of a table on one line regardless of its width, for output that programs read. By
 * default wide rows are folded. */
void emit_one_line(struct emit *m);

/* Appends the document to `out` in the given form. */
void emit_render(const struct emit *m, enum emit_form form, struct buf *out);
/* Writes the document to f in the given form and flushes f. */
void emit_print(const struct emit *m, enum emit_form form, FILE *f);

/* Formats a size for people, such as "11063840 B (0.0103 GiB)". */
void emit_fmt_bytes(char out[48], uint64_t n_bytes);

#endif
