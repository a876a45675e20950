// SPDX-License-Identifier: MIT
/* report/report_text.h - escaping of untrusted text for Markdown, YAML and HTML, and formatting of
 * numbers for reports. */
#ifndef HONE_REPORT_REPORT_TEXT_H
#define HONE_REPORT_REPORT_TEXT_H

#include "base/buf.h"
#include "base/doc.h"

/* Escapes characters that Markdown or embedded HTML would interpret; control characters become
 * spaces. */
void md_text(struct buf *out, const char *s);
/* Appends a file name as a relative URL: everything except letters, digits and "._-" becomes
 * %XX. */
void text_url(struct buf *out, const char *file);
/* Appends a link to a file of the folder: [file](file). */
void md_link(struct buf *out, const char *file);
/* Appends a number as a Markdown table cell, " 1.23 |", or " - |" if it is not finite. */
void md_num(struct buf *out, double v, int prec);
/* Appends the names in an array of strings, or of objects that have a "name", as a list: `a`,
 * `b`. */
void md_list(struct buf *out, const cJSON *names);
/* Appends a line `key: "value"`, with the value escaped for YAML's double quotes. */
void yaml_field(struct buf *out, const char *key, const char *value);
/* Formats a parameter count: "34.66 B" for 34660000000, "17.6 M" for 17596944. */
void text_params(char out[24], int64_t n);
/* Formats a byte count in decimal units with three digits: "11.1 MB", "19.8 GB". */
void text_size(char out[32], int64_t n_bytes);
/* Formats a byte count in GiB (2^30 bytes): "18.4 GiB", "0.0103 GiB". */
void text_gib(char out[32], int64_t n_bytes);
/* Formats a number with thousands separators: "11,063,840" for 11063840. */
void text_thousands(char out[32], int64_t n);
/* Appends a divergence in nats with its error, "0.0103 ± 0.0004". A value that is negative due to
 * rounding becomes 0; an unknown error is omitted. */
void text_kld(struct buf *out, double kld, double err);
/* Divides columns i to n - 1 among tables whose lines have at most 100 bytes, and returns the end
 * of the first table's columns, at least i + 1. Every line has `first` bytes before these columns,
 * and each column takes its title or `cell` bytes, whichever is longer, and `gap` bytes. */
int text_columns(const char *const *title, int n, int i, size_t first, size_t cell, size_t gap);
/* Appends s escaped for HTML text and attributes. */
void html_text(struct buf *out, const char *s);

#endif
