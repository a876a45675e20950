// SPDX-License-Identifier: MIT
/* quantize/record.c - writer and parser of the build record (hone.replay). */
#include "quantize/record.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/map.h"
#include "base/doc.h"

int record_file_hash(const char *path, char hex[33], struct err *e) {
    struct map m = {0};
    TRY(map_open(&m, path, e));
    hash_xxh128_hex(hex, m.data, m.size);
    map_close(&m);
    return 0;
}

void record_source_hash(const struct gguf *g, char hex[33]) {
    struct buf b = {0};
    for (int i = 0; i < gguf_n_shards(g); i++) {
        char one[33];
        uint64_t n = 0;
        const uint8_t *p = gguf_shard_header(g, i, &n);
        hash_xxh128_hex(one, p, n);
        buf_str(&b, one);
    }
    hash_xxh128_hex(hex, b.data, b.len);
    buf_release(&b);
}

int record_text(struct buf *out, const struct quantize_opts *o, const struct gguf *source,
                struct err *e) {
    /* Unused fields are as long as used ones, because error feedback must not change the size of a
     * file. So a dry run needs no hashes; moments may have many gigabytes. */
    char src[33], imatrix[33] = RECORD_NONE, gram[33] = RECORD_NONE;
    record_source_hash(source, src);
    if (o->imatrix && !o->dry_run) TRY(record_file_hash(o->imatrix, imatrix, e));
    if (o->gram && !o->dry_run) TRY(record_file_hash(o->gram, gram, e));
    cJSON *root = doc_new();
    doc_put_str(root, "version", HONE_VERSION);
    doc_put_str(root, "source", io_base(gguf_path(source)));
    doc_put_str(root, "source_headers_xxh128", src);
    doc_put_i64(root, "source_bytes", (int64_t)gguf_file_bytes(source));
    doc_put_str(root, "search", search_name(o->search));
    doc_put_str(root, "imatrix_xxh128", imatrix);
    doc_put_str(root, "gram_xxh128", gram);
    doc_put_i64(root, "without", o->without);
    doc_put_num(root, "tau", o->tau);
    doc_put_i64(root, "split_max", (int64_t)o->split_max);
    const int rc = doc_print_line(root, out, e);
    cJSON_Delete(root);
    return rc;
}

/* Copies a string member. False: missing, or it does not fit. */
static bool take_text(char *out, size_t cap, const cJSON *root, const char *name) {
    const char *s = doc_str(root, name);
    if (!s || strlen(s) >= cap) return false;
    memcpy(out, s, strlen(s) + 1);
    return true;
}

/* Fills *r from JSON. False: a member is missing or malformed. */
static bool parse_record(struct record *r, const cJSON *root) {
    char search[16];
    int64_t n, without, split;
    bool ok = take_text(r->version, sizeof r->version, root, "version") &&
              take_text(r->source, sizeof r->source, root, "source") &&
              take_text(r->source_hash, sizeof r->source_hash, root, "source_headers_xxh128") &&
              take_text(r->imatrix, sizeof r->imatrix, root, "imatrix_xxh128") &&
              take_text(r->gram, sizeof r->gram, root, "gram_xxh128") &&
              take_text(search, sizeof search, root, "search") &&
              doc_i64(root, "source_bytes", &n) && n >= 0 && doc_i64(root, "without", &without) &&
              without >= 0 && without < 256 && doc_i64(root, "split_max", &split) && split >= 0;
    if (!ok) return false;
    r->source_bytes = (uint64_t)n;
    r->without = (unsigned)without;
    r->split_max = (uint64_t)split;
    r->tau = doc_num(root, "tau", 0);
    for (int k = SEARCH_FAST; k <= SEARCH_CONVENTIONAL; k++)
        if (strcmp(search, search_name((enum search)k)) == 0) {
            r->search = (enum search)k;
            return true;
        }
    return false;
}

int record_read(struct record *r, const struct gguf *g, struct err *e) {
    const char *text = gguf_str_or(g, RECORD_KEY, "");
    cJSON *root = NULL;
    memset(r, 0, sizeof *r);
    if (!*text)
        return err_set(
            e, ERR_DATA,
            "%s: no record of how it was made (key %s): not written by hone quantize, or "
            "by an older version",
            gguf_path(g), RECORD_KEY);
    TRY(doc_parse(&root, text, strlen(text), RECORD_KEY, e));
    bool ok = parse_record(r, root);
    cJSON_Delete(root);
    return ok ? 0 : err_set(e, ERR_DATA, "%s: the key %s is damaged", gguf_path(g), RECORD_KEY);
}

bool record_in(const char *path) {
    struct gguf *g;
    struct err ignored;
    if (gguf_open(&g, path, 0, &ignored)) return false;
    const bool there = *gguf_str_or(g, RECORD_KEY, "") != 0;
    gguf_close(g);
    return there;
}
