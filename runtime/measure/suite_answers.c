// SPDX-License-Identifier: MIT
/* runtime/measure/suite_answers.c - conversations that end with an answer, converted to cases that
 * expect the same calls (suite.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/talk.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/measure/suite_int.h"
#include "text/textfile.h"

/* Appends a message's calls as a list of {"name", "arguments"}, or null if it has none. */
static void put_expect(struct buf *out, const char *message) {
    struct json *j = NULL;
    struct err ignored;
    struct jw w;
    if (json_parse(&j, message, strlen(message), "", &ignored)) return;
    const struct json *calls = json_get(j, "tool_calls");
    if (!json_first(calls)) buf_str(out, "null");
    jw_init(&w, out, false);
    if (json_first(calls)) jw_arr(&w, NULL);
    for (const struct json *c = json_first(calls); c; c = json_next(c)) {
        const struct json *fn = json_get(c, "function"), *args = json_get(fn ? fn : c, "arguments");
        jw_obj(&w, NULL);
        jw_copy(&w, "name", json_get(fn ? fn : c, "name"));
        if (json_str(args)) /* arguments as JSON text; the parser rejects anything else */
            jw_raw(&w, "arguments", json_str(args));
        else
            jw_copy(&w, "arguments", args);
        jw_end(&w);
    }
    if (json_first(calls)) jw_end(&w);
    json_free(j);
}

/* Appends the case for a line. Returns false, with the reason, if it cannot be used as one. */
static bool add_case(struct buf *out, const char *line, size_t n, const char *path, long long no,
                     struct err *why) {
    char what[512];
    struct talk t = {0};
    struct suite one;
    struct buf b = {0}, expect = {0};
    snprintf(what, sizeof what, "%s: line %lld", path, no);
    err_set(why, ERR_DATA, "%s: not a conversation that ends with an answer", what);
    bool ok = talk_parse(&t, line, n, what, why) == 0 && t.n > 1 &&
              strcmp(talk_last_role(&t), "assistant") == 0;
    if (ok) {
        put_expect(&expect, t.msg[t.n - 1]);
        talk_drop_last(&t);
        talk_write(&t, 0, &b);
        while (b.len && b.data[b.len - 1] != '}') b.len--;
        /* A case takes one line; JSON strings contain no newline. */
        for (size_t i = 0; i < b.len; i++)
            if (b.data[i] == '\n') b.data[i] = ' ';
        ok = expect.len && b.len > 1;
    }
    if (ok) {
        b.len--;
        b.data[b.len] = 0;
        buf_fmt(&b, ",\"expect\":%s}\n", expect.data);
        ok = suite_parse_record(&one, b.data, b.len, no, path, why) == 0;
        if (ok) {
            suite_close(&one);
            buf_add(out, b.data, b.len);
        }
    }
    talk_release(&t);
    buf_release(&b);
    buf_release(&expect);
    return ok;
}

int suite_open_answers(struct suite *s, const char *path, struct err *e) {
    char *data = NULL;
    size_t len = 0;
    struct buf all = {0};
    struct err why, first = {0};
    int n = 0, n_refused = 0;
    long long no = 0;
    memset(s, 0, sizeof *s);
    TRY(text_read_file(&data, &len, path, e));
    for (const char *p = data, *end = data + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const size_t k = nl ? (size_t)(nl - p) : (size_t)(end - p);
        no++;
        if (strspn(p, " \t\r") < k) {
            const bool ok = add_case(&all, p, k, path, no, &why);
            if (!ok && !n_refused) first = why;
            n += ok;
            n_refused += !ok;
        }
        p += k + (nl != NULL);
    }
    free(data);
    if (n_refused)
        log_warn("%d of %d lines are skipped; the first: %s", n_refused, n + n_refused, first.msg);
    const int rc = n ? suite_parse_record(s, all.data, all.len, 1, path, e)
                     : err_set(e, ERR_DATA, "%s: no line is usable as a case", path);
    buf_release(&all);
    return rc;
}
