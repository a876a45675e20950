// SPDX-License-Identifier: MIT
/* tests/unit/test_tower.c - embeddings of vision towers compared with those of transformers
 * (tests/oracle/tower_embeddings.py): every golden tower is converted to F32 by our converter and
 * run for two grids, on every kernel set, with the same bits for 1 and 3 threads. Then tests
 * different weight types, and files with missing, foreign or wrong tensors and keys. */
#include "runtime/vision/tower.h"

#include "containers/gguf.h"
#include "convert/mmproj.h"
#include "tests/unit/golden.h"

static const char golden[] = "tests/golden/towers/embeddings.safetensors";
static const struct {
    const char *name, *folder;
} towers[] = {
    {"qwen35", "models/qwen35"},
    {"qwen3vlmoe", "towers/qwen3vlmoe"},
    {"qwen25vl", "towers/qwen25vl"},
    {"qwen2vl", "towers/qwen2vl"},
    {"gemma3", "towers/gemma3"},
    {"gemma4moe", "models/gemma4moe"},
    {"gemma4", "mmproj/gemma4"},
    {"gemma4u", "towers/gemma4u"},
    {"pixtral", "towers/pixtral"},
    {"mistral3", "towers/mistral3"},
    {"smolvlm", "towers/smolvlm"},
    {"internvl", "towers/internvl"},
    {"internvl", "towers/internvl-hf"},
    {"internvl6b", "towers/internvl6b"},
    {"internvl6b", "towers/internvl6b-hf"},
    {"lfm2vl", "towers/lfm2vl"},
    {"glm4v", "towers/glm4v"},
    {"kimivl", "towers/kimivl"},
    {"minicpmv", "towers/minicpmv"},
};

static void convert(const char *folder, const char *type) {
    struct err e;
    struct mmproj_report r;
    struct convert_opts o = {.src = folder, .type = type, .overwrite = true};
    CHECK_OK(mmproj_run(&o, tmp_path("mm.gguf"), &r, &e));
}

/* The pixels of the oracle. */
static float *pixels(int w, int h) {
    float *p = xcalloc((size_t)(3 * w * h), sizeof *p);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                p[(c * h + y) * w + x] =
                    (float)((c * 7919 + y * 31 + x * 17 + 3 * x * y) % 509) / 254 - 1;
    return p;
}

static struct vision_rows encode(const struct vision_tower *v, int w, int h) {
    struct err e;
    struct vision_rows out = {0};
    const struct vision_params *params = vision_params(v);
    const int p = params->patch * (params->type == PROJ_GEMMA4U ? params->merge : 1);
    float *image = pixels(w * p, h * p);
    CHECK_OK(vision_encode(v, image, w * p, h * p, &out, &e));
    free(image);
    return out;
}

/* Returns the largest difference over the root mean square of the expected values. */
static double apart(const float *x, const float *want, int64_t n) {
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)x[i] - (double)want[i]);
        most = d > most || isnan(d) ? d : most;
        sum += (double)want[i] * (double)want[i];
    }
    return n ? most / sqrt(sum / (double)n) : HUGE_VAL;
}

/* Compares the embeddings of one grid, which the tensor NAME.WxH names; returns the error. */
static double compare(const struct st *s, const struct vision_tower *v, const char *name, int w,
                      int h) {
    struct vision_rows r = encode(v, w, h);
    double most = 0;
    for (int i = -1; i < r.n_deep; i++) {
        char tensor[64];
        int64_t n = 0;
        if (i < 0)
            snprintf(tensor, sizeof tensor, "%s.%dx%d", name, w, h);
        else
            snprintf(tensor, sizeof tensor, "%s.%dx%d.deep%d", name, w, h, i);
        float *want = golden_floats(s, tensor, &n);
        CHECK_EQ_I64(n, r.n * r.width);
        const double off =
            want && n == r.n * r.width ? apart(i < 0 ? r.data : r.deep + i * n, want, n) : HUGE_VAL;
        most = off > most ? off : most;
        free(want);
    }
    vision_rows_release(&r);
    return most;
}

/* Calls compare for every grid of a tower, of which there must be n; returns the largest error. */
static double compare_all(const struct st *s, const struct vision_tower *v, const char *name,
                          int n) {
    double most = 0;
    int grids = 0;
    const size_t len = strlen(name);
    for (int64_t i = 0; i < st_n_tensors(s); i++) {
        const char *t = st_tensor_at(s, i)->name;
        int w, h, end = 0;
        if (strncmp(t, name, len) != 0 || t[len] != '.') continue;
        if (sscanf(t + len, ".%dx%d%n", &w, &h, &end) != 2 || t[len + (size_t)end]) continue;
        const double off = compare(s, v, name, w, h);
        most = off > most ? off : most;
        grids++;
    }
    CHECK_EQ_I64(grids, n);
    return most;
}

static struct vision_tower *open_tower(struct pool *pool, enum kern_isa isa) {
    struct err e;
    struct vision_tower *v = NULL;
    CHECK_OK(vision_open(&v, tmp_path("mm.gguf"), pool, isa, &e));
    return v;
}

/* With a file name as its argument, writes the errors there
 * (docs/results/tower-embeddings.json). */
static FILE *table;
static const char *wide; /* second argument: folder of towers of published widths; NULL: none */

/* Compares the n grids of the tower of mm.gguf on the kernel sets from `first` on. */
static void compare_isas(const struct st *s, const char *name, int n, const char *label,
                         int first) {
    if (table) fprintf(table, "\n  {\"tower\": \"%s\"", label);
    for (int isa = first; isa < KERN_ISA_COUNT; isa++) {
        const char *set = kern_isa_name((enum kern_isa)isa);
        if (!kern_isa_has((enum kern_isa)isa)) continue;
        struct vision_tower *v = open_tower(NULL, (enum kern_isa)isa);
        if (!v) continue;
        const double off = compare_all(s, v, name, n);
        if (table) fprintf(table, ", \"%s\": %.2g", set, off);
        if (!(off < 2e-4)) CHECK_FAIL("%s, %s: off by %.3g", label, set, off);
        vision_close(v);
    }
}

static void test_transformers(void) {
    const size_t n = sizeof towers / sizeof *towers;
    struct err e;
    struct st *s = NULL;
    CHECK_OK(st_open(&s, golden, &e));
    for (size_t i = 0; s && i < n; i++) {
        char folder[96];
        snprintf(folder, sizeof folder, "tests/golden/%s", towers[i].folder);
        convert(folder, "f32");
        compare_isas(s, towers[i].name, 2, towers[i].folder, KERN_REF);
        if (table) fprintf(table, i + 1 < n || wide ? "}," : "}");
    }
    st_close(s);
}

/* Towers of published widths, made by tower_embeddings.py --wide; not with the reference kernels,
 * which take minutes. */
static void test_wide(void) {
    static const char *const name[] = {"qwen3vl", "qwen25vl", "gemma3", "mistral3"};
    struct err e;
    struct st *s = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/embeddings.safetensors", wide);
    CHECK_OK(st_open(&s, path, &e));
    for (size_t i = 0; s && i < sizeof name / sizeof *name; i++) {
        char label[64];
        snprintf(path, sizeof path, "%s/%s", wide, name[i]);
        snprintf(label, sizeof label, "%s, published widths", name[i]);
        convert(path, "f32");
        compare_isas(s, name[i], 1, label, KERN_REF + 1);
        if (table) fprintf(table, i + 1 < sizeof name / sizeof *name ? "}," : "}");
    }
    st_close(s);
}

/* The same bits for any number of threads, with windows, deepstack and a class row. */
static void test_threads(void) {
    static const char *const folder[] = {"tests/golden/towers/qwen25vl",
                                         "tests/golden/towers/qwen3vlmoe",
                                         "tests/golden/towers/internvl"};
    struct err e;
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
        struct pool *pool = NULL;
        convert(folder[i], "bf16");
        CHECK_OK(pool_new(&pool, 3, &e));
        struct vision_tower *one = open_tower(NULL, KERN_REF), *three = open_tower(pool, KERN_REF);
        if (one && three) {
            struct vision_rows a = encode(one, 30, 34), b = encode(three, 30, 34);
            const size_t n = (size_t)(a.n * a.width * (1 + a.n_deep));
            CHECK(a.n == 15 * 17 && b.n == a.n && b.n_deep == a.n_deep);
            CHECK(memcmp(a.data, b.data, n * sizeof *a.data) == 0);
            vision_rows_release(&a);
            vision_rows_release(&b);
        }
        vision_close(one);
        vision_close(three);
        pool_free(pool);
    }
}

/* Compares a tower's file of one type with the golden embeddings; returns the error. */
static double error_of(const struct st *s, size_t i, const char *type) {
    char folder[96];
    snprintf(folder, sizeof folder, "tests/golden/%s", towers[i].folder);
    convert(folder, type);
    struct vision_tower *v = open_tower(NULL, kern_isa_best());
    const double off = v ? compare_all(s, v, towers[i].name, 2) : HUGE_VAL;
    vision_close(v);
    return off;
}

/* Golden weights are BF16 and of moderate size, so BF16 and F16 files keep their values. Q8_0
 * rounds: GLM's errors grow to 0.13. */
static void test_types(void) {
    static const struct {
        const char *type;
        double most; /* error */
    } row[] = {{"bf16", 2e-4}, {"f16", 2e-4}, {"q8_0", .2}};
    struct err e;
    struct st *s = NULL;
    CHECK_OK(st_open(&s, golden, &e));
    for (size_t i = 0; s && i < sizeof towers / sizeof *towers; i++)
        for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
            const double off = error_of(s, i, row[k].type);
            if (!(off < row[k].most))
                CHECK_FAIL("%s, %s: off by %.3g", towers[i].folder, row[k].type, off);
        }
    CHECK(error_of(s, 0, "q8_0") > 1e-4);
    st_close(s);
}

/* ---- refusals ---- */

struct edit {
    const char *from; /* key or tensor */
    const char *to;   /* new name; NULL: left out */
    int64_t n;        /* new number of a key; 0: as it was */
    int squeeze;      /* of a tensor: entries of the last dimension cut off */
};

static void copy_key(struct gguf_w *w, const struct gguf_kv *kv, const struct edit *x) {
    if (strcmp(kv->key, x->from) != 0)
        gguf_w_copy_kv(w, kv);
    else if (x->to)
        gguf_w_str(w, kv->key, x->to);
    else if (x->n)
        gguf_w_u32(w, kv->key, (uint32_t)x->n);
}

/* Copies mm.gguf to bad.gguf with one change. */
static void edit_file(const struct edit *x) {
    struct err e;
    struct gguf *g = NULL;
    struct gguf_w *w = gguf_w_new();
    CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
    for (int64_t i = 0; g && i < gguf_n_kv(g); i++) copy_key(w, gguf_kv_at(g, i), x);
    for (int pass = 0; g && pass < 2; pass++) {
        for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, i);
            const bool here = strcmp(t->name, x->from) == 0;
            int64_t ne[4] = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]};
            if (here && !x->to && !x->squeeze) continue;
            const int last = t->n_dims - 1;
            if (here) ne[last] -= x->squeeze;
            const uint64_t bytes = t->n_bytes / (uint64_t)t->ne[last] * (uint64_t)ne[last];
            if (pass)
                CHECK_OK(gguf_w_data(w, t->data, bytes, &e));
            else
                CHECK_OK(
                    gguf_w_tensor(w, here && x->to ? x->to : t->name, t->type, t->n_dims, ne, &e));
        }
        if (!pass) CHECK_OK(gguf_w_begin(w, tmp_path("bad.gguf"), true, &e));
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    gguf_close(g);
}

/* Older converters exchanged the names of the feed-forward products. */
static void test_old_names(void) {
    struct err e;
    struct gguf *g = NULL;
    struct gguf_w *w = gguf_w_new();
    convert("tests/golden/towers/gemma3", "f32");
    struct vision_tower *v = open_tower(NULL, KERN_REF), *old = NULL;
    CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
    for (int64_t i = 0; g && i < gguf_n_kv(g); i++) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    for (int64_t i = 0; g && i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[64];
        int block, n = 0;
        snprintf(name, sizeof name, "%s", t->name);
        if (sscanf(t->name, "v.blk.%d.ffn_up.%n", &block, &n) == 1 && n)
            snprintf(name, sizeof name, "v.blk.%d.ffn_down.%s", block, t->name + n);
        else if (sscanf(t->name, "v.blk.%d.ffn_down.%n", &block, &n) == 1 && n)
            snprintf(name, sizeof name, "v.blk.%d.ffn_up.%s", block, t->name + n);
        CHECK_OK(gguf_w_tensor(w, name, t->type, t->n_dims, t->ne, &e));
    }
    CHECK_OK(gguf_w_begin(w, tmp_path("bad.gguf"), true, &e));
    for (int64_t i = 0; g && i < gguf_n_tensors(g); i++)
        CHECK_OK(gguf_w_data(w, gguf_tensor_at(g, i)->data, gguf_tensor_at(g, i)->n_bytes, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    CHECK_OK(vision_open(&old, tmp_path("bad.gguf"), NULL, KERN_REF, &e));
    if (v && old) {
        struct vision_rows a = encode(v, 4, 4), b = encode(old, 4, 4);
        CHECK(a.n == 4 && memcmp(a.data, b.data, (size_t)(4 * a.width) * sizeof *a.data) == 0);
        vision_rows_release(&a);
        vision_rows_release(&b);
    }
    vision_close(v);
    vision_close(old);
    gguf_w_free(w);
    gguf_close(g);
}

static void refuse(const struct edit *x, const char *text) {
    struct err e;
    struct vision_tower *v = NULL;
    edit_file(x);
    CHECK_ERR(vision_open(&v, tmp_path("bad.gguf"), NULL, KERN_REF, &e), ERR_DATA, text);
    CHECK(v == NULL);
}

static void test_refusals(void) {
    static const struct {
        struct edit edit;
        const char *text;
    } bad[] = {
        {{.from = "clip.projector_type", .to = "mlp9"}, "projector type mlp9"},
        {{.from = "clip.projector_type"}, "not a projector (mmproj) file"},
        {{.from = "clip.projector_type", .to = "gemma3"},
         "tensor mm.soft_emb_norm.weight is missing"},
        {{.from = "clip.vision.patch_size", .n = 5}, "v.patch_embd.weight is 48, expected 75"},
        {{.from = "clip.vision.patch_size", .n = 4000}, "patch_size is 4000"},
        {{.from = "clip.vision.block_count"}, "block_count"},
        {{.from = "clip.vision.block_count", .n = 4}, "tensor v.blk.3.ln1.weight is missing"},
        {{.from = "clip.vision.block_count", .n = 99999}, "block_count is 99999"},
        {{.from = "clip.vision.attention.head_count", .n = 3}, "do not make 3 heads"},
        {{.from = "clip.vision.attention.head_count", .n = 1000}, "do not make 1000 heads"},
        {{.from = "clip.vision.spatial_merge_size", .n = 3}, "expected 144"},
        {{.from = "clip.vision.embedding_length", .n = 17}, "embedding_length is 17"},
        {{.from = "v.blk.1.ffn_up.weight"}, "tensor v.blk.1.ffn_up.weight is missing"},
        {{.from = "v.blk.1.ffn_up.bias"}, "tensor v.blk.1.ffn_up.bias is missing"},
        {{.from = "v.blk.1.ffn_up.weight", .squeeze = 1}, "v.blk.1.ffn_up.bias is 32, expected 31"},
        {{.from = "v.blk.2.attn_qkv.weight", .squeeze = 2}, "attn_qkv.bias is 48, expected 46"},
        {{.from = "v.blk.0.ln1.weight", .squeeze = 4}, "v.blk.0.ln1.weight is 12, expected 16"},
        {{.from = "v.position_embd.weight", .squeeze = 1}, "is not a square table"},
        {{.from = "v.position_embd.weight"}, "tensor v.position_embd.weight is missing"},
        {{.from = "v.patch_embd.weight"}, "tensor v.patch_embd.weight is missing"},
        {{.from = "v.patch_embd.weight.1", .squeeze = 1}, "differ in shape"},
        {{.from = "mm.2.weight", .squeeze = 1}, "mm.2.bias is 32, expected 31"},
        {{.from = "mm.2.bias", .to = "mm.9.bias"}, "tensor mm.9.bias is not part of a Qwen3-VL"},
        {{.from = "v.deepstack.2.fc2.weight"}, "tensor v.deepstack.2.fc2.weight is missing"},
        {{.from = "v.deepstack.2.fc1.weight"}, "disagree about block 2"},
    };
    convert("tests/golden/towers/qwen3vlmoe", "f32");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse(&bad[i].edit, bad[i].text);
    convert("tests/golden/mmproj/gemma4", "f32");
    refuse(&(struct edit){.from = "v.std_scale"}, "tensor v.std_scale is missing");
    refuse(&(struct edit){.from = "v.blk.0.attn_k.input_max"}, "3 of the 4 limits");
    refuse(&(struct edit){.from = "v.blk.1.attn_k_norm.weight"},
           "v.blk.1.attn_k_norm.weight is missing");
    refuse(&(struct edit){.from = "v.position_embd.weight", .squeeze = 1}, "each of two axes");
}

static void test_sizes(void) {
    static const struct {
        int w, h;
        const char *text;
    } bad[] = {{0, 8, "0 x 8 pixels"},
               {12, 8, "multiples of 8"},
               {8, -8, "multiples of 8"},
               {8, 1 << 30, "patches, more than"}};
    struct err e;
    struct vision_rows out;
    const float one = 0;
    convert("tests/golden/towers/qwen2vl", "f32");
    struct vision_tower *v = open_tower(NULL, KERN_REF);
    for (size_t i = 0; v && i < sizeof bad / sizeof *bad; i++)
        CHECK_ERR(vision_encode(v, &one, bad[i].w, bad[i].h, &out, &e), ERR_DATA, bad[i].text);
    if (v) CHECK_EQ_I64(vision_width(v), 32);
    vision_close(v);
    convert("tests/golden/mmproj/gemma4", "f32");
    v = open_tower(NULL, KERN_REF);
    if (v) CHECK_ERR(vision_encode(v, &one, 84, 12, &out, &e), ERR_DATA, "position table has 20");
    vision_close(v);
}

/* One weight that is NaN: the error names the projector file. */
static void test_not_finite(void) {
    struct err e;
    struct gguf *g = NULL;
    struct vision_rows out;
    struct vision_tower *v = NULL;
    float pixels[3 * 8 * 8] = {0};
    char *text = NULL;
    size_t n = 0;
    convert("tests/golden/towers/qwen2vl", "f32");
    CHECK_OK(io_read_file(&text, &n, tmp_path("mm.gguf"), 1 << 24, &e));
    CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, "mm.2.weight") : NULL;
    CHECK(t && text);
    if (t && text) {
        char *at = text;
        while (memcmp(at, t->data, t->n_bytes) != 0) at++; /* the file has these bytes */
        memset(at, 0xff, 4);
        tmp_write("bad.gguf", text, n);
        CHECK_OK(vision_open(&v, tmp_path("bad.gguf"), NULL, KERN_REF, &e));
        if (v)
            CHECK_ERR(vision_encode(v, pixels, 8, 8, &out, &e), ERR_DATA,
                      "bad.gguf: the embeddings of an image are not finite");
        vision_close(v);
    }
    gguf_close(g);
    free(text);
}

int main(int argc, char **argv) {
    if (argc > 1) table = fopen(argv[1], "w");
    tmp_make();
    if (table)
        fprintf(table,
                "{\n \"command\": \"tests/unit/test_tower FILE FOLDER\",\n \"error\": \"largest "
                "difference over root mean square\",\n \"bound\": 2e-4,\n \"towers\": [");
    if (argc > 2) wide = argv[2];
    if (!wide || table) RUN(test_transformers);
    if (wide) RUN(test_wide);
    if (table) fprintf(table, "\n ]\n}\n");
    RUN(test_threads);
    RUN(test_types);
    RUN(test_old_names);
    RUN(test_refusals);
    RUN(test_sizes);
    RUN(test_not_finite);
    tmp_remove();
    if (table) fclose(table);
    return check_done();
}
