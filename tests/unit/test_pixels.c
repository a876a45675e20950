// SPDX-License-Identifier: MIT
/* tests/unit/test_pixels.c - images against Pillow and the image processors of transformers
 * (tests/oracle/pixels.py): decoded pixels, resized pixels, normalised values, and the texts and
 * numbers of tokens in the prompt. And files that are damaged or too large. */
#include <math.h>

#include "base/hash.h"
#include "base/out.h"
#include "convert/mmproj.h"
#include "runtime/vision/image.h"
#include "tests/unit/golden.h"

#define DIR "tests/golden/pixels/"

static int64_t number(const struct json *j, const char *name) {
    int64_t n = 0;
    (void)json_i64(json_get(j, name), &n);
    return n;
}

static struct json *read_list(const char *path) {
    struct json *list = NULL;
    struct err e;
    CHECK_OK(json_read(&list, path, 1 << 22, &e));
    CHECK(json_len(list) > 40);
    return list;
}

static bool has_hash(const unsigned char *p, size_t n, const struct json *want) {
    struct sha256 s;
    char hex[65];
    sha256_init(&s);
    sha256_add(&s, p, n);
    sha256_hex(&s, hex);
    return strcmp(hex, json_str(json_get(want, "sha256"))) == 0;
}

/* ---- decoding ---- */

static void test_decode(void) {
    struct json *list = read_list(DIR "decode.json");
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        char *path = xasprintf(DIR "%s", json_str(json_get(j, "file"))), *data = NULL;
        size_t n = 0;
        struct image im = {0};
        struct err e;
        CHECK_OK(io_read_file(&data, &n, path, 1 << 20, &e));
        CHECK_OK(image_decode(data, n, &im, &e));
        CHECK_EQ_I64(im.w, number(j, "w"));
        CHECK_EQ_I64(im.h, number(j, "h"));
        if (im.rgb && !has_hash(im.rgb, 3 * (size_t)im.w * (size_t)im.h, j))
            CHECK_FAIL("%s: other pixels", path);
        image_release(&im);
        free(data);
        free(path);
    }
    json_free(list);
}

/* Decodes a file of the golden folder, cut to n bytes. */
static int decode_cut(const char *name, size_t n, struct err *e) {
    char *path = xasprintf(DIR "%s", name), *data = NULL;
    size_t all = 0;
    struct err file;
    struct image im = {0};
    CHECK(io_read_file(&data, &all, path, 1 << 20, &file) == 0);
    CHECK(n < all);
    /* a copy without the terminating NUL, so that a sanitizer finds reads past the end */
    char *exact = xmalloc(n + !n);
    memcpy(exact, data, n);
    const int rc = image_decode(exact, n, &im, e);
    CHECK(!rc || !im.rgb);
    image_release(&im);
    free(exact);
    free(data);
    free(path);
    return rc;
}

static void test_damaged(void) {
    struct err e;
    CHECK_ERR(decode_cut("rgba.png", 0, &e), ERR_DATA, "not an image");
    CHECK_ERR(decode_cut("rgba.png", 8, &e), ERR_DATA, "truncated");
    CHECK_ERR(decode_cut("rgba.png", 400, &e), ERR_DATA, "damaged");
    CHECK_ERR(decode_cut("420.jpg", 3, &e), ERR_DATA, "damaged");
    CHECK_ERR(decode_cut("420.jpg", 700, &e), ERR_DATA, "damaged");
    CHECK_ERR(decode_cut("progressive.jpg", 700, &e), ERR_DATA, "damaged");
    for (size_t n = 0; n < 300; n += 7) {
        CHECK(decode_cut("exif6.jpg", n, &e) != 0);
        if (n < 140) CHECK(decode_cut("exif-last.png", n, &e) != 0);
    }
}

static void test_refusals(void) {
    /* the header of a PNG image of 65,000 x 65,000 pixels */
    static const char huge[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xfd\xe8\0\0\xfd\xe8\x08\2\0\0\0"
                               "\x2d\x35\x4e\x5d"
                               "\0\0\0\0IDAT\x35\xaf\x06\x1e";
    struct image im;
    struct err e;
    CHECK_ERR(image_decode("GIF89a......", 12, &im, &e), ERR_DATA, "GIF images are not supported");
    CHECK_ERR(image_decode("RIFF1234WEBPVP8 ", 16, &im, &e), ERR_DATA, "WebP images are not");
    CHECK_ERR(image_decode("hello", 5, &im, &e), ERR_DATA, "expected PNG or JPEG");
    CHECK_ERR(image_decode(huge, sizeof huge - 1, &im, &e), ERR_DATA, "65000 x 65000 pixels");
    CHECK_ERR(image_decode("", (size_t)IMAGE_MAX_BYTES + 1, &im, &e), ERR_DATA, "the limit is");
}

/* ---- preparing ---- */

/* pattern() of tests/oracle/pixels.py. */
static struct image pattern(int w, int h) {
    struct image im = {w, h, xmalloc(3 * (size_t)w * (size_t)h)};
    unsigned char *p = im.rgb;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const int flip = x * y / 37 % 2 * 96;
            *p++ = (unsigned char)((x * 7 + y * 3) / 2 ^ flip);
            *p++ = (unsigned char)((x * 2 + y * 11 + 90) / 2 ^ flip);
            *p++ = (unsigned char)((255 - (x * 5 - y * 4)) ^ flip);
        }
    return im;
}

/* Writes the keys of a projector file and reads them. */
static void read_params(const struct json *c, struct vision_params *p) {
    struct err e;
    static const char *const key[][2] = {
        {"patch", "patch_size"},           {"image_size", "image_size"},
        {"merge", "spatial_merge_size"},   {"merge", "projector.scale_factor"},
        {"longest", "preproc_image_size"}, {"max_pixels", "image_max_pixels"}};
    const struct json *tiles = json_first(json_get(c, "tiles"));
    struct gguf_w *w = gguf_w_new();
    struct gguf *g = NULL;
    const int64_t ne[4] = {1, 1, 1, 1};
    gguf_w_str(w, "general.architecture", "clip");
    gguf_w_str(w, "clip.projector_type", json_str(json_get(c, "projector")));
    for (size_t i = 0; i < COUNT_OF(key); i++) {
        char name[64];
        snprintf(name, sizeof name, "clip.vision.%s", key[i][1]);
        if (number(c, key[i][0])) gguf_w_u32(w, name, (uint32_t)number(c, key[i][0]));
    }
    if (tiles) gguf_w_u32(w, "clip.vision.preproc_min_tiles", (uint32_t)json_num(tiles, 0));
    if (tiles)
        gguf_w_u32(w, "clip.vision.preproc_max_tiles", (uint32_t)json_num(json_next(tiles), 0));
    for (int i = 0; i < 2; i++) {
        float v[3];
        int n = 0;
        for (const struct json *j = json_first(json_get(c, i ? "std" : "mean")); j && n < 3;
             j = json_next(j))
            v[n++] = (float)json_num(j, 0);
        gguf_w_arr(w, i ? "clip.vision.image_std" : "clip.vision.image_mean", GV_F32, v, 3);
    }
    CHECK_OK(gguf_w_tensor(w, "v.x", QT_F32, 1, ne, &e));
    CHECK_OK(gguf_w_begin(w, tmp_path("keys.gguf"), true, &e));
    CHECK_OK(gguf_w_data(w, &(float){0}, sizeof(float), &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&g, tmp_path("keys.gguf"), 0, &e));
    CHECK_OK(vision_params_read(g, p, &e));
    gguf_close(g);
}

/* Recovers the 8-bit pixels of a view, as [h][w][3]. */
static unsigned char *bytes_of(const struct vision_params *p, const struct view *v) {
    const size_t n = (size_t)v->w * (size_t)v->h;
    unsigned char *out = xmalloc(3 * n);
    for (size_t i = 0; i < 3 * n; i++)
        out[i % n * 3 + i / n] =
            (unsigned char)lrintf((v->data[i] * p->std[i / n] + p->mean[i / n]) * 255);
    return out;
}

static void check_view(const struct vision_params *p, const struct view *v, const struct json *want,
                       const char *name) {
    const struct json *value = json_first(json_get(want, "values"));
    CHECK_EQ_I64(v->w, number(want, "w"));
    CHECK_EQ_I64(v->h, number(want, "h"));
    if (v->w != number(want, "w") || v->h != number(want, "h")) return;
    for (const struct json *at = json_first(json_get(want, "at")); at; at = json_next(at)) {
        const double got = (double)v->data[(size_t)json_num(at, 0)];
        if (fabs(got - json_num(value, 0)) > 1e-6) CHECK_FAIL("%s: value %g", name, got);
        value = json_next(value);
    }
    unsigned char *bytes = bytes_of(p, v);
    if (!has_hash(bytes, 3 * (size_t)v->w * (size_t)v->h, want)) CHECK_FAIL("%s: pixels", name);
    free(bytes);
}

static void check_prompt(const struct image_prompt *pr, const struct json *want, const char *name) {
    const struct json *j = json_first(want);
    const struct image_part *part = pr->part, *end = part + pr->n_parts;
    int64_t rows = 0;
    for (; j && part < end; j = json_next(j))
        if (json_str(j)) {
            if (!part->text || strcmp(part->text, json_str(j)) != 0)
                CHECK_FAIL("%s: text %s, not %s", name, part->text, json_str(j));
            part++;
        } else {
            int64_t n = 0;
            for (; part < end && !part->text; part++) n += part->n;
            CHECK_EQ_I64(n, json_num(j, -1));
            rows += n;
        }
    CHECK(!j && part == end);
    CHECK_EQ_I64(pr->n_rows, rows);
}

static void test_prepare(void) {
    struct json *list = read_list(DIR "prepare.json");
    for (const struct json *c = json_first(list); c; c = json_next(c)) {
        struct vision_params p;
        struct pixels px = {0};
        struct image_prompt pr;
        struct err e = {0};
        struct image im = pattern((int)number(c, "w"), (int)number(c, "h"));
        char *name = xasprintf("%s %d x %d", json_str(json_get(c, "projector")), im.w, im.h);
        const struct json *views = json_get(c, "views"), *view = json_first(views);
        read_params(c, &p);
        CHECK_OK(image_prepare(&p, &im, &px, &e));
        if (px.n_views != json_len(views)) CHECK_FAIL("%s: %d views", name, px.n_views);
        for (int i = 0; i < px.n_views && view; i++, view = json_next(view))
            check_view(&p, &px.view[i], view, name);
        image_prompt(&p, &px, 0, &pr);
        struct image_work work;
        CHECK_OK(image_look(&p, im.w, im.h, &work, &e));
        CHECK_EQ_I64(work.n_tokens, pr.n_rows);
        CHECK_EQ_I64(work.n_patches, work.n_tokens * p.merge * p.merge);
        check_prompt(&pr, json_get(c, "prompt"), name);
        image_prompt_release(&pr);
        pixels_release(&px);
        image_release(&im);
        free(name);
    }
    json_free(list);
}

/* Tests the projector files that hone writes. */
static void test_own_files(void) {
    static const struct {
        const char *folder;
        enum projector type;
        int merge;
    } t[] = {{"qwen2vl", PROJ_QWEN2VL, 2},    {"qwen25vl", PROJ_QWEN25VL, 2},
             {"qwen3vlmoe", PROJ_QWEN3VL, 2}, {"gemma3", PROJ_GEMMA3, 2},
             {"mistral3", PROJ_PIXTRAL, 2},   {"pixtral", PROJ_PIXTRAL, 1},
             {"smolvlm", PROJ_IDEFICS3, 2},   {"internvl", PROJ_INTERNVL, 2},
             {"lfm2vl", PROJ_LFM2, 2},        {"glm4v", PROJ_GLM4V, 2},
             {"kimivl", PROJ_KIMIVL, 2},      {"minicpmv", PROJ_MINICPMV, 4}};
    struct image im = pattern(40, 30);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char *folder = xasprintf("tests/golden/towers/%s", t[i].folder);
        struct convert_opts o = {.src = folder, .overwrite = true};
        struct mmproj_report r;
        struct gguf *g = NULL;
        struct vision_params p;
        struct pixels px = {0};
        struct err e;
        CHECK_OK(mmproj_run(&o, tmp_path("mm.gguf"), &r, &e));
        CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
        CHECK_OK(vision_params_read(g, &p, &e));
        CHECK_EQ_I64(p.type, t[i].type);
        if (p.merge != t[i].merge) CHECK_FAIL("%s: merge %d", t[i].folder, p.merge);
        CHECK_OK(image_prepare(&p, &im, &px, &e));
        pixels_release(&px);
        gguf_close(g);
        free(folder);
    }
    image_release(&im);
}

/* Writes a config of the folder "hf". */
static void write_config(const char *name, const char *text) {
    struct err e;
    char *path = xasprintf("%s/hf/%s", tmp_dir, name);
    CHECK_OK(out_write_file(path, text, strlen(text), true, &e));
    free(path);
}

/* Tests that the limits of a folder's image processor reach its projector file, and that images get
 * the sizes that transformers 5.24 gives them. */
static void test_limits(void) {
#define SIZE(a, b) "\"size\": {\"shortest_edge\": " #a ", \"longest_edge\": " #b "}"
    static const struct {
        const char *folder, *config;
        int64_t min, max;
        int size[2][2]; /* of images of 40 x 30 and 300 x 200; 0: not compared */
    } t[] = {
        {"qwen2vl", "{" SIZE(9000, 30000) "}", 9000, 30000, {{112, 88}, {208, 136}}},
        {"qwen25vl", "{\"image_processor\": {" SIZE(9000, 30000) "}}", 9000, 30000, {{0}}},
        {"qwen3vlmoe",
         "{\"min_pixels\": 9000, \"max_pixels\": 30000, " SIZE(100, 10000000) "}",
         9000,
         30000,
         {{112, 88}, {208, 136}}},
        {"qwen2vl", "{\"size\": {\"longest_edge\": 30000}}", 0, 30000, {{0}}},
        {"qwen2vl", "{\"min_pixels\": null}", 0, 0, {{0}}},
        {"glm4v",
         "{\"max_pixels\": 77, " SIZE(9000, 30000) "}",
         9000,
         30000,
         {{80, 64}, {144, 96}}},
        {"lfm2vl",
         "{\"min_image_tokens\": 20, \"max_image_tokens\": 30}",
         20480,
         30720,
         {{192, 128}, {0}}},
        {"gemma4u", "{\"max_soft_tokens\": 70}", 0, 70 * 144, {{108, 84}, {120, 72}}},
        {"kimivl", "{\"in_token_limit\": 100}", 0, 19600, {{0}}},
    };
    static const int image[2][2] = {{40, 30}, {300, 200}};
    static const char *const bad[] = {"{" SIZE(0, 9) "}", "{" SIZE(10, 9) "}",
                                      "{\"max_pixels\": 1e12}", "{\"min_pixels\": \"a\"}"};
    struct mmproj_report r;
    struct err e;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char *from = xasprintf("tests/golden/towers/%s", t[i].folder);
        const char *folder = golden_edited(from, from, NULL);
        struct convert_opts o = {.src = folder, .overwrite = true};
        struct gguf *g = NULL;
        struct vision_params p;
        /* The newer file counts alone. */
        write_config("processor_config.json", i == 1 ? t[i].config : "{}");
        write_config("preprocessor_config.json", i == 1 ? "{\"min_pixels\": 5}" : t[i].config);
        CHECK_OK(mmproj_run(&o, tmp_path("mm.gguf"), &r, &e));
        CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
        CHECK_EQ_I64(gguf_u64_or(g, "clip.vision.image_min_pixels", 0), t[i].min);
        CHECK_EQ_I64(gguf_u64_or(g, "clip.vision.image_max_pixels", 0), t[i].max);
        CHECK_OK(vision_params_read(g, &p, &e));
        for (int k = 0; k < 2 && t[i].size[k][0]; k++) {
            struct image im = pattern(image[k][0], image[k][1]);
            struct pixels px = {0};
            CHECK_OK(image_prepare(&p, &im, &px, &e));
            CHECK_EQ_I64(px.view[px.whole].w, t[i].size[k][0]);
            CHECK_EQ_I64(px.view[px.whole].h, t[i].size[k][1]);
            pixels_release(&px);
            image_release(&im);
        }
        gguf_close(g);
        free(from);
    }
    const char *folder =
        golden_edited("tests/golden/towers/qwen2vl", "tests/golden/towers/qwen2vl", NULL);
    struct convert_opts o = {.src = folder, .overwrite = true};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        write_config("preprocessor_config.json", bad[i]);
        CHECK_ERR(mmproj_run(&o, tmp_path("mm.gguf"), &r, &e), ERR_DATA, "the image processor's");
    }
}

int main(void) {
    tmp_make();
    RUN(test_decode);
    RUN(test_damaged);
    RUN(test_refusals);
    RUN(test_prepare);
    RUN(test_own_files);
    RUN(test_limits);
    tmp_remove();
    return check_done();
}
