// SPDX-License-Identifier: MIT
/* base/emit.h - one description of a result, four forms: table, JSON, CSV, Markdown.
 *
 * A result is a list of scalar fields followed by any number of tables. Values are added in order;
 * emit_print writes the whole document. JSON is one object: fields, then "name": [ {row}, ... ] per
 * table, keys as given. CSV is the first table, or the fields as key,value where there is none. A
 * table for people uses the titles and formats values: amounts (keys that begin with n_ or end in
 * bytes) have thousands separators, nothing is ever cut, and rows wider than 100 columns take two
 * lines, texts above numbers.
 */
#ifndef HONE_BASE_EMIT_H
#define HONE_BASE_EMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

enum emit_form { EMIT_TABLE, EMIT_JSON, EMIT_CSV, EMIT_MD };
struct emit;
struct emit *emit_new(void);
void emit_free(struct emit *m);

/* Sets the sentence that answers what was asked: the first line for people, "answer" in JSON. */
void emit_answer(struct emit *m, const char *sentence);

/* Scalars of the document. `title` is for people; NULL hides the field from the table forms. Of a
 * key that comes twice the first value counts. */
void emit_str(struct emit *m, const char *key, const char *title, const char *value);
/* Adds a value that is JSON text already; in JSON it stays as it is. */
void emit_json(struct emit *m, const char *key, const char *title, const char *json_text);
void emit_i64(struct emit *m, const char *key, const char *title, int64_t value);
/* Adds a number. `prec` is the decimals that people see; JSON always gets %.9g. */
void emit_num(struct emit *m, const char *key, const char *title, double value, int prec);
void emit_bool(struct emit *m, const char *key, const char *title, bool value);

/* Starts a table; columns are declared once, rows then give one cell per column, in order. Title
 * NULL: JSON and CSV only; "": shown without a headline. */
void emit_table(struct emit *m, const char *key, const char *title);
void emit_col(struct emit *m, const char *key, const char *title); /* title NULL: JSON/CSV only */
void emit_row(struct emit *m); /* before each row's cells; fills up a row left short */
void emit_cell_str(struct emit *m, const char *value);
void emit_cell_i64(struct emit *m, int64_t value);
void emit_cell_num(struct emit *m, double value, int prec);
void emit_cell_bool(struct emit *m, bool value);
void emit_cell_none(struct emit *m); /* null, "-" */

/* Keeps each row of a table on one line, however long, as programs that read a pipe expect. By
 * default wide rows are folded for a terminal. */
void emit_one_line(struct emit *m);

void emit_render(const struct emit *m, enum emit_form form, struct buf *out);
void emit_print(const struct emit *m, enum emit_form form, FILE *f);

/* Writes a size for people, such as "11063840 B (0.0103 GiB)". */
void emit_fmt_bytes(char out[48], uint64_t n_bytes);

#endif
