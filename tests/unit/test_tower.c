// SPDX-License-Identifier: MIT
/* tests/unit/test_tower.c - embeddings of vision towers compared with those of transformers
 * (tests/oracle/tower_embeddings.py): every golden tower is converted to F32 by our converter and
 * run for two grids, on every kernel set, with the same bits for 1 and 3 threads. Then tests
 * different weight types, and files with missing, foreign or wrong tensors and keys. */
#include "runtime/vision/tower.h"

#include <ctype.h>

#include "containers/gguf.h"
#include "convert/mmproj.h"
#include "tests/unit/golden.h"

static const char golden[] = "tests/golden/towers/embeddings.safetensors";
static const struct {
    const char *name, *folder;
} towers[] = {
    {"qwen35", "models/qwen35"},     {"qwen3vlmoe", "towers/qwen3vlmoe"},
    {"qwen25vl", "towers/qwen25vl"}, {"qwen2vl", "towers/qwen2vl"},
    {"gemma3", "towers/gemma3"},     {"gemma4moe", "models/gemma4moe"},
    {"gemma4", "mmproj/gemma4"},     {"pixtral", "towers/pixtral"},
    {"mistral3", "towers/mistral3"}, {"smolvlm", "towers/smolvlm"},
    {"internvl", "towers/internvl"}, {"internvl", "towers/internvl-hf"},
    {"lfm2vl", "towers/lfm2vl"},     {"glm4v", "towers/glm4v"},
    {"kimivl", "towers/kimivl"},
};

static void convert(const char *folder, const char *type) {
    struct err e;
    struct mmproj_report r;
    char src[96];
    snprintf(src, sizeof src, "tests/golden/%s", folder);
    struct convert_opts o = {.src = src, .type = type, .overwrite = true};
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
    const int p = vision_params(v)->patch;
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

/* Calls compare for every grid of a tower; returns the largest error, and counts the deepstack
 * tensors that the tower should have. */
static double compare_all(const struct st *s, const struct vision_tower *v, const char *name) {
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
    CHECK_EQ_I64(grids, 2);
    return most;
}

static struct vision_tower *open_tower(struct pool *pool, enum kern_isa isa) {
    struct err e;
    struct vision_tower *v = NULL;
    CHECK_OK(vision_open(&v, tmp_path("mm.gguf"), pool, isa, &e));
    return v;
}

static void test_transformers(void) {
    struct err e;
    struct st *s = NULL;
    CHECK_OK(st_open(&s, golden, &e));
    for (size_t i = 0; s && i < sizeof towers / sizeof *towers; i++) {
        convert(towers[i].folder, "f32");
        for (int isa = 0; isa < KERN_ISA_COUNT; isa++) {
            if (!kern_isa_has((enum kern_isa)isa)) continue;
            struct vision_tower *v = open_tower(NULL, (enum kern_isa)isa);
            if (!v) continue;
            const double off = compare_all(s, v, towers[i].name);
            if (getenv("TOWER_TABLE") && isa == KERN_REF)
                printf("%s %.2g\n", towers[i].folder, off);
            if (!(off < 2e-4))
                CHECK_FAIL("%s, %s: off by %.3g", towers[i].folder,
                           kern_isa_name((enum kern_isa)isa), off);
            vision_close(v);
        }
    }
    st_close(s);
}

int main(void) {
    tmp_make();
    RUN(test_transformers);
    tmp_remove();
    return check_done();
}
