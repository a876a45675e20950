// SPDX-License-Identifier: MIT
/* tests/unit/test_seq_rss.c - the memory of eight long sequences of a model with windows, as
 * measured by the system: the resident size of the process grows by the amount that `hone plan`
 * computes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/out.h"
#include "base/mem.h"
#include "models/sizes.h"
#include "quantize/synth.h"
#include "runtime/engine/kv_type.h"
#include "runtime/engine/session.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

enum { N_SEQS = 8, N_CTX = 2048, N_PASS = 256 };

/* Gemma 3 with one layer of full attention in six, 1 KiB of keys and values per token and layer. */
static const char shape[] =
    "{\"architectures\":[\"Gemma3ForCausalLM\"],\"vocab_size\":256,\"hidden_size\":64,"
    "\"intermediate_size\":64,\"num_hidden_layers\":6,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":4,\"head_dim\":64,\"rms_norm_eps\":1e-6,\"sliding_window\":512,"
    "\"sliding_window_pattern\":6,\"rope_theta\":1000000,\"rope_local_base_freq\":10000,"
    "\"max_position_embeddings\":8192,\"query_pre_attn_scalar\":64,\"tie_word_embeddings\":true}";

/* Returns the resident size of this process in bytes. */
static int64_t resident(void) {
    long all = 0, held = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &held) != 2) held = 0;
    if (f) fclose(f);
    return (int64_t)held * sysconf(_SC_PAGESIZE);
}

static void feed(struct session *s, struct seq *q) {
    struct err e = {0};
    struct session_row row[N_PASS];
    for (int at = 0; at < N_CTX; at += N_PASS) {
        for (int i = 0; i < N_PASS; i++)
            row[i] = (struct session_row){.id = (at + i) % 256, .seq = q};
        CHECK_OK(session_pass(s, &(struct session_pass){.row = row, .n = N_PASS}, &e));
    }
}

static void test_resident(void) {
    struct err e = {0};
    struct model *m = NULL;
    struct session *s = NULL;
    struct seq *q[N_SEQS] = {0};
    struct synth_report r;
    struct sizes z;
    uint64_t one = 0, all = 0;
    CHECK_OK(out_write_file(tmp_path("config.json"), shape, sizeof shape - 1, true, &e));
    char *config = xstrdup(tmp_path("config.json")), *path = xstrdup(tmp_path("m.gguf"));
    const struct synth_opts so = {.shape = config, .recipe = "F16", .out = path, .seed = 1};
    CHECK_OK(synth_run(&so, &r, &e));
    CHECK_OK(model_open(&m, path, &e));
    const struct session_opts o = {
        .n_ctx = N_CTX, .n_ubatch = N_PASS, .isa = kern_isa_best(), .kv_type = QT_F16};
    const struct kv_type *t = kv_type_of(QT_F16);
    const struct kv_rows rows = kv_type_rows(t, t);
    CHECK_OK(sizes_init(&z, m->arch, &m->hp, &e));
    CHECK(sizes_kv_paged(&z, 1, N_CTX, N_PASS, &rows, &one));
    CHECK(sizes_kv_paged(&z, 1 + N_SEQS, N_CTX, N_PASS, &rows, &all));
    CHECK_OK(session_new(&s, m, &o, &e));
    feed(s, session_own_seq(s)); /* a pass touches its scratch memory, which then stays resident */
    const int64_t before = resident(), counted = (int64_t)session_bytes(s);
    for (int i = 0; i < N_SEQS; i++) CHECK_OK(session_new_seq(s, N_CTX, &q[i], &e));
    for (int i = 0; i < N_SEQS; i++) feed(s, q[i]);
    const int64_t grown = resident() - before, want = (int64_t)(all - one);
    CHECK_EQ_I64((int64_t)session_bytes(s) - counted, want);
    printf("computed %lld bytes, measured %lld; without windows %lld\n", (long long)want,
           (long long)grown, (long long)N_SEQS * N_CTX * 6 * 1024);
    CHECK(want < INT64_C(8) * N_CTX * 6 * 1024 * 6 / 10); /* windows do not keep all positions */
    CHECK(before > 0 && llabs(grown - want) < want / 50);
    for (int i = 0; i < N_SEQS; i++) seq_free(q[i]);
    session_free(s);
    model_close(m);
    free(config);
    free(path);
}

int main(void) {
    if (CHECK_SANITIZED) return check_skip("a sanitizer holds memory of its own");
    tmp_make();
    RUN(test_resident);
    tmp_remove();
    return check_done();
}
