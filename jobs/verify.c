// SPDX-License-Identifier: MIT
/* jobs/verify.c - hone verify: checks that files are complete and valid.
 *
 * Opens files with every rule of their format; --deep reads the tensor data too. A folder is either
 * a Hugging Face model (config.json and no GGUF) or a set of published files, of which every GGUF,
 * safetensors and imatrix file is checked, and SHA256SUMS or the file of --manifest. Each finding
 * is a row. Exit status 1 if there are findings; 3 means that the check itself failed. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/verify.h"
#include "base/fp.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "containers/hfdir.h"
#include "quantize/imat_file.h"
#include "base/io.h"
#include "base/map.h"
#include "runtime/measure/kld_file.h"
#include "runtime/measure/kld_file_top.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/str.h"
#include "tok/tok.h"

struct finding {
    char *file, *text;
};
struct verify {
    struct finding *finding;
    bool deep;
    int64_t n_files, n_tensors, n_findings;
    uint64_t n_bytes; /* bytes of data read */
    char first[256];  /* first finding, for the message */
};

/* Records ERR_DATA as a finding and returns 0; returns any other error. */
static int finding(struct verify *v, const char *path, int rc, const struct err *e) {
    if (rc != ERR_DATA) return rc;
    const char *text = e->msg;
    size_t n = strlen(path);
    if (strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0) text += n + 2;
    if (v->n_findings == 0) snprintf(v->first, sizeof v->first, "%.255s", e->msg);
    v->finding = xreallocarray(v->finding, (size_t)v->n_findings + 1, sizeof *v->finding);
    v->finding[v->n_findings++] = (struct finding){xstrdup(io_base(path)), xstrdup(text)};
    return 0;
}

static void emit_report(struct emit *m, const struct verify *v) {
    emit_bool(m, "ok", "intact", v->n_findings == 0);
    emit_i64(m, "n_files", "files", v->n_files);
    emit_i64(m, "n_tensors", "tensors", v->n_tensors);
    emit_i64(m, "data_bytes_read", v->deep ? "data bytes read" : NULL, (int64_t)v->n_bytes);
    emit_i64(m, "n_findings", NULL, v->n_findings);
    emit_table(m, "findings", v->n_findings ? "findings" : NULL);
    emit_col(m, "file", "file");
    emit_col(m, "finding", "finding");
    for (int64_t i = 0; i < v->n_findings; i++) {
        emit_row(m);
        emit_cell_str(m, v->finding[i].file);
        emit_cell_str(m, v->finding[i].text);
    }
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* Returns ERR_DATA if the file's keys do not match its tensors. */
static int check_claims(const struct gguf *g, struct err *e) {
    bool quantized = false;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct qtype_info *qi = qtype_info((int64_t)gguf_tensor_at(g, i)->type);
        quantized |= (qi->flags & QF_QUANT) != 0;
        if (qi->flags & QF_ACT)
            return err_set(e, ERR_DATA,
                           "%s: tensor \"%s\" has type %s, which is for activations only",
                           gguf_path(g), gguf_tensor_at(g, i)->name, qi->name);
    }
    if (strcmp(gguf_str_or(g, "general.type", "model"), "imatrix") == 0) return 0;
    if (!*gguf_str_or(g, "general.architecture", ""))
        return err_set(e, ERR_DATA, "%s: key \"general.architecture\" is missing", gguf_path(g));
    if (quantized && gguf_u64_or(g, "general.quantization_version", 0) != 2)
        return err_set(e, ERR_DATA, "%s: key \"general.quantization_version\" is not 2",
                       gguf_path(g));
    return 0;
}

/* Returns ERR_DATA if a file of the set has bytes after its last tensor and the padding. */
static int check_end(const struct gguf *g, struct err *e) {
    int64_t k = 0; /* tensors are ordered by file */
    for (int i = 0; i < gguf_n_shards(g); i++) {
        uint64_t start, end;
        gguf_shard_header(g, i, &start);
        end = start;
        for (const struct gguf_tensor *t; (t = gguf_tensor_at(g, k)) && t->shard == i; k++)
            end = max_u64(end, start + round_up(t->off + t->n_bytes, gguf_alignment(g)));
        if (gguf_shard_bytes(g, i) > end)
            return err_set(e, ERR_DATA, "%s: %llu bytes follow the last tensor",
                           gguf_shard_path(g, i),
                           (unsigned long long)(gguf_shard_bytes(g, i) - end));
    }
    return 0;
}

/* Returns ERR_DATA if a tokenizer of a supported kind cannot be built from the file's keys. */
static int check_tokenizer(const struct gguf *g, struct err *e) {
    struct tok *t;
    struct err unknown;
    TRY(gguf_check_tokenizer(g, e));
    if (tok_gguf_known(g, &unknown)) return 0;
    TRY(tok_from_gguf(&t, g, e));
    tok_free(t);
    return 0;
}

/* Checks all tensors for invalid values. */
static int check_gguf_data(struct verify *v, const struct gguf *g, const char *path,
                           struct err *e) {
    struct progress p;
    uint64_t done = 0;
    int rc = 0;
    progress_begin(&p, "checking data", PROG_BYTES, gguf_file_bytes(g));
    for (int64_t i = 0; i < gguf_n_tensors(g) && !rc; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        rc = finding(v, path, gguf_check_data(g, t, e), e);
        gguf_drop(g, t);
        done += t->n_bytes;
        progress_update(&p, done);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    v->n_bytes += done;
    progress_end(&p);
    return rc;
}

/* Verifies a GGUF file; faults become findings. */
static int verify_gguf(struct verify *v, const char *path, struct err *e) {
    struct gguf *g;
    int rc = gguf_open(&g, path, 0, e);
    if (rc) return finding(v, path, rc, e);
    v->n_tensors += gguf_n_tensors(g);
    v->n_files += gguf_n_shards(g) - 1; /* the caller has counted the first */
    rc = finding(v, path, check_claims(g, e), e);
    if (!rc) rc = finding(v, path, check_end(g, e), e);
    if (!rc) rc = finding(v, path, check_tokenizer(g, e), e);
    if (!rc && strcmp(gguf_str_or(g, "general.type", ""), "imatrix") == 0) {
        struct imat im;
        rc = imat_read(&im, path, e);
        if (!rc) imat_release(&im);
        rc = finding(v, path, rc, e);
    }
    if (!rc && v->deep) rc = check_gguf_data(v, g, path, e);
    gguf_close(g);
    return rc;
}

/* ---- safetensors ----------------------------------------------------------------------------- */

/* Returns ERR_DATA if the tensor has a NaN or infinity. */
static int check_st_data(const struct st_tensor *t, struct err *e) {
    float x[1024];
    for (int64_t i = 0; i < t->n_elems; i += (int64_t)COUNT_OF(x)) {
        int64_t n = t->n_elems - i < (int64_t)COUNT_OF(x) ? t->n_elems - i : (int64_t)COUNT_OF(x);
        TRY(st_to_f32(t, i, n, x, e));
        for (int64_t k = 0; k < n; k++)
            if ((fp_bits(x[k]) & 0x7f800000u) == 0x7f800000u)
                return err_set(e, ERR_DATA, "tensor \"%.200s\": NaN or infinity at element %lld",
                               t->name, (long long)(i + k));
    }
    return 0;
}

/* Returns whether values of the type can be NaN or infinity. */
static bool holds_floats(enum st_dtype d) {
    return d == ST_F16 || d == ST_BF16 || d == ST_F32 || d == ST_F64 || d == ST_F8_E4M3 ||
           d == ST_F8_E5M2 || d == ST_F8_E8M0;
}

/* Verifies a safetensors file; its data only with --deep. */
static int verify_st(struct verify *v, const struct st *s, struct err *e) {
    struct progress p;
    int rc = 0;
    v->n_tensors += st_n_tensors(s);
    if (!v->deep) return 0;
    progress_begin(&p, "checking data", PROG_BYTES, st_file_bytes(s));
    for (int64_t i = 0; i < st_n_tensors(s) && !rc; i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (holds_floats(t->dtype)) rc = finding(v, st_path(s), check_st_data(t, e), e);
        st_drop(s, t->off, t->n_bytes);
        v->n_bytes += t->n_bytes;
        progress_update(&p, t->off);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    progress_end(&p);
    return rc;
}

/* Verifies a Hugging Face folder. */
static int verify_hf(struct verify *v, const char *dir, struct err *e) {
    struct hfdir *h;
    const struct json *ignored;
    int rc = hfdir_open(&h, dir, e);
    if (rc) return finding(v, dir, rc, e);
    v->n_files += hfdir_n_files(h);
    static const char *const others[] = {"tokenizer.json", "tokenizer_config.json",
                                         "generation_config.json", "special_tokens_map.json"};
    for (size_t i = 0; i < COUNT_OF(others) && !rc; i++)
        rc = finding(v, others[i], hfdir_json(h, others[i], &ignored, e), e);
    for (int i = 0; i < hfdir_n_files(h) && !rc; i++) rc = verify_st(v, hfdir_file(h, i), e);
    hfdir_close(h);
    return rc;
}

/* ---- any file -------------------------------------------------------------------------------- */

/* Verifies a base logits file. */
static int verify_kld(struct verify *v, const char *path, struct err *e) {
    struct kld_r *r;
    int rc = kld_r_open(&r, path, e);
    if (rc) return finding(v, path, rc, e);
    int64_t n = (int64_t)kld_r_chunks(r) * (kld_r_ctx(r) - 1 - kld_r_ctx(r) / 2);
    for (int64_t i = 0; v->deep && i < n && !rc; i++) rc = kld_r_check_row(r, i, e);
    kld_r_close(r);
    return rc ? finding(v, path, rc, e) : 0;
}

/* Verifies a compact base file. */
static int verify_kld_top(struct verify *v, const char *path, struct err *e) {
    struct kld_top_r *r;
    struct kld_top_row row;
    int rc = kld_top_r_open(&r, path, e);
    if (rc) return finding(v, path, rc, e);
    const struct kld_top_shape *sh = kld_top_r_shape(r);
    const int64_t n = (int64_t)sh->n_chunk * (sh->n_ctx - 1 - sh->from);
    for (int64_t i = 0; v->deep && i < n && !rc; i++) rc = kld_top_r_row(r, i, &row, e);
    kld_top_r_close(r);
    return rc ? finding(v, path, rc, e) : 0;
}

/* Verifies a file, detecting its kind from the first bytes. */
static int verify_file(struct verify *v, const char *path, struct err *e) {
    struct map f;
    char head[9] = {0};
    TRY(map_open(&f, path, e));
    if (f.size >= sizeof head) memcpy(head, f.data, sizeof head);
    map_close(&f);
    v->n_files++;
    if (memcmp(head, "GGUF", 4) == 0 || strstr(io_base(path), ".gguf"))
        return verify_gguf(v, path, e);
    if (memcmp(head, "_logits_", 8) == 0) return verify_kld(v, path, e);
    if (kld_top_is(path)) return verify_kld_top(v, path, e);
    if (head[8] == '{' || strstr(io_base(path), ".safetensors")) {
        struct st *s;
        int rc = st_open(&s, path, e);
        if (rc) return finding(v, path, rc, e);
        rc = verify_st(v, s, e);
        st_close(s);
        return rc;
    }
    struct imat im;
    int rc = imat_read(&im, path, e);
    if (!rc) imat_release(&im);
    return finding(v, path, rc, e);
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Returns whether a file should be checked, judging by its name. Later shards are opened with their
 * set. */
static bool is_ours(const char *name) {
    int i = 0, n = 0;
    size_t len;
    if (str_ends(name, ".gguf")) return !gguf_split_parse(name, &i, &n, &len) || i == 0;
    return str_ends(name, ".safetensors") || str_ends(name, ".imatrix");
}

/* Returns whether there is a finding for a file of this name. */
static bool has_finding(const struct verify *v, const char *name) {
    for (int64_t i = 0; i < v->n_findings; i++)
        if (strcmp(v->finding[i].file, name) == 0) return true;
    return false;
}

/* Adds a finding if this is a later shard of a set whose first one is missing, once per set. */
static int check_first_shard(struct verify *v, const char *dir, const char *name, struct err *e) {
    int i = 0, n = 0, rc = 0;
    size_t len;
    if (!gguf_split_parse(name, &i, &n, &len) || i == 0) return 0;
    char *first = gguf_split_name(name, 0, n), *path = io_join(dir, first);
    if (!io_exists(path) && !has_finding(v, first)) {
        rc = err_set(e, ERR_DATA, "%s: shard 1 of %d is missing; download it again", path, n);
        rc = finding(v, path, rc, e);
    }
    free(first);
    free(path);
    return rc;
}

/* Verifies the files in a folder whose kind hone knows. */
static int verify_files(struct verify *v, const char *dir, const struct io_names *all,
                        struct err *e) {
    int rc = 0;
    for (int i = 0; i < all->n && rc == 0; i++) {
        rc = check_first_shard(v, dir, all->v[i], e);
        if (rc || !is_ours(all->v[i])) continue;
        char *path = io_join(dir, all->v[i]);
        rc = verify_file(v, path, e);
        free(path);
    }
    return rc;
}

/* ---- checksums ------------------------------------------------------------------------------- */

/* Returns whether a part of the path is "..". */
static bool leaves_folder(const char *path) {
    for (const char *s = path; (s = strstr(s, "..")); s += 2)
        if ((s == path || os_is_slash(s[-1])) && (!s[2] || os_is_slash(s[2]))) return true;
    return false;
}

/* Checks one line of SHA256SUMS: 64 hex digits, a space, a space or '*', a name. */
static int check_line(struct verify *v, const char *dir, const char *line, struct err *e) {
    char hex[65];
    const char *name = line + 66;
    if (strlen(line) < 67 || strspn(line, "0123456789abcdefABCDEF") != 64 || line[64] != ' ' ||
        os_is_absolute(name) || leaves_folder(name)) {
        err_set(e, ERR_DATA, "\"%.80s\" is not a line of checksums", line);
        return finding(v, "manifest", ERR_DATA, e);
    }
    char *path = io_join(dir, name);
    int rc;
    if (!io_exists(path)) {
        rc = finding(v, path, err_set(e, ERR_DATA, "%s is in the manifest but missing", name), e);
    } else {
        rc = sha256_file(path, hex, e);
        if (!rc && strncasecmp(hex, line, 64) != 0)
            rc = finding(
                v, path,
                err_set(e, ERR_DATA, "%s differs from its checksum; download it again", name), e);
        v->n_files++;
    }
    free(path);
    return rc;
}

/* Returns whether the line of checksums is for this file of the folder; NULL: for any file. */
static bool is_line_of(const char *line, const char *file) {
    const char *name = strlen(line) > 66 ? line + 66 : "";
    if (name[0] == '.' && os_is_slash(name[1])) name += 2;
    return !file || strcmp(name, file) == 0;
}

/* Verifies the files that a list of checksums names; `file` must be one of them, unless it is
 * NULL. */
static int verify_manifest(struct verify *v, const char *dir, const char *manifest,
                           const char *file, struct err *e) {
    char *text, *save;
    size_t len;
    bool listed = false;
    int rc = 0;
    TRY(io_read_file(&text, &len, manifest, 16 << 20, e));
    for (char *line = strtok_r(text, "\r\n", &save); line && !rc;
         line = strtok_r(NULL, "\r\n", &save)) {
        listed = listed || is_line_of(line, file);
        rc = check_line(v, dir, line, e);
    }
    free(text);
    if (rc || listed) return rc;
    rc = file ? err_set(e, ERR_DATA, "%s: has no checksum of %s", manifest, file)
              : err_set(e, ERR_DATA, "%s: has no checksums", manifest);
    return finding(v, manifest, rc, e);
}

/* Verifies a file or folder; manifest: a list of checksums, or NULL. */
static int verify_path(struct verify *v, const char *path, const char *manifest, struct err *e) {
    if (!io_is_dir(path)) {
        TRY(verify_file(v, path, e));
        if (!manifest) return 0;
        size_t n = (size_t)(io_base(path) - path);
        char *dir = n ? xstrndup(path, n) : xstrdup(".");
        int rc = verify_manifest(v, dir, manifest, io_base(path), e);
        free(dir);
        return rc;
    }
    struct io_names all;
    int rc = io_list(&all, path, e);
    bool gguf = false, hf = false, sums = false;
    for (int i = 0; i < all.n; i++) {
        gguf = gguf || str_ends(all.v[i], ".gguf");
        hf = hf || strcmp(all.v[i], "config.json") == 0;
        sums = sums || strcmp(all.v[i], "SHA256SUMS") == 0;
    }
    char *own = io_join(path, "SHA256SUMS");
    if (!manifest && sums) manifest = own;
    /* A published folder may contain a copy of the original's config.json. */
    if (!rc) rc = hf && !gguf ? verify_hf(v, path, e) : verify_files(v, path, &all, e);
    if (!rc && manifest) rc = verify_manifest(v, path, manifest, NULL, e);
    if (!rc && !v->n_files && !v->n_findings)
        rc = err_set(e, ERR_USAGE, "%s: nothing to verify in this folder", path);
    free(own);
    io_names_release(&all);
    return rc;
}

int verify_run(const struct verify_opts *o, struct emit *m, struct err *e) {
    struct verify v = {.deep = o->deep};
    int rc = verify_path(&v, o->path, o->manifest, e);
    if (!rc) {
        emit_report(m, &v);
        if (v.n_findings)
            rc = err_set(e, ERR_VERDICT, "%lld finding%s: %s", (long long)v.n_findings,
                         v.n_findings == 1 ? "" : "s", v.first);
    }
    for (int64_t i = 0; i < v.n_findings; i++) {
        free(v.finding[i].file);
        free(v.finding[i].text);
    }
    free(v.finding);
    return rc;
}
