// SPDX-License-Identifier: MIT
/* jobs/inspect.c - hone inspect: description of a file or folder from its headers.
 *
 * Recognizes GGUF files and split sets, Hugging Face folders, single safetensors files, importance
 * matrices and base-logits files by content, not by name. Never reads tensor data. */
#include <stdlib.h>
#include <string.h>

#include "jobs/inspect.h"
#include "work/kv_text.h"
#include "base/buf.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "convert/convert.h"
#include "quantize/imat_file.h"
#include "base/io.h"
#include "base/map.h"
#include "base/mem.h"
#include "runtime/measure/kld_file.h"
#include "runtime/measure/kld_file_top.h"
#include "containers/safetensors.h"
#include "base/str.h"
#include "runtime/engine/model.h"
#include "template/chat_ends.h"

/* ---- counting by type ------------------------------------------------------------------------ */

struct per_type {
    const char *name; /* tensor type; NULL: unused row */
    int64_t n, n_elems;
    uint64_t n_bytes;
};
struct totals {
    struct per_type type[QT_COUNT + ST_COUNT];
    int n_types;
    int64_t n, n_elems;
    uint64_t n_bytes;
};

/* Adds a tensor to the totals, overall and by type. */
static void count_tensor(struct totals *t, const char *name, int64_t n_elems, uint64_t n_bytes) {
    int i = 0;
    while (i < t->n_types && strcmp(t->type[i].name, name) != 0) i++;
    if (i == t->n_types) t->type[t->n_types++].name = name;
    t->type[i].n++;
    t->type[i].n_elems += n_elems;
    t->type[i].n_bytes += n_bytes;
    t->n++;
    t->n_elems += n_elems;
    t->n_bytes += n_bytes;
}

/* Returns the bits per weight; 0 if there are no weights. */
static double bits_per_weight(uint64_t n_bytes, int64_t n_elems) {
    return n_elems ? 8.0 * (double)n_bytes / (double)n_elems : 0.0;
}

/* Adds the numbers of parameters and tensors, the size, and bits per weight. */
static void emit_totals(struct emit *m, const struct totals *t, uint64_t file_bytes) {
    char size[48];
    emit_fmt_bytes(size, file_bytes);
    emit_i64(m, "n_params", "parameters", t->n_elems);
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)file_bytes);
    emit_i64(m, "tensor_bytes", NULL, (int64_t)t->n_bytes);
    emit_num(m, "bpw", "bits per weight", bits_per_weight(t->n_bytes, t->n_elems), 4);
    emit_i64(m, "n_tensors", "tensors", t->n);
}

/* Adds the table of tensors and bytes by type. */
static void emit_types(struct emit *m, const struct totals *t) {
    emit_table(m, "types", "types");
    emit_col(m, "type", "type");
    emit_col(m, "n_tensors", "tensors");
    emit_col(m, "n_params", "parameters");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "bpw", "bits");
    emit_col(m, "share_pct", "% of bytes");
    for (int i = 0; i < t->n_types; i++) {
        const struct per_type *p = &t->type[i];
        emit_row(m);
        emit_cell_str(m, p->name);
        emit_cell_i64(m, p->n);
        emit_cell_i64(m, p->n_elems);
        emit_cell_i64(m, (int64_t)p->n_bytes);
        emit_cell_num(m, bits_per_weight(p->n_bytes, p->n_elems), 4);
        emit_cell_num(m, t->n_bytes ? 100.0 * (double)p->n_bytes / (double)t->n_bytes : 0.0, 2);
    }
}

/* Begins the table of tensors and adds its columns. */
static void begin_tensors(struct emit *m) {
    emit_table(m, "tensors", "tensors");
    emit_col(m, "name", "name");
    emit_col(m, "type", "type");
    emit_col(m, "shape", "shape");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "file", NULL);
}
/* Adds a tensor's row; dim: its n dimensions; file: index of its shard, from 0. */
static void emit_tensor(struct emit *m, const char *name, const char *type, const int64_t *dim,
                        int n, uint64_t n_bytes, int file) {
    struct buf shape = {0};
    for (int i = 0; i < n; i++) buf_fmt(&shape, "%s%lld", i ? " x " : "", (long long)dim[i]);
    emit_row(m);
    emit_cell_str(m, name);
    emit_cell_str(m, type);
    emit_cell_str(m, n ? shape.data : "scalar");
    emit_cell_i64(m, (int64_t)n_bytes);
    emit_cell_i64(m, file);
    buf_release(&shape);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Adds the table of metadata; nothing with --keys none. */
static void emit_keys(struct emit *m, const struct gguf *g, const struct inspect_opts *a) {
    struct buf v = {0};
    if (strcmp(a->keys, "none") == 0) return;
    emit_table(m, "keys", "metadata");
    emit_col(m, "key", "key");
    emit_col(m, "type", "type");
    emit_col(m, "value", "value");
    for (int64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        char type[32];
        kv_type(type, kv);
        kv_value(&v, kv, strcmp(a->keys, "all") == 0);
        emit_row(m);
        emit_cell_str(m, kv->key);
        emit_cell_str(m, type);
        emit_cell_str(m, v.data);
    }
    buf_release(&v);
}

/* ---- one function per kind of file ----------------------------------------------------------- */

/* Emits whether hone can run the model, and if not, the reason. */
static void emit_computes(struct emit *m, struct gguf *g) {
    const size_t n = strlen(gguf_path(g));
    struct err why;
    if (strcmp(gguf_str_or(g, "general.type", "model"), "model") != 0) return;
    const bool can = model_computes(g, &why) == 0;
    emit_bool(m, "computes", NULL, can);
    if (can) return;
    const char *text =
        strncmp(why.msg, gguf_path(g), n) == 0 && why.msg[n] == ':' ? why.msg + n + 2 : why.msg;
    emit_str(m, "computes_not", "not run or measured", text);
}

/* Finds the tokens that end an answer from the file's metadata keys and well-known token texts and,
 * if the tokenizer loads, by rendering the chat template. Returns 0, or an error if the keys cannot
 * be read. */
static int find_ends(const struct gguf *g, struct ids *out) {
    struct tok *t;
    struct err ignored;
    if (tok_from_gguf(&t, g, &ignored)) return tok_gguf_ends(g, out, &ignored);
    chat_find_ends_gguf(g, t);
    for (int64_t i = 0; i < tok_n_vocab(t); i++)
        if (tok_is_eog(t, i)) ids_add(out, (int32_t)i);
    tok_free(t);
    return 0;
}

/* Emits the tokens that end an answer. */
static void emit_ends(struct emit *m, const struct gguf *g) {
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.tokens");
    struct ids ends = {0};
    if (!kv || find_ends(g, &ends)) return;
    emit_table(m, "ends", "ends of answers");
    emit_col(m, "id", "token");
    emit_col(m, "text", "text");
    const uint8_t *pos = kv->data;
    for (int64_t i = 0, k = 0; k < ends.n; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(kv, &pos, &s, &len);
        if (i != ends.v[k]) continue;
        char *text = xstrndup(s, (size_t)len);
        emit_row(m);
        emit_cell_i64(m, ends.v[k++]);
        emit_cell_str(m, text);
        free(text);
    }
    ids_release(&ends);
}

/* Adds everything that a GGUF file's headers contain. */
static void inspect_gguf(struct emit *m, struct gguf *g, const struct inspect_opts *a) {
    struct totals t = {0};
    const char *arch = gguf_str_or(g, "general.architecture", NULL);
    uint64_t ftype = gguf_u64_or(g, "general.file_type", UINT64_MAX);
    const char *ftype_name = ftype < INT64_MAX ? qtype_ftype_name((int64_t)ftype) : NULL;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *x = gguf_tensor_at(g, i);
        count_tensor(&t, qtype_name(x->type), x->ne[0] * x->ne[1] * x->ne[2] * x->ne[3],
                     x->n_bytes);
    }
    emit_str(m, "kind", "kind", gguf_str_or(g, "general.type", "model"));
    emit_str(m, "format", "format", "GGUF");
    emit_i64(m, "version", NULL, gguf_version(g));
    emit_i64(m, "alignment", NULL, (int64_t)gguf_alignment(g));
    emit_str(m, "name", "name", gguf_str_or(g, "general.name", "-"));
    emit_str(m, "arch", "architecture", arch ? arch : "-");
    emit_computes(m, g);
    emit_str(m, "file_type", "file type", ftype_name ? ftype_name : "-");
    emit_totals(m, &t, gguf_file_bytes(g));
    emit_i64(m, "n_files", gguf_n_shards(g) > 1 ? "files" : NULL, gguf_n_shards(g));
    emit_i64(m, "n_keys", "metadata keys", gguf_n_kv(g));
    emit_types(m, &t);
    emit_ends(m, g);
    emit_keys(m, g, a);
    if (!a->tensors) return;
    begin_tensors(m);
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *x = gguf_tensor_at(g, i);
        emit_tensor(m, x->name, qtype_name(x->type), x->ne, x->n_dims, x->n_bytes, x->shard);
    }
}

/* Reads the number of layers from config.json; 0 if it is missing. */
static int count_layers(struct hfdir *h, int64_t *n, struct err *e) {
    config_complete(h);
    const struct json *j = hfdir_hparam(h, "num_hidden_layers|n_layers|n_layer|num_layers");
    *n = 0;
    return !j || (json_i64(j, n) && *n >= 1 && *n <= 1 << 20)
               ? 0
               : err_set(e, ERR_DATA, "%s/config.json: num_hidden_layers is not a number of layers",
                         hfdir_path(h));
}

/* Describes a Hugging Face folder. */
static int inspect_dir(struct emit *m, const char *path, const struct inspect_opts *a,
                       struct err *e) {
    struct hfdir *h;
    struct totals t = {0};
    uint64_t size = 0;
    int64_t layers;
    TRY(hfdir_open(&h, path, e));
    if (count_layers(h, &layers, e)) {
        hfdir_close(h);
        return (int)e->code;
    }
    for (int64_t i = 0; i < hfdir_n_tensors(h); i++) {
        const struct st_tensor *x = hfdir_tensor_at(h, i);
        count_tensor(&t, st_dtype_name(x->dtype), x->n_elems, x->n_bytes);
    }
    for (int i = 0; i < hfdir_n_files(h); i++) size += st_file_bytes(hfdir_file(h, i));
    const char *arch = json_str(json_first(hfdir_hparam(h, "architectures")));
    emit_str(m, "kind", "kind", "model");
    emit_str(m, "format", "format", "Hugging Face folder");
    emit_str(m, "name", "name", hfdir_base(h));
    emit_str(m, "arch", "architecture", arch ? arch : "-");
    const char *cls;
    const struct arch *known = convert_arch(h, &cls);
    emit_bool(m, "computes", NULL, known && known->decoder);
    if (!known)
        emit_str(m, "computes_not", "not converted",
                 "unknown class (`hone doctor --models` lists the known ones)");
    else if (!known->decoder)
        emit_str(m, "computes_not", "not run or measured", "conversion and quantization only");
    emit_totals(m, &t, size);
    emit_i64(m, "n_files", "files", hfdir_n_files(h));
    emit_i64(m, "n_layers", "layers", layers);
    emit_types(m, &t);
    if (a->tensors) {
        begin_tensors(m);
        for (int64_t i = 0; i < hfdir_n_tensors(h); i++) {
            const struct st_tensor *x = hfdir_tensor_at(h, i);
            emit_tensor(m, x->name, st_dtype_name(x->dtype), x->shape, x->n_dims, x->n_bytes,
                        x->file);
        }
    }
    hfdir_close(h);
    return 0;
}

/* Returns whether a file is a later shard of a set: "x-00002-of-00003.gguf". */
static bool is_later_shard(const char *name) {
    int i, n;
    size_t len;
    return gguf_split_parse(name, &i, &n, &len) && i != 0;
}

/* Writes the row of a GGUF file in a folder. */
static int emit_gguf_row(struct emit *m, const char *dir, const char *name, struct err *e) {
    struct gguf *g;
    char *path = io_join(dir, name);
    int rc = gguf_open(&g, path, GGUF_TOLERANT, e);
    free(path);
    TRY(rc);
    uint64_t ftype = gguf_u64_or(g, "general.file_type", UINT64_MAX), n_bytes = gguf_file_bytes(g);
    const char *ftype_name = ftype < INT64_MAX ? qtype_ftype_name((int64_t)ftype) : NULL;
    int64_t n_elems = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *x = gguf_tensor_at(g, i);
        n_elems += x->ne[0] * x->ne[1] * x->ne[2] * x->ne[3];
    }
    emit_row(m);
    emit_cell_str(m, name);
    emit_cell_str(m, gguf_str_or(g, "general.type", "model"));
    emit_cell_str(m, ftype_name ? ftype_name : "-");
    emit_cell_i64(m, (int64_t)n_bytes);
    emit_cell_num(m, (double)n_bytes / 0x1p30, 4);
    emit_cell_num(m, bits_per_weight(n_bytes, n_elems), 2);
    emit_cell_i64(m, n_elems);
    gguf_close(g);
    return 0;
}

/* Emits a row per GGUF file of a folder. *found: the folder has GGUF files and no safetensors
 * files. */
static int inspect_ggufs(struct emit *m, const char *path, bool *found, struct err *e) {
    struct io_names all;
    int rc = io_list(&all, path, e), n = 0;
    bool weights = false;
    for (int i = 0; i < all.n; i++) {
        n += str_ends(all.v[i], ".gguf");
        weights = weights || str_ends(all.v[i], ".safetensors");
    }
    *found = n > 0 && !weights;
    if (!rc && *found) {
        emit_str(m, "kind", "kind", "folder");
        emit_str(m, "format", "format", "GGUF files");
        emit_i64(m, "n_files", "files", n);
        emit_table(m, "files", "files");
        emit_col(m, "file", "file");
        emit_col(m, "kind", "kind");
        emit_col(m, "file_type", "file type");
        emit_col(m, "size_bytes", "bytes");
        emit_col(m, "size_gib", "GiB");
        emit_col(m, "bpw", "bits");
        emit_col(m, "n_params", "parameters");
    }
    for (int i = 0; i < all.n && !rc && *found; i++)
        if (str_ends(all.v[i], ".gguf") && !is_later_shard(all.v[i]))
            rc = emit_gguf_row(m, path, all.v[i], e);
    io_names_release(&all);
    return rc;
}

/* Adds everything that a safetensors file's header contains. */
static int inspect_safetensors(struct emit *m, const char *path, const struct inspect_opts *a,
                               struct err *e) {
    struct st *s;
    struct totals t = {0};
    TRY(st_open(&s, path, e));
    for (int64_t i = 0; i < st_n_tensors(s); i++) {
        const struct st_tensor *x = st_tensor_at(s, i);
        count_tensor(&t, st_dtype_name(x->dtype), x->n_elems, x->n_bytes);
    }
    emit_str(m, "kind", "kind", "tensors");
    emit_str(m, "format", "format", "safetensors");
    emit_str(m, "name", "name", io_base(path));
    emit_totals(m, &t, st_file_bytes(s));
    emit_types(m, &t);
    if (a->tensors) {
        begin_tensors(m);
        for (int64_t i = 0; i < st_n_tensors(s); i++) {
            const struct st_tensor *x = st_tensor_at(s, i);
            emit_tensor(m, x->name, st_dtype_name(x->dtype), x->shape, x->n_dims, x->n_bytes, 0);
        }
    }
    st_close(s);
    return 0;
}

/* Describes an importance matrix. */
static int inspect_imat(struct emit *m, const char *path, const char *format, struct err *e) {
    struct imat im;
    TRY(imat_read(&im, path, e));
    emit_str(m, "kind", "kind", "importance matrix");
    emit_str(m, "format", "format", format);
    emit_i64(m, "n_chunks", "chunks", im.n_chunks);
    emit_i64(m, "chunk_size", "tokens per chunk", im.chunk_size);
    emit_i64(m, "n_entries", "entries", im.n_entries);
    emit_table(m, "datasets", im.n_datasets ? "texts" : NULL);
    emit_col(m, "name", "name");
    for (int i = 0; i < im.n_datasets; i++) {
        emit_row(m);
        emit_cell_str(m, im.dataset[i]);
    }
    emit_table(m, "entries", "entries");
    emit_col(m, "name", "name");
    emit_col(m, "ne0", "columns");
    emit_col(m, "n_mat", "matrices");
    emit_col(m, "n_tokens", "tokens");
    emit_col(m, "min_tokens", "least");
    emit_col(m, "n_unseen", "unseen");
    for (int64_t i = 0; i < im.n_entries; i++) {
        const struct imat_entry *en = &im.entry[i];
        double sum = 0, min = en->count[0];
        int64_t unseen = 0;
        for (int64_t k = 0; k < en->n_mat; k++) {
            sum += en->count[k];
            if (en->count[k] < min) min = en->count[k];
            unseen += en->count[k] <= 0;
        }
        emit_row(m);
        emit_cell_str(m, en->name);
        emit_cell_i64(m, en->ne0);
        emit_cell_i64(m, en->n_mat);
        emit_cell_num(m, sum, 0);
        emit_cell_num(m, min, 0);
        emit_cell_i64(m, unseen);
    }
    imat_release(&im);
    return 0;
}

/* Describes what base-logits files of both formats have. */
static int emit_base_logits(struct emit *m, const char *path, const char *format, int32_t n_ctx,
                            int32_t n_chunks, int32_t n_vocab, struct err *e) {
    char size[48];
    uint64_t n = 0;
    TRY(io_file_size(path, &n, e));
    emit_fmt_bytes(size, n);
    emit_str(m, "kind", "kind", "base logits");
    emit_str(m, "format", "format", format);
    emit_i64(m, "ctx", "tokens per chunk", n_ctx);
    emit_i64(m, "n_chunks", "chunks", n_chunks);
    emit_i64(m, "n_vocab", "vocabulary", n_vocab);
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)n);
    return 0;
}

/* Describes a base-logits file. */
static int inspect_kld(struct emit *m, const char *path, struct err *e) {
    struct kld_r *r;
    TRY(kld_r_open(&r, path, e));
    const int rc =
        emit_base_logits(m, path, "_logits_", kld_r_ctx(r), kld_r_chunks(r), kld_r_vocab(r), e);
    kld_r_close(r);
    return rc;
}

/* Describes a compact base-logits file. */
static int inspect_kld_top(struct emit *m, const char *path, struct err *e) {
    struct kld_top_r *r;
    TRY(kld_top_r_open(&r, path, e));
    const struct kld_top_shape *sh = kld_top_r_shape(r);
    const int rc = emit_base_logits(m, path, "hone_kld", sh->n_ctx, sh->n_chunk, sh->n_vocab, e);
    emit_i64(m, "from", "first scored row", sh->from);
    emit_i64(m, "n_top", "tokens per row", sh->n_top);
    emit_i64(m, "n_tail", "samples per row", sh->n_tail);
    kld_top_r_close(r);
    return rc;
}

/* Describes a GGUF file: a model or an importance matrix. */
static int inspect_gguf_file(struct emit *m, const char *path, const struct inspect_opts *a,
                             struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, GGUF_TOLERANT, e));
    bool imat = strcmp(gguf_str_or(g, "general.type", ""), "imatrix") == 0;
    if (!imat) inspect_gguf(m, g, a);
    gguf_close(g);
    return imat ? inspect_imat(m, path, "GGUF", e) : 0;
}

int inspect_run(const struct inspect_opts *a, struct emit *m, struct err *e) {
    const char *path = a->path, *k = a->keys;
    if (strcmp(k, "short") != 0 && strcmp(k, "all") != 0 && strcmp(k, "none") != 0)
        return err_set(e, ERR_USAGE, "inspect: --keys is short, all or none, not '%s'", k);
    struct map f;
    char head[9] = {0};
    if (io_is_dir(path)) {
        bool ggufs = false;
        TRY(inspect_ggufs(m, path, &ggufs, e));
        return ggufs ? 0 : inspect_dir(m, path, a, e);
    }
    TRY(map_open(&f, path, e));
    if (f.size >= 9) memcpy(head, f.data, 9);
    map_close(&f);
    if (memcmp(head, "GGUF", 4) == 0) return inspect_gguf_file(m, path, a, e);
    if (memcmp(head, "_logits_", 8) == 0) return inspect_kld(m, path, e);
    if (kld_top_is(path)) return inspect_kld_top(m, path, e);
    if (head[8] == '{' || strstr(io_base(path), ".safetensors"))
        return inspect_safetensors(m, path, a, e);
    if (inspect_imat(m, path, "dat", e))
        return err_set(
            e, ERR_DATA,
            "%s is not a GGUF or safetensors file, importance matrix, base-logits file or "
            "model folder, or its beginning is damaged",
            path);
    return 0;
}
