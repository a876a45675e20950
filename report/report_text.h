// SPDX-License-Identifier: MIT
/* report/report_text.h - escaping of strangers' text for Markdown, YAML and HTML, and number cells.
 */
#ifndef HONE_REPORT_REPORT_TEXT_H
#define HONE_REPORT_REPORT_TEXT_H

#include "base/buf.h"
#include "base/doc.h"

/* Escapes what Markdown or HTML inside it would act on; control characters become spaces. */
void md_text(struct buf *out, const char *s);
/* Appends a number as a cell of a Markdown table, " 1.23 |", or " - |" when it is not finite. */
void md_num(struct buf *out, double v, int prec);
/* Appends a list such as `a`, `b` of the names in an array of strings or of objects with "name". */
void md_list(struct buf *out, const cJSON *names);
/* Appends a line `key: "value"` with the escapes of YAML's double quotes. */
void yaml_field(struct buf *out, const char *key, const char *value);
/* Writes a number of parameters for people: "34.66 B" for 34660000000, "17.6 M" for 17596944. */
void text_params(char out[24], int64_t n);
/* Writes a number of bytes for people, by powers of ten and with three digits: "11.1 MB", "19.8
 * GB". */
void text_size(char out[32], int64_t n_bytes);
/* Writes a number of bytes in units of 2^30: "18.4 GiB", "0.0103 GiB". */
void text_gib(char out[32], int64_t n_bytes);
/* Writes a number with commas: "11,063,840" for 11063840. */
void text_thousands(char out[32], int64_t n);
/* Appends a divergence in nats for people, "0.0103 ± 0.0004". What rounding made negative is shown
 * as 0; an error that is not known is left out. */
void text_kld(struct buf *out, double kld, double err);
void html_text(struct buf *out, const char *s);

#endif
