// SPDX-License-Identifier: MIT
/* report/report_text.c - escaping and number formatting for reports. */
#include "report/report_text.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

/* Returns whether '_' at s is inside a word, as in Q4_K_M, where Markdown ignores it. */
static bool in_word(const char *begin, const char *s) {
    return *s == '_' && s > begin && isalnum((unsigned char)s[-1]) && isalnum((unsigned char)s[1]);
}

void md_text(struct buf *out, const char *begin) {
    for (const char *s = begin; *s; s++) {
        if ((unsigned char)*s < 0x20)
            buf_chr(out, ' ');
        else if (in_word(begin, s))
            buf_chr(out, '_');
        else if (strchr("\\`*_{}[]<>|#", *s))
            buf_chr(out, '\\'), buf_chr(out, *s);
        else
            buf_chr(out, *s);
    }
}

void text_url(struct buf *out, const char *file) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (const char *s = file; *s; s++) {
        if (strchr(plain, *s))
            buf_chr(out, *s);
        else
            buf_fmt(out, "%%%02X", (unsigned)(unsigned char)*s);
    }
}

void md_link(struct buf *out, const char *file) {
    buf_chr(out, '[');
    md_text(out, file);
    buf_str(out, "](");
    text_url(out, file);
    buf_chr(out, ')');
}

void md_num(struct buf *out, double v, int prec) {
    if (isfinite(v))
        buf_fmt(out, " %.*f |", prec, v);
    else
        buf_str(out, " - |");
}

void md_list(struct buf *out, const cJSON *names) {
    const char *sep = "";
    for (const cJSON *n = doc_first(names); n; n = n->next) {
        const char *s = cJSON_GetStringValue(n) ? cJSON_GetStringValue(n) : doc_str(n, "name");
        if (!s) continue;
        buf_fmt(out, "%s`", sep);
        for (; *s; s++) buf_chr(out, *s == '`' || (unsigned char)*s < 0x20 ? ' ' : *s);
        buf_chr(out, '`');
        sep = ", ";
    }
    if (!*sep) buf_str(out, "no text");
}

void yaml_field(struct buf *out, const char *key, const char *value) {
    buf_fmt(out, "%s: ", key);
    json_quote(out, value, strlen(value)); /* JSON strings are YAML strings */
    buf_chr(out, '\n');
}

void html_text(struct buf *out, const char *s) {
    for (; *s; s++) {
        if (*s == '<')
            buf_str(out, "&lt;");
        else if (*s == '>')
            buf_str(out, "&gt;");
        else if (*s == '&')
            buf_str(out, "&amp;");
        else if (*s == '"')
            buf_str(out, "&quot;");
        else if (*s == '\'')
            buf_str(out, "&#39;");
        else
            buf_chr(out, *s);
    }
}

void text_params(char out[24], int64_t n) {
    double v = (double)n;
    if (v >= 1e9)
        snprintf(out, 24, "%.2f B", v / 1e9);
    else
        snprintf(out, 24, "%.1f M", v / 1e6);
}

void text_size(char out[32], int64_t n_bytes) {
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)n_bytes;
    size_t i = 0;
    for (; v >= 999.5 && i + 1 < sizeof unit / sizeof *unit; i++) v /= 1000;
    snprintf(out, 32, "%.*f %s", i == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v, unit[i]);
}

void text_gib(char out[32], int64_t n_bytes) {
    double v = (double)n_bytes / 0x1p30;
    snprintf(out, 32, "%.*f GiB", v >= 9.995 ? 1 : v >= 0.995 ? 2 : v >= 0.0995 ? 3 : 4, v);
}

void text_thousands(char out[32], int64_t n) {
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n), k = 0;
    for (int i = 0; i < len; i++) {
        if (i && digits[i - 1] != '-' && (len - i) % 3 == 0) out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
}

/* Returns the end of the columns from i on that fit a line. */
static int line_end(const char *const *title, int n, int i, size_t first, size_t cell, size_t gap) {
    enum { LINE = 100 };
    size_t width = first;
    int end = i;
    for (; end < n; end++) {
        const size_t len = strlen(title[end]);
        width += gap + (len > cell ? len : cell);
        if (end > i && width > LINE) break;
    }
    return end;
}

int text_columns(const char *const *title, int n, int i, size_t first, size_t cell, size_t gap) {
    int n_tables = 0;
    for (int at = i; at < n; n_tables++) at = line_end(title, n, at, first, cell, gap);
    const int each = n_tables ? (n - i + n_tables - 1) / n_tables : 1,
              end = line_end(title, n, i, first, cell, gap);
    return end < i + each ? end : i + each;
}

void text_kld(struct buf *out, double kld, double err) {
    if (!isfinite(kld)) {
        buf_str(out, "-");
        return;
    }
    if (kld < 0) kld = 0;
    bool known = isfinite(err) && err >= 5e-7;
    int prec = kld >= 1 ? 3 : kld >= 0.001 ? 4 : kld >= 0.0001 ? 5 : 6;
    if (known) { /* one significant digit of the error */
        prec = (int)ceil(-log10(err) - 1e-9);
        prec = prec < 2 ? 2 : prec > 6 ? 6 : prec;
    }
    buf_fmt(out, "%.*f", prec, kld);
    if (known) buf_fmt(out, " \302\261 %.*f", prec, err);
}
