// SPDX-License-Identifier: MIT
/* convert/meta.c - metadata of the output: general.*, sampling defaults, the architecture's keys,
 * the tokenizer and the chat template. Differences from the field's converter are listed with their
 * reasons in docs/interop.md. */
#include <stdlib.h>
#include <string.h>

#include "convert/plan.h"
#include "core/json.h"
#include "core/mem.h"
#include "text/tok.h"

int64_t meta_file_type(enum qtype t) {
    return t == QT_F16 ? 1 : t == QT_BF16 ? 32 : t == QT_Q8_0 ? 7 : 0;
}

/* generation_config.json: what the publisher recommends, unless sampling is off. */
static int sampling(struct plan *p, struct gguf_w *w, struct err *e) {
    static const struct {
        const char *hf, *key;
        bool integer;
    } row[] = {
        {"top_k", "general.sampling.top_k", true},
        {"top_p", "general.sampling.top_p", false},
        {"min_p", "general.sampling.min_p", false},
        {"temperature", "general.sampling.temp", false},
        {"repetition_penalty", "general.sampling.penalty_repeat", false},
    };
    const struct json *g;
    TRY(hfdir_json(p->dir, "generation_config.json", &g, e));
    if (!g || !json_bool(json_get(g, "do_sample"), true)) return 0;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        const struct json *j = json_get(g, row[i].hf);
        int64_t v;
        if (json_type(j) != JSON_NUM) continue;
        if (!row[i].integer)
            gguf_w_f32(w, row[i].key, (float)json_num(j, 0));
        else if (json_i64(j, &v) && v >= 0 && v <= INT32_MAX)
            gguf_w_i32(w, row[i].key, (int32_t)v);
    }
    return 0;
}

static void token_lists(const struct tok *t, struct gguf_w *w) {
    size_t n = (size_t)tok_n_vocab(t), n_merges = (size_t)tok_n_merges(t);
    const char **text = xcalloc((n > n_merges ? n : n_merges) + 1, sizeof *text);
    uint64_t *len = xcalloc(n + 1, sizeof *len);
    int32_t *type = xcalloc(n + 1, sizeof *type);
    for (size_t i = 0; i < n; i++) {
        size_t k;
        text[i] = tok_text(t, (int64_t)i, &k);
        len[i] = k;
        type[i] = (int32_t)tok_type(t, (int64_t)i);
    }
    gguf_w_arr_strn(w, "tokenizer.ggml.tokens", text, len, n);
    gguf_w_arr(w, "tokenizer.ggml.token_type", GV_I32, type, n);
    for (size_t i = 0; i < n_merges; i++) text[i] = tok_merge(t, (int64_t)i);
    if (n_merges) gguf_w_arr_str(w, "tokenizer.ggml.merges", text, n_merges);
    free(text);
    free(len);
    free(type);
}

static void special_ids(const struct tok *t, struct gguf_w *w) {
    static const struct {
        enum tok_special s;
        const char *key;
    } row[] = {
        {TS_BOS, "tokenizer.ggml.bos_token_id"},
        {TS_EOS, "tokenizer.ggml.eos_token_id"},
        {TS_UNK, "tokenizer.ggml.unknown_token_id"},
        {TS_SEP, "tokenizer.ggml.seperator_token_id"}, /* the format's spelling */
        {TS_PAD, "tokenizer.ggml.padding_token_id"},
        {TS_MASK, "tokenizer.ggml.mask_token_id"},
    };
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        int64_t id = tok_special(t, row[i].s);
        if (id >= 0) gguf_w_u32(w, row[i].key, (uint32_t)id);
    }
    int64_t eot = tok_special(t, TS_EOT); /* readers guess it otherwise, from an unordered table */
    if (eot >= 0 && eot != tok_special(t, TS_EOS))
        gguf_w_u32(w, "tokenizer.ggml.eot_token_id", (uint32_t)eot);
    gguf_w_bool(w, "tokenizer.ggml.add_bos_token", tok_add_bos(t));
    if (tok_add_eos(t)) gguf_w_bool(w, "tokenizer.ggml.add_eos_token", true);
}

static int tokenizer(struct plan *p, const char *pre, struct gguf_w *w, struct err *e) {
    const struct json *tj, *cfg, *gen;
    TRY(hfdir_json(p->dir, "tokenizer.json", &tj, e));
    TRY(hfdir_json(p->dir, "tokenizer_config.json", &cfg, e));
    TRY(hfdir_json(p->dir, "generation_config.json", &gen, e));
    if (!tj)
        return err_set(e, ERR_DATA,
                       "%s has no tokenizer.json: download it from the original release",
                       hfdir_path(p->dir));
    struct tok *t;
    if (tok_from_hf(&t, tj, cfg, hfdir_config(p->dir), gen, p->hp.d[HD_VOCAB], pre, e))
        return err_wrap(e, "%s", hfdir_path(p->dir));
    gguf_w_str(w, "tokenizer.ggml.model", tok_model(t));
    if (tok_pre(t)) gguf_w_str(w, "tokenizer.ggml.pre", tok_pre(t));
    token_lists(t, w);
    special_ids(t, w);
    tok_free(t);
    return 0;
}

int meta_write(struct plan *p, const struct convert_opts *o, struct gguf_w *w, struct err *e) {
    gguf_w_str(w, "general.architecture", p->arch->name);
    gguf_w_str(w, "general.type", "model");
    TRY(sampling(p, w, e));
    if (o->name) gguf_w_str(w, "general.name", o->name);
    hparams_write(&p->hp, p->arch, w);
    gguf_w_u32(w, "general.file_type", (uint32_t)meta_file_type(p->type));
    gguf_w_u32(w, "general.quantization_version", 2);
    TRY(tokenizer(p, o->pre, w, e));
    const char *tmpl;
    TRY(hfdir_chat_template(p->dir, &tmpl, e));
    if (tmpl) gguf_w_str(w, "tokenizer.chat_template", tmpl);
    return 0;
}
