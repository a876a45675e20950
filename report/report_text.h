// SPDX-License-Identifier: MIT
/* report/report_text.h - escaping of strangers' text for Markdown, YAML and HTML, and number cells.
 */
#ifndef HONE_REPORT_REPORT_TEXT_H
#define HONE_REPORT_REPORT_TEXT_H

#include "core/buf.h"
#include "core/json.h"

/* Escapes what Markdown or HTML inside it would act on; control characters become spaces. */
void md_text(struct buf *out, const char *s);
/* " 1.23 |", or " - |" when not finite. */
void md_num(struct buf *out, double v, int prec);
/* `a`, `b`: names of an array of strings or of objects with "name". */
void md_list(struct buf *out, const struct json *names);
/* key: "value" with YAML double-quote escapes. */
void yaml_field(struct buf *out, const char *key, const char *value);
/* 34660000000 -> "34.66 B", 17596944 -> "17.6 M" */
void text_params(char out[24], int64_t n);
/* "11.1 MB", "19.8 GB": powers of ten, three digits. */
void text_size(char out[32], int64_t n_bytes);
void text_gib(char out[32], int64_t n_bytes); /* "18.4 GiB", "0.0103 GiB" */
/* 11063840 -> "11,063,840" */
void text_thousands(char out[32], int64_t n);
/* "0.0103 ± 0.0004": a divergence in nats for people. What rounding made negative is shown as 0; an
 * error that is not known is left out. */
void text_kld(struct buf *out, double kld, double err);
void html_text(struct buf *out, const char *s);

#endif
