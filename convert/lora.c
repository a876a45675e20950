// SPDX-License-Identifier: MIT
/* convert/lora.c - see lora.h. Adapter names are the module's name behind "base_model.model." with
 * ".lora_A.weight", ".lora_B.weight". Fused experts (peft's target_parameters) have no name of
 * their own: up to two nested wrappers of "...mlp.experts", told apart by their shapes. The rank is
 * that of the tensors. */
#include "convert/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/show.h"

struct lora {
    char *path;
    struct json *cfg;
    struct st *st;
    struct strmap *by_name;
    bool *used; /* [n] flags. */
    int64_t n;
    double alpha;
    bool rslora;
    struct arena arena; /* It holds names and deltas. */
};

#define SHOW(name) (show_n((name), strlen(name)).s)

/* Refuses settings that change the merged weights and are not computed here. */
static int check_config(const struct lora *l, struct err *e) {
    static const char *const off[] = {"use_dora",
                                      "lora_bias",
                                      "use_qalora",
                                      "use_bdlora",
                                      "kasa_config",
                                      "layer_replication",
                                      "trainable_token_indices"};
    const char *type = json_str(json_get(l->cfg, "peft_type"));
    if (!type || strcmp(type, "LORA") != 0)
        return err_set(e, ERR_DATA, "%s: peft_type is \"%.40s\", only LORA adapters can be merged",
                       l->path, type ? type : "");
    const char *bias = json_str(json_get(l->cfg, "bias"));
    if (bias && strcmp(bias, "none") != 0)
        return err_set(e, ERR_DATA, "%s: bias \"%.40s\" cannot be merged: these models have none",
                       l->path, bias);
    for (size_t i = 0; i < COUNT_OF(off); i++) {
        const struct json *j = json_get(l->cfg, off[i]);
        if (json_bool(j, false) || json_type(j) == JSON_OBJ || json_type(j) == JSON_ARR)
            return err_set(e, ERR_DATA,
                           "%s: %s is not supported: merge the adapter with peft and convert the "
                           "result",
                           l->path, off[i]);
    }
    const struct json *pattern = json_get(l->cfg, "alpha_pattern");
    if (pattern && json_type(pattern) != JSON_OBJ && json_type(pattern) != JSON_NULL)
        return err_set(e, ERR_DATA, "%s: alpha_pattern is not an object of names and numbers",
                       l->path);
    for (const struct json *j = json_first(pattern); j; j = json_next(j))
        if (strpbrk(json_name(j), "\\^$*+?()[]{}|"))
            return err_set(e, ERR_DATA, "%s: alpha_pattern \"%.80s\" is more than a name", l->path,
                           json_name(j));
    return 0;
}

/* Returns the name of the base's tensor: "base_model.model.model.language_model.layers..." becomes
 * "model.layers...". */
static const char *plain_name(struct lora *l, const char *name) {
    static const char head[] = "base_model.model.", part[] = "language_model.";
    if (strncmp(name, head, sizeof head - 1) == 0) name += sizeof head - 1;
    const char *at = strstr(name, part);
    if (!at || (at != name && at[-1] != '.')) return name;
    size_t n = (size_t)(at - name), tail = strlen(at + sizeof part - 1);
    char *out = arena_alloc(&l->arena, n + tail + 1);
    memcpy(out, name, n);
    memcpy(out + n, at + sizeof part - 1, tail + 1);
    return out;
}

static int open_tensors(struct lora *l, const char *dir, struct err *e) {
    char *path = xasprintf("%s/adapter_model.safetensors", dir);
    int rc = st_open(&l->st, path, e);
    free(path);
    if (rc) return rc;
    l->n = st_n_tensors(l->st);
    l->by_name = strmap_new((size_t)l->n);
    l->used = xcalloc((size_t)l->n + 1, sizeof *l->used);
    for (int64_t i = 0; i < l->n; i++) {
        const struct st_tensor *t = st_tensor_at(l->st, i);
        const char *name = plain_name(l, t->name);
        if (t->dtype != ST_F32 && t->dtype != ST_F16 && t->dtype != ST_BF16)
            return err_set(e, ERR_DATA, "%s: tensor %s has dtype %s", st_path(l->st), SHOW(t->name),
                           st_dtype_name(t->dtype));
        if (!strmap_add(l->by_name, name, strlen(name), i))
            return err_set(e, ERR_DATA, "%s: tensor %s is there twice", st_path(l->st),
                           SHOW(t->name));
    }
    return 0;
}

int lora_open(struct lora **out, const char *dir, struct err *e) {
    struct lora *l = xcalloc(1, sizeof *l);
    arena_init(&l->arena);
    l->path = xasprintf("%s/adapter_config.json", dir);
    int rc = json_read_py(&l->cfg, l->path, 1 << 20, e);
    if (!rc) rc = check_config(l, e);
    if (!rc) rc = open_tensors(l, dir, e);
    if (rc) {
        lora_close(l);
        return rc;
    }
    l->alpha = json_num(json_get(l->cfg, "lora_alpha"), 8);
    l->rslora = json_bool(json_get(l->cfg, "use_rslora"), false);
    *out = l;
    return 0;
}

void lora_close(struct lora *l) {
    if (!l) return;
    st_close(l->st);
    strmap_free(l->by_name);
    json_free(l->cfg);
    arena_release(&l->arena);
    free(l->used);
    free(l->path);
    free(l);
}

/* ---- binding ---- */

static int64_t find(const struct lora *l, const char *stem, size_t len, const char *tail) {
    char name[DQ_NAME];
    size_t k = strlen(tail);
    if (len + k >= sizeof name) return -1;
    memcpy(name, stem, len);
    memcpy(name + len, tail, k + 1);
    return strmap_get(l->by_name, name, len + k);
}

/* Returns alpha of the module stem[len]: that of the name in alpha_pattern that it equals or ends
 * with, else the common one. */
static double alpha_of(const struct lora *l, const char *stem, size_t len) {
    for (const struct json *j = json_first(json_get(l->cfg, "alpha_pattern")); j;
         j = json_next(j)) {
        size_t n = strlen(json_name(j));
        if (n <= len && memcmp(stem + len - n, json_name(j), n) == 0 &&
            (n == len || stem[len - n - 1] == '.'))
            return json_num(j, l->alpha);
    }
    return l->alpha;
}

static bool is_matrix(const struct st_tensor *t, int64_t rows, int64_t cols) {
    return t->n_dims == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

/* Takes tensors i (A) and j (B) for q. */
static void take(struct lora *l, struct dq *q, int64_t i, int64_t j, struct lora_delta d,
                 double alpha) {
    struct lora_delta *out = arena_alloc(&l->arena, sizeof *out);
    l->used[i] = l->used[j] = true;
    d.a = st_tensor_at(l->st, i);
    d.b = st_tensor_at(l->st, j);
    d.scale = (float)(alpha / (l->rslora ? sqrt((double)d.rank) : (double)d.rank));
    *out = d;
    q->delta = out;
}

static int bad_pair(const struct lora *l, int64_t i, struct err *e) {
    return err_set(e, ERR_DATA,
                   "%s: %s does not fit the model: the adapter was made for another one",
                   st_path(l->st), SHOW(st_tensor_at(l->st, i)->name));
}

/* Binds the two matrices of one module, a linear layer or an embedding. */
static int bind_module(struct lora *l, const char *stem, size_t len, struct dq *q, struct err *e) {
    bool emb = false;
    int64_t i = find(l, stem, len, ".lora_A.weight"), j = find(l, stem, len, ".lora_B.weight");
    if (i < 0 || j < 0) {
        emb = true;
        i = find(l, stem, len, ".lora_embedding_A");
        j = find(l, stem, len, ".lora_embedding_B");
    }
    if (i < 0 || j < 0) return 0;
    const struct st_tensor *a = st_tensor_at(l->st, i), *b = st_tensor_at(l->st, j);
    int64_t r = a->n_dims == 2 ? a->shape[0] : 0;
    if (q->mats != 1 || r < 1 || !is_matrix(a, r, emb ? q->rows : q->cols) ||
        !is_matrix(b, emb ? q->cols : q->rows, r))
        return bad_pair(l, i, e);
    take(l, q, i, j, (struct lora_delta){.rank = r, .n_experts = 1, .expert = -1, .embedding = emb},
         alpha_of(l, stem, len));
    return 0;
}

/* Binds the matrices of fused experts, "....mlp.experts.gate_up_proj", also to a part
 * "....mlp.experts.7.up_proj.weight" of them in a checkpoint that stores experts one by one. */
static void bind_experts(struct lora *l, const char *name, int64_t n_experts, struct dq *q) {
    static const char *const wrap[] = {".lora_A.weight", ".base_layer.lora_A.weight"};
    const char *at = strstr(name, ".mlp.experts.");
    if (!at || n_experts < 1) return;
    size_t len = (size_t)(at - name) + strlen(".mlp.experts");
    char *rest;
    int64_t expert = strtoll(name + len + 1, &rest, 10);
    bool single = rest != name + len + 1, down = strstr(rest, "down_proj") != NULL;
    int64_t rows = single && !down ? 2 * q->rows : q->rows;
    for (size_t w = 0; w < COUNT_OF(wrap); w++) {
        char tail[40];
        snprintf(tail, sizeof tail, "%s", wrap[w]);
        int64_t i = find(l, name, len, tail);
        char *ab = strstr(tail, "lora_A");
        if (i < 0 || !ab) continue;
        ab[5] = 'B';
        int64_t j = find(l, name, len, tail);
        if (j < 0) continue;
        const struct st_tensor *a = st_tensor_at(l->st, i);
        int64_t r = a->n_dims == 2 ? a->shape[0] / n_experts : 0;
        if (r < 1 || !is_matrix(a, r * n_experts, q->cols) ||
            !is_matrix(st_tensor_at(l->st, j), rows, r * n_experts))
            continue;
        struct lora_delta d = {.rank = r, .n_experts = n_experts, .expert = single ? expert : -1};
        if (single && strstr(rest, "up_proj")) d.row0 = q->rows;
        take(l, q, i, j, d, alpha_of(l, name, len));
        return;
    }
}

/* Binds weights that were trained as a whole: they take the place of the stored ones. */
static int bind_whole(struct lora *l, const char *name, size_t len, struct dq *q, struct err *e) {
    int64_t i = strmap_get(l->by_name, name, strlen(name));
    if (i < 0) i = find(l, name, len, ".base_layer.weight");
    if (i < 0) return 0;
    const struct st_tensor *t = st_tensor_at(l->st, i), *old = q->part[0];
    int64_t n = q->mats * q->rows * q->cols; /* It cannot overflow, since it was fitted before. */
    if (!dq_is_plain(q) || t->n_elems != n || t->n_dims != old->n_dims) return bad_pair(l, i, e);
    for (int d = 0; d < t->n_dims; d++)
        if (t->shape[d] != old->shape[d]) return bad_pair(l, i, e);
    l->used[i] = true;
    q->part[0] = t;
    q->foreign = true;
    return 0;
}

int lora_bind(struct lora *l, const char *name, int64_t n_experts, struct dq *q, struct err *e) {
    size_t len = strlen(name);
    if (len > 7 && strcmp(name + len - 7, ".weight") == 0) len -= 7;
    TRY(bind_whole(l, name, len, q, e));
    if (q->part[0]->n_dims < 2 && dq_is_plain(q)) return 0;
    TRY(bind_module(l, name, len, q, e));
    if (!q->delta) bind_experts(l, name, n_experts, q);
    return 0;
}

int lora_all_used(const struct lora *l, struct err *e) {
    for (int64_t i = 0; i < l->n; i++)
        if (!l->used[i])
            return err_set(e, ERR_DATA,
                           "%s: tensor %s changes nothing that is converted: the adapter was made "
                           "for another model, or trains parts that are left out",
                           st_path(l->st), SHOW(st_tensor_at(l->st, i)->name));
    return 0;
}

/* ---- adding ---- */

static float at(const struct st_tensor *t, int64_t i) {
    float v = 0;
    struct err ignored; /* The shapes were checked when it was bound. */
    return st_to_f32(t, i, 1, &v, &ignored) ? 0 : v;
}

void lora_add(const struct lora_delta *d, int64_t mat, int64_t row, int64_t cols, float *dst,
              float *sum, float *tmp) {
    int64_t x = d->expert < 0 ? mat : d->expert, rows = d->embedding ? d->a->shape[1] : 0;
    struct err ignored;
    memset(sum, 0, (size_t)cols * sizeof *sum);
    for (int64_t k = 0; k < d->rank; k++) {
        if (d->embedding) {
            float a = at(d->a, k * rows + row);
            for (int64_t i = 0; i < cols; i++) sum[i] += a * at(d->b, i * d->rank + k);
            continue;
        }
        float b = d->n_experts > 1 ? at(d->b, ((d->row0 + row) * d->rank + k) * d->n_experts + x)
                                   : at(d->b, row * d->rank + k);
        int64_t first = (d->n_experts > 1 ? x * d->rank + k : k) * cols;
        if (st_to_f32(d->a, first, cols, tmp, &ignored)) return;
        for (int64_t i = 0; i < cols; i++) sum[i] += b * tmp[i];
    }
    for (int64_t i = 0; i < cols; i++) dst[i] += sum[i] * d->scale;
}
