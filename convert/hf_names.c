// SPDX-License-Identifier: MIT
/* convert/hf_names.c - normalisation of a folder's tensor names: removes wrappers, replaces
 * prefixes. */
#include "convert/hf_names.h"

#include <string.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/printable.h"

static bool begins_with(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

/* Returns the first occurrence of `part` that begins at the start of the name or after a dot; NULL:
 * none. */
static char *find_part(char *name, const char *part) {
    for (char *at = strstr(name, part); at; at = strstr(at + 1, part))
        if (at == name || at[-1] == '.') return at;
    return NULL;
}

/* Returns the name without the parts added by torch.compile, data-parallel wrappers, FSDP, peft and
 * classes that contain several models. */
static const char *unwrap(struct arena *mem, const char *name) {
    static const char *const part[] = {
        "_orig_mod.",  "module.",     "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
        "base_layer.", "base_model.", "language_model."};
    char *out = NULL;
    for (size_t i = 0; i < COUNT_OF(part); i++) {
        if (!strstr(name, part[i])) continue;
        if (!out) out = arena_strdup(mem, name);
        for (char *at; (at = find_part(out, part[i]));)
            memmove(at, at + strlen(part[i]), strlen(at + strlen(part[i])) + 1);
    }
    return out ? out : name;
}

/* Rejects adapters stored in the same folder as the weights they change. */
static int check_merged(const struct hfdir *dir, const char *name, struct err *e) {
    static const char *const part[] = {".lora_A.", ".lora_B.", ".lora_embedding_A",
                                       ".lora_embedding_B", ".modules_to_save."};
    for (size_t i = 0; i < COUNT_OF(part); i++)
        if (strstr(name, part[i]))
            return err_set(e, ERR_DATA,
                           "%s: tensor %s is part of an unmerged adapter: save the "
                           "model after peft's merge_and_unload()",
                           hfdir_path(dir), show_n(name, strlen(name)).s);
    return 0;
}

/* Returns whether the dotted name has `part` at its beginning or after a dot. */
static bool has_part(const char *name, const char *part) {
    for (const char *at = strstr(name, part); at; at = strstr(at + 1, part))
        if (at == name || at[-1] == '.') return true;
    return false;
}

bool hf_names_tower(const struct arch *a, const char *name) {
    static const char *const usual[] = {"visual.",
                                        "vision_tower.",
                                        "vision_model.",
                                        "vision_encoder.",
                                        "audio_tower.",
                                        "audio_encoder.",
                                        "embed_vision.",
                                        "embed_audio.",
                                        "mm_projector.",
                                        "multi_modal_projector.",
                                        "vision_embedder.",
                                        "talker.",
                                        "token2wav.",
                                        "code2wav.",
                                        "speech_embeddings.",
                                        "vision_projection.",
                                        "mlp1.",
                                        "connector.",
                                        "merger.",
                                        "vpm.",
                                        "resampler."};
    for (const char *const *s = a->skip; s && *s; s++)
        if (**s != '=' && has_part(name, *s)) return true;
    for (size_t i = 0; i < COUNT_OF(usual); i++)
        if (has_part(name, usual[i])) return true;
    return false;
}

bool hf_names_other_part(const struct arch *a, const char *name) {
    for (const char *const *s = a->skip; s && *s; s++)
        if (**s == '=' && has_part(name, *s + 1)) return true;
    return hf_names_tower(a, name);
}

/* A spelling of the embeddings' name, split: "model." and "embed_tokens." of
 * "model.embed_tokens.weight". */
struct embd {
    const char *prefix, *stem;
};

/* Splits a spelling of the embeddings, n bytes long. */
static struct embd take_apart(struct arena *mem, const char *s, size_t n) {
    char *whole = arena_strndup(mem, s, n), *last = strrchr(whole, '.');
    if (!last) return (struct embd){"", whole};
    last[1] = 0; /* drops "weight" */
    char *stem = last;
    while (stem > whole && stem[-1] != '.') stem--;
    return (struct embd){arena_strndup(mem, whole, (size_t)(stem - whole)), stem};
}

/* Returns the shortest prefix with which the folder has embeddings; NULL: it has none. */
static const char *prefix_of(const struct hf_names *h, int64_t n, const struct arch *a,
                             const char *stem, struct arena *mem) {
    const char *best = NULL;
    size_t len = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *s = h->name[i], *at = strstr(s, stem);
        if (!at || (at != s && at[-1] != '.') || hf_names_other_part(a, s)) continue;
        if (best && (size_t)(at - s) >= len) continue;
        best = s;
        len = (size_t)(at - s);
    }
    return best ? arena_strndup(mem, best, len) : NULL;
}

/* Returns whether a name in the table begins with `prefix` and the first part of `rest`, e.g. with
 * "model." and the "layers" of "layers.0.mlp". */
static bool spelled_below(const struct arch *a, const char *prefix, const char *rest) {
    const size_t n = strcspn(rest, "."), p = strlen(prefix);
    for (const struct tensor_row *r = a->tensors; r->gguf; r++)
        for (const char *s = r->hf; s && *s; s += strcspn(s, "|"), s += *s == '|')
            if (begins_with(s, prefix) && strncmp(s + p, rest, n) == 0 && s[p + n] == '.')
                return true;
    return false;
}

static const char *join_text(struct arena *mem, const char *a, const char *b) {
    const size_t n = strlen(a), m = strlen(b);
    char *out = arena_alloc(mem, n + m + 1);
    memcpy(out, a, n);
    memcpy(out + n, b, m + 1);
    return out;
}

/* Replaces the prefix `wrong` with `right`. If `wrong` ends in `right`, names with neither prefix,
 * such as the head's, lose the part of `wrong` that precedes `right`. */
static void exchange(struct hf_names *h, int64_t n, const struct arch *a, const char *wrong,
                     const char *right, struct arena *mem) {
    const size_t w = strlen(wrong), r = strlen(right);
    const bool longer = w > r && strcmp(wrong + w - r, right) == 0;
    const char *outer = longer ? arena_strndup(mem, wrong, w - r) : "";
    for (int64_t i = 0; i < n; i++) {
        const char *s = h->name[i];
        if (w && begins_with(s, wrong))
            h->name[i] = join_text(mem, right, s + w);
        else if (*outer && begins_with(s, outer) &&
                 !(begins_with(s, right) && spelled_below(a, right, s + r))) /* already right */
            h->name[i] = s + strlen(outer);
        else if (!w && !begins_with(s, right) && spelled_below(a, right, s))
            h->name[i] = join_text(mem, right, s);
    }
    h->cut = longer ? outer : wrong;
    h->put = longer ? "" : right;
}

/* Determines the prefix of the folder's embeddings, and respells all names with the table's
 * prefix. */
static void settle_prefix(struct hf_names *h, int64_t n, const struct arch *a, struct arena *mem) {
    const struct tensor_row *r = a->tensors;
    while (r->gguf && strcmp(r->gguf, "token_embd.weight") != 0) r++;
    const char *wrong = NULL, *right = NULL;
    for (const char *s = r->gguf ? r->hf : NULL; s && *s; s += strcspn(s, "|"), s += *s == '|') {
        const struct embd x = take_apart(mem, s, strcspn(s, "|"));
        const char *has = prefix_of(h, n, a, x.stem, mem);
        if (has && strcmp(has, x.prefix) == 0) return;
        if (has && !wrong) {
            wrong = has;
            right = x.prefix;
        }
    }
    if (wrong) exchange(h, n, a, wrong, right, mem);
}

/* Renames the head to the table's name if it has an unusual prefix, as in
 * "model.lm_head.weight". */
static void settle_head(struct hf_names *h, int64_t n, const struct arch *a, struct arena *mem) {
    const struct tensor_row *r = a->tensors;
    while (r->gguf && strcmp(r->gguf, "output.weight") != 0) r++;
    const char *head = r->gguf ? arena_strndup(mem, r->hf, strcspn(r->hf, "|")) : NULL;
    int64_t found = -1;
    for (int64_t i = 0; i < n && head; i++) {
        const char *at = strstr(h->name[i], head);
        if (!at || strcmp(at, head) != 0 || hf_names_other_part(a, h->name[i])) continue;
        if (at == h->name[i]) return;
        if (at[-1] == '.') found = i;
    }
    if (found < 0) return;
    log_info("%s is treated as %s", show_n(h->name[found], strlen(h->name[found])).s, head);
    h->name[found] = head;
}

int hf_names_make(struct hf_names *out, const struct hfdir *dir, const struct arch *a,
                  struct arena *mem, struct err *e) {
    const int64_t n = hfdir_n_tensors(dir);
    *out = (struct hf_names){.name = arena_array(mem, (size_t)n + 1, sizeof *out->name)};
    for (int64_t i = 0; i < n; i++) {
        const char *name = hfdir_tensor_at(dir, i)->name;
        TRY(check_merged(dir, name, e));
        out->name[i] = unwrap(mem, name);
    }
    settle_prefix(out, n, a, mem);
    settle_head(out, n, a, mem);
    if (out->cut)
        log_info(*out->cut ? "tensor names begin with \"%s\" instead of \"%s\": renaming them"
                           : "tensor names lack \"%s%s\": adding it",
                 show_n(out->cut, strlen(out->cut)).s, out->put);
    return 0;
}
