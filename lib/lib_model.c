// SPDX-License-Identifier: MIT
/* lib/lib_model.c - model handles, with their tokenizer, template and metadata. */
#include <stdlib.h>
#include <string.h>

#include "lib/handles.h"
#include "template/chat_ends.h"

int hone_model_open(struct hone_model **out, const char *path, const struct hone_opts *o,
                    struct hone_error *e) {
    NEED(path, e);
    struct call c;
    *out = NULL;
    struct hone_model *m = lib_new(sizeof *m, e);
    int rc = m ? owner_new(&m->owner, o, path, e) : HONE_SYSTEM;
    if (rc) {
        free(m);
        return rc;
    }
    rc = call_begin(&c, m->owner, e);
    if (!rc) {
        rc = model_open(&m->m, path, &c.err);
        if (!rc) rc = model_use_pre(m->m, m->owner->o.pre, &c.err);
        if (!rc) {
            m->gguf = (struct hone_gguf){.owner = m->owner, .g = m->m->gguf};
            m->tok = (struct hone_tokenizer){.owner = m->owner, .t = m->m->tok};
            if (!template_of(&m->tmpl, m->owner, m->m->gguf, m->m->tok, &m->no_tmpl) && m->m->tok)
                chat_find_ends(m->tmpl->chat, m->m->tok);
        }
        rc = call_end(&c, rc, e);
    }
    if (rc)
        hone_model_close(m);
    else
        *out = m;
    return rc;
}

void hone_model_close(struct hone_model *m) {
    if (!m) return;
    hone_template_free(m->tmpl);
    if (m->m) model_close(m->m);
    owner_drop(m->owner);
    free(m);
}

int hone_model_info(const struct hone_model *m, struct hone_model_info *out, struct hone_error *e) {
    const struct hparams *hp = &m->m->hp;
    struct hone_model_info i = {.arch = m->m->arch->name,
                                .n_vocab = hp->d[HD_VOCAB],
                                .n_ctx = hp->d[HD_CTX],
                                .n_embd = hp->d[HD_EMBD],
                                .n_layers = hp->d[HD_LAYERS],
                                .n_bytes = gguf_file_bytes(m->m->gguf)};
    for (int64_t k = 0; k < gguf_n_tensors(m->m->gguf); k++) {
        const int64_t *ne = gguf_tensor_at(m->m->gguf, k)->ne;
        i.n_weights += ne[0] * ne[1] * ne[2] * ne[3];
    }
    return lib_give(out, &i, sizeof i, "hone_model_info", e);
}

const struct hone_gguf *hone_model_gguf(const struct hone_model *m) {
    return &m->gguf;
}

int hone_model_tokenizer(const struct hone_model *m, const struct hone_tokenizer **out,
                         struct hone_error *e) {
    struct call c;
    *out = NULL;
    int rc = call_begin(&c, m->owner, e);
    if (rc) return rc;
    rc = model_need_tok(m->m, &c.err);
    if (!rc) *out = &m->tok;
    return call_end(&c, rc, e);
}

/* Sets *out to the model's chat template, owned by the model; an error if it has no usable one. */
int hone_model_template(const struct hone_model *m, const struct hone_template **out,
                        struct hone_error *e) {
    *out = m->tmpl;
    return m->tmpl ? HONE_OK : lib_error(e, (int)m->no_tmpl.code, "%s", m->no_tmpl.msg);
}
