// SPDX-License-Identifier: MIT
/* --lora against peft: merged weights equal those that peft merged (tests/oracle/lora.py), tensors
 * that an adapter does not name stay, and what cannot be merged is refused. */
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "core/gguf.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/log.h"
#include "core/prog.h"
#include "core/io.h"
#include "tests/check.h"
#include "tests/unit/st_build.h"
#include "tests/unit/tmpdir.h"

#define DIR "tests/golden/lora"

static int convert(const char *base, const char *lora, const char *out, struct err *e) {
    char src[256];
    struct convert_report r;
    snprintf(src, sizeof src, "tests/golden/models/%s", base);
    struct convert_opts o = {
        .src = src, .out = tmp_path(out), .type = "f32", .lora = lora, .overwrite = true};
    return convert_run(&o, &r, e);
}

static void check_case(const struct json *c) {
    const char *base = json_str(json_get(c, "base"));
    const struct json *want = json_get(c, "expected");
    struct err e;
    struct gguf *plain = NULL, *g = NULL;
    char lora[256];
    int n = 0;
    snprintf(lora, sizeof lora, DIR "/%s", json_str(json_get(c, "adapter")));
    CHECK_OK(convert(base, NULL, "plain.gguf", &e));
    CHECK_OK(convert(base, lora, "merged.gguf", &e));
    CHECK_OK(gguf_open(&plain, tmp_path("plain.gguf"), 0, &e));
    CHECK_OK(gguf_open(&g, tmp_path("merged.gguf"), 0, &e));
    for (int64_t i = 0; g && plain && i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i), *p = gguf_find_tensor(plain, t->name);
        const char *sum = json_str(json_get(want, t->name));
        bool same = p && p->n_bytes == t->n_bytes && memcmp(p->data, t->data, t->n_bytes) == 0;
        struct sha256 h;
        char hex[65];
        sha256_init(&h);
        sha256_add(&h, t->data, t->n_bytes);
        sha256_hex(&h, hex);
        if (!sum && !same) CHECK_FAIL("%s: %s changed", lora, t->name);
        if (sum && strcmp(sum, hex) != 0) CHECK_FAIL("%s: %s differs from peft", lora, t->name);
        n += sum != NULL;
    }
    CHECK_EQ_I64(n, json_len(want));
    gguf_close(plain);
    gguf_close(g);
}

static void test_merging_equals_peft(void) {
    struct err e;
    struct json *all = NULL;
    CHECK_OK(json_read(&all, DIR "/cases.json", 1 << 20, &e));
    CHECK_EQ_I64(json_len(all), 3);
    for (const struct json *c = json_first(all); c; c = json_next(c)) check_case(c);
    json_free(all);
}

/* The Mistral adapter with one text of its configuration replaced, on a base. */
static void refused(const char *base, const char *from, const char *to, const char *message) {
    struct err e = {0};
    char *p = NULL, *cwd = getcwd(NULL, 0), target[512];
    size_t n = 0;
    struct buf b = {0};
    mkdir(tmp_path("lora"), 0700);
    CHECK_OK(io_read_file(&p, &n, DIR "/mistral/adapter_config.json", 1 << 20, &e));
    char *at = p ? strstr(p, from) : NULL;
    CHECK(at != NULL);
    if (at) {
        buf_add(&b, p, (size_t)(at - p));
        buf_str(&b, to);
        buf_str(&b, at + strlen(from));
        tmp_write("lora/adapter_config.json", b.data, b.len);
    }
    snprintf(target, sizeof target, "%s/" DIR "/mistral/adapter_model.safetensors", cwd);
    unlink(tmp_path("lora/adapter_model.safetensors"));
    CHECK(!symlink(target, tmp_path("lora/adapter_model.safetensors")));
    unlink(tmp_path("out.gguf"));
    CHECK_ERR(convert(base, tmp_path("lora"), "out.gguf", &e), ERR_DATA, message);
    CHECK(!io_exists(tmp_path("out.gguf")));
    buf_release(&b);
    free(p);
    free(cwd);
}

static void test_refusals(void) {
    refused("qwen3", "\"r\": 2", "\"r\": 2", "was made for another");
    refused("mistral", "\"use_dora\": false", "\"use_dora\": true", "use_dora");
    refused("mistral", "\"bias\": \"none\"", "\"bias\": \"all\"", "bias");
    refused("mistral", "\"peft_type\": \"LORA\"", "\"peft_type\": \"LOHA\"", "LOHA");
    refused("mistral", "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"^model.*q\": 2}",
            "more than a name");
    refused("mistral", "\"alpha_pattern\": {}", "\"alpha_pattern\": [2]", "not an object");
    struct err e = {0};
    CHECK_ERR(convert("qwen35", DIR "/experts", "out.gguf", &e), ERR_DATA, "was made for another");
}

int main(void) {
    tmp_make();
    prog_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    RUN(test_merging_equals_peft);
    RUN(test_refusals);
    tmp_remove();
    return check_done();
}
