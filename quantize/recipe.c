// SPDX-License-Identifier: MIT
/* quantize/recipe.c - the presets of recipes.def: (recipe, class, condition) -> type.
 *
 * The class of a tensor comes from the architecture's table; for tensors that it does not list, and
 * for unknown architectures, from the name. Rows that do not fit blocks of 256 fall back to types
 * with blocks of 32, and to F16 if those do not fit either. Depends only on names and shapes. */
#include "quantize/recipe.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "quantize/quantize.h"

enum cls {
    CLS_NONE,
    CLS_V,
    CLS_K,
    CLS_Q,
    CLS_O,
    CLS_DOWN,
    CLS_UP,
    CLS_OUT,
    CLS_EMBD,
    CLS_EXPS, /* by shape: several matrices */
    /* The classes below are for named recipes only. */
    CLS_ATTN_V,
    CLS_SSM_OUT,
    CLS_AB,
    CLS_SHEXP,
    CLS_ACTIVE, /* used by every token: attention, ssm, shared experts */
    CLS_COUNT
};
enum cond {
    COND_ALWAYS,
    COND_BELOW,
    COND_PART,
    COND_MORE,
    COND_GQA,
    COND_EXPERTS,
    COND_PART_IMAT,
    COND_PART_NO_IMAT,
    COND_NO_IMAT,
    COND_MIDDLE,
    COND_MORE_EXPERTS,
    COND_GQA_OR_EXPERTS,
    COND_EDGE
};
struct recipe {
    const char *name;
    enum qtype type;
    /* Base recipe and description of a named recipe; NULL for presets. */
    const char *base, *about;
};
struct rule {
    const char *arch; /* NULL: all architectures */
    const char *recipe;
    enum cls cls;
    enum cond cond;
    int64_t arg;
    enum qtype type;
};

#define RECIPE(name, type) {name, QT_##type, NULL, NULL},
#define NAMED(name, type, base, about)
#define RULE(recipe, cls, cond, arg, type)
static const struct recipe recipes[] = {
#include "quantize/recipes.def"
};
#undef RECIPE
#undef NAMED
#define RECIPE(name, type)
#define NAMED(name, type, base, about) {name, QT_##type, base, about},
static const struct recipe named_recipes[] = {
#include "quantize/recipes.def"
};
#undef NAMED
#undef RULE
#define NAMED(name, type, base, about)
#define RULE(recipe, cls, cond, arg, type) RULE_OF(NULL, recipe, cls, cond, arg, type)
#define RULE_OF(arch, recipe, cls, cond, arg, type)                                                \
    {arch, recipe, CLS_##cls, COND_##cond, arg, QT_##type},
static const struct rule rules[] = {
#include "quantize/recipes.def"
};
#undef RECIPE
#undef NAMED
#undef RULE

#define RECIPE(name, type)
#define NAMED(name, type, base, about)
#define RULE(recipe, cls, cond, arg, type)
#undef LIFT
#define LIFT(cls, from, to) {CLS_##cls, QT_##from, QT_##to},
static const struct {
    enum cls cls;
    enum qtype from, to;
} lifts[] = {
#include "quantize/recipes.def"
};
#undef RECIPE
#undef NAMED
#undef RULE

const char *recipe_name(int i) {
    return i >= 0 && i < (int)COUNT_OF(recipes) ? recipes[i].name : NULL;
}

const char *recipe_named(int i) {
    return i >= 0 && i < (int)COUNT_OF(named_recipes) ? named_recipes[i].name : NULL;
}

/* Finds a recipe by name, ignoring case. Returns NULL if unknown. */
static const struct recipe *lookup(const char *name) {
    for (size_t i = 0; i < COUNT_OF(recipes); i++)
        if (strcasecmp(recipes[i].name, name) == 0) return &recipes[i];
    for (size_t i = 0; i < COUNT_OF(named_recipes); i++)
        if (strcasecmp(named_recipes[i].name, name) == 0) return &named_recipes[i];
    return NULL;
}

const char *recipe_find(const char *name) {
    const struct recipe *r = lookup(name);
    return r ? r->name : NULL;
}

/* Returns whether the letters and digits of both are equal, ignoring case. */
static bool same_letters(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a && !isalnum((unsigned char)*a)) a++;
        while (*b && !isalnum((unsigned char)*b)) b++;
        if (!*a || !*b) return !*a && !*b;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
    }
}

const char *recipe_like(const char *name) {
    for (int i = 0; recipe_name(i); i++)
        if (same_letters(recipe_name(i), name)) return recipe_name(i);
    for (int i = 0; recipe_named(i); i++)
        if (same_letters(recipe_named(i), name)) return recipe_named(i);
    for (int i = 0; recipe_named(i); i++) { /* bartowski-Q5_K_L for Q5_K_L */
        const char *part = strchr(recipe_named(i), '-');
        if (part && same_letters(part + 1, name)) return recipe_named(i);
    }
    return NULL;
}

const char *recipe_about(const char *name) {
    const struct recipe *r = lookup(name);
    return r ? r->about : NULL;
}

enum qtype recipe_default(const char *recipe) {
    const struct recipe *r = lookup(recipe);
    return r ? r->type : QT_F32;
}

int recipe_ftype_of_type(enum qtype t) {
    const struct qtype_info *q = qtype_info((int64_t)t);
    return q ? qtype_ftype_id(q->file_type ? q->file_type : q->name) : -1;
}

/* ---- roles ----------------------------------------------------------------------------------- */

// clang-format off
/* Name parts of tensors that are never quantized in any architecture. */
static const char *const kept_parts[] = {
    "_norm.weight", "ffn_gate_inp", "ffn_gate_tid2eid", "altup", "laurel", "per_layer_model_proj", "position_embd",
    "pos_embd", "token_types", "ssm_conv1d", "shortconv.conv", "indexer.k_proj", "indexer.q_proj", "time_mix_", "attn_rel_b",
    "patch_embd", "position_embed", "sam.", "codebook",
};
/* Roles by name, for tensors that no architecture table lists; longer parts first. `fine`:
 * llama.cpp's presets do not know the name and use the default type, also if a table lists it;
 * named recipes and mixes still use the role. */
static const struct { const char *part; enum role role; bool fine; } named_roles[] = {
    {"per_layer_token_embd.weight", ROLE_PLE_EMBD, 0}, {"token_embd.weight", ROLE_TOKEN_EMBD, 0},
    {"attn_output.weight", ROLE_ATTN_OUTPUT, 0}, {"attn_qkv.weight", ROLE_ATTN_QKV, 0},
    {"attn_kv_b.weight", ROLE_ATTN_V, 0}, {"attn_v.weight", ROLE_ATTN_V, 0}, {"attn_k.weight", ROLE_ATTN_K, 0},
    {"attn_q.weight", ROLE_ATTN_Q, 0}, {"attn_gate.weight", ROLE_ATTN_GATE, 0}, {"ssm_alpha.weight", ROLE_SSM_ALPHA, 0},
    {"ssm_beta.weight", ROLE_SSM_BETA, 0}, {"ssm_out.weight", ROLE_SSM_OUT, 0}, {"shortconv.out_proj.weight", ROLE_SSM_OUT, 0},
    {"ssm_in.weight", ROLE_SSM_IN, 0}, {"shortconv.in_proj.weight", ROLE_SSM_IN, 0}, {"ffn_gate_up_exps.weight", ROLE_EXP_GATE_UP, 0},
    {"ffn_down_exps.weight", ROLE_EXP_DOWN, 0}, {"ffn_gate_exps.weight", ROLE_EXP_GATE, 0}, {"ffn_up_exps.weight", ROLE_EXP_UP, 0},
    {"ffn_down_shexp.weight", ROLE_SHEXP_DOWN, 0}, {"ffn_gate_shexp.weight", ROLE_SHEXP_GATE, 0}, {"ffn_up_shexp.weight", ROLE_SHEXP_UP, 0},
    {"ffn_down", ROLE_FFN_DOWN, 0}, {"ffn_gate", ROLE_FFN_GATE, 0}, {"ffn_up", ROLE_FFN_UP, 0},
    {"attn_kv_a_mqa.weight", ROLE_ATTN_V, 1}, {"attn_kv.weight", ROLE_ATTN_V, 1}, {"attn_v_b.weight", ROLE_ATTN_V, 1},
    {"attn_k_b.weight", ROLE_ATTN_K, 1}, {"attn_q_a.weight", ROLE_ATTN_Q, 1}, {"attn_q_b.weight", ROLE_ATTN_Q, 1},
    {"attn_output_a.weight", ROLE_ATTN_OUTPUT, 1}, {"attn_output_b.weight", ROLE_ATTN_OUTPUT, 1},
    {"ssm_ba.weight", ROLE_SSM_ALPHA, 1}, {"ssm_dt.weight", ROLE_SSM_ALPHA, 1}, {"ssm_x.weight", ROLE_SSM_ALPHA, 1},
    {"ssm_f_", ROLE_SSM_ALPHA, 1}, {"ssm_g_", ROLE_SSM_ALPHA, 1}, {"nextn.eh_proj.weight", ROLE_MTP_PROJ, 1},
};
static const uint8_t role_class[ROLE_COUNT] = {
    [ROLE_ATTN_V] = CLS_V, [ROLE_ATTN_QKV] = CLS_V, [ROLE_ATTN_K] = CLS_K, [ROLE_ATTN_Q] = CLS_Q, [ROLE_ATTN_OUTPUT] = CLS_O,
    [ROLE_FFN_DOWN] = CLS_DOWN, [ROLE_EXP_DOWN] = CLS_DOWN, [ROLE_SHEXP_DOWN] = CLS_DOWN,
    [ROLE_FFN_GATE] = CLS_UP, [ROLE_FFN_UP] = CLS_UP, [ROLE_EXP_GATE] = CLS_UP, [ROLE_EXP_UP] = CLS_UP, [ROLE_EXP_GATE_UP] = CLS_UP,
    [ROLE_SHEXP_GATE] = CLS_UP, [ROLE_SHEXP_UP] = CLS_UP, [ROLE_OUTPUT] = CLS_OUT, [ROLE_TOKEN_EMBD] = CLS_EMBD,
    [ROLE_PLE_EMBD] = CLS_EMBD,
};
// clang-format on

/* Returns the block number in a tensor's name; -1: it has none. */
static int block_of(const char *name) {
    if (strncmp(name, "blk.", 4) != 0) return -1;
    int v = 0, n = 0;
    for (const char *p = name + 4; *p >= '0' && *p <= '9' && n < 5; p++, n++)
        v = 10 * v + (*p - '0');
    return n ? v : -1;
}

/* Sets the role of a tensor from its name alone. */
static void role_by_name(struct recipe_item *it) {
    it->role = strcmp(it->name, "output.weight") == 0 ? ROLE_OUTPUT : ROLE_OTHER;
    it->fine = false;
    for (size_t i = 0; i < COUNT_OF(named_roles) && it->role == ROLE_OTHER; i++)
        if (strstr(it->name, named_roles[i].part)) {
            it->role = named_roles[i].role;
            it->fine = named_roles[i].fine;
        }
}

/* Returns whether a tensor is a weight matrix that recipes may quantize. */
static bool is_quantizable(const struct recipe_item *it, const struct tensor_row *row) {
    const struct qtype_info *qi = qtype_info(it->from);
    if (!qi || !(qi->flags & (QF_FLOAT | QF_QUANT))) return false;
    if (it->ne[1] * it->ne[2] * it->ne[3] <= 1 || !str_ends(it->name, "weight")) return false;
    if (row && ((row->flags & TR_F32) || row->role == ROLE_OTHER)) return false;
    for (size_t i = 0; i < COUNT_OF(kept_parts); i++)
        if (strstr(it->name, kept_parts[i])) return false;
    return true;
}

void recipe_roles(const struct recipe_model *m, struct recipe_item *it, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int block = -1;
        const struct tensor_row *row = m->arch ? arch_row(m->arch, it[i].name, &block) : NULL;
        role_by_name(&it[i]);
        if (row) {
            it[i].fine |= it[i].role == ROLE_OTHER;
            it[i].role = row->role;
        }
        it[i].block = row ? block : block_of(it[i].name);
        it[i].quant = is_quantizable(&it[i], row);
        it[i].ours = !it[i].quant && is_quantizable(&it[i], NULL);
    }
}

/* Returns whether a key has a value that is an integer, or an array of such values. */
static bool has_integers(const struct gguf_kv *kv) {
    if (!kv || !kv->count) return false;
    const enum gguf_vtype t = kv->type == GV_ARR ? kv->elem : kv->type;
    return t != GV_STR && t != GV_ARR && t != GV_F32 && t != GV_F64;
}

/* Returns the largest value of an integer key, which may be a per-layer array; 0: missing. */
static int64_t key_max(const struct gguf *g, const char *arch, const char *key) {
    char name[160];
    int64_t best = 0;
    if (snprintf(name, sizeof name, "%s.%s", arch, key) >= (int)sizeof name) return 0;
    const struct gguf_kv *kv = gguf_find(g, name);
    if (!has_integers(kv)) return 0;
    for (uint64_t i = 0; i < kv->count; i++) best = max_i64(best, gguf_kv_i64(kv, i));
    return best;
}

/* Returns the value of an integer key, or `missing` without the key. Of a per-layer array, returns
 * the first value, as llama.cpp's rules do; in hybrid models, block 0 may have no heads. */
static int64_t key_first(const struct gguf *g, const char *arch, const char *key, int64_t missing) {
    char name[160];
    if (snprintf(name, sizeof name, "%s.%s", arch, key) >= (int)sizeof name) return missing;
    const struct gguf_kv *kv = gguf_find(g, name);
    return has_integers(kv) ? gguf_kv_i64(kv, 0) : missing;
}

void recipe_model_from(struct recipe_model *m, const struct gguf *g) {
    const char *arch = gguf_str_or(g, "general.architecture", "");
    *m = (struct recipe_model){.arch = arch_find_table(arch)};
    if (strlen(arch) < sizeof m->name) memcpy(m->name, arch, strlen(arch) + 1);
    m->n_blocks = key_max(g, arch, "block_count");
    m->n_mtp = key_max(g, arch, "nextn_predict_layers");
    m->heads = key_first(g, arch, "attention.head_count", 0);
    m->kv_heads = key_first(g, arch, "attention.head_count_kv", m->heads);
    m->experts = key_max(g, arch, "expert_count");
    m->experts_used = key_max(g, arch, "expert_used_count");
    m->tied = gguf_find_tensor(g, "output.weight") == NULL;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Place of a tensor among those that llama.cpp's presets count together: the i-th of n. */
struct place {
    int64_t i, n;
};

/* Returns whether the model has this value of general.architecture. */
static bool is_arch(const struct recipe_model *m, const char *name) {
    return strcmp(m->arch ? m->arch->name : m->name, name) == 0;
}

/* Returns whether block i of n gets more bits: blocks in the first and last eighth do, and every
 * third block in between. */
static bool is_more_bits(int64_t i, int64_t n) {
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* Returns whether the rule applies to a tensor at this place. */
static bool rule_holds(const struct rule *r, const struct recipe_model *m, struct place at) {
    const int64_t i = at.i, n = at.n;
    switch (r->cond) {
    case COND_ALWAYS:
        return true;
    case COND_BELOW:
        return i < r->arg;
    case COND_PART:
        return i < n / r->arg;
    case COND_MORE:
        return is_more_bits(i, n);
    case COND_GQA:
        return m->kv_heads > 0 && m->heads / m->kv_heads >= r->arg;
    case COND_EXPERTS:
        return m->experts == r->arg;
    case COND_PART_IMAT:
        return m->imatrix && i < n / r->arg;
    case COND_PART_NO_IMAT:
        return !m->imatrix && i < n / r->arg;
    case COND_NO_IMAT:
        return !m->imatrix;
    case COND_MIDDLE:
        return i >= n / r->arg && i < (r->arg - 1) * n / r->arg;
    case COND_MORE_EXPERTS:
        return m->experts == r->arg && is_more_bits(i, n);
    case COND_EDGE:
        return i < div_up(n, r->arg) || i >= n - div_up(n, r->arg);
    case COND_GQA_OR_EXPERTS:
        return m->experts >= r->arg || (m->kv_heads > 0 && m->heads / m->kv_heads >= r->arg);
    }
    return false;
}

/* Returns whether a recipe is one of the 1- and 2-bit ones, which share no rules with the rest. */
static bool is_low(const char *recipe) {
    return strncmp(recipe, "IQ1", 3) == 0 || strncmp(recipe, "IQ2", 3) == 0;
}

/* Returns whether a rule applies to a recipe and model. "*" rules exclude the 1- and 2-bit recipes,
 * which have their own rules for eight experts. */
static bool rule_is_of(const struct rule *r, const char *recipe, const struct recipe_model *m) {
    if (r->arch && !is_arch(m, r->arch)) return false;
    return strcmp(r->recipe, "*") != 0 ? strcmp(r->recipe, recipe) == 0 : !is_low(recipe);
}

/* Returns whether llama.cpp would treat the model as a 70B, which it knows by the length of the
 * trunk and, in Llama, by key heads that are fewer than query heads. */
static bool is_70b(const struct recipe_model *m) {
    static const struct {
        const char *arch;
        int64_t n_layers;
        bool shared; /* only with shared key heads */
    } big[] = {{"llama", 80, true},
               {"llama-embed", 80, true},
               {"deci", 80, false},
               {"qwen2", 80, false},
               {"jais2", 68, false}};
    for (size_t i = 0; i < COUNT_OF(big); i++)
        if (is_arch(m, big[i].arch))
            return m->n_blocks - m->n_mtp == big[i].n_layers && m->experts != 8 &&
                   (!big[i].shared || m->heads != m->kv_heads);
    return false;
}

/* Adjusts the type t that the rules chose: in 70B models the attention value weights get a larger
 * type, because many heads share them. */
static enum qtype lift(const struct recipe *r, enum role role, const struct recipe_model *m,
                       enum qtype t) {
    if (!r || r->about || is_low(r->name) || !is_70b(m)) return t;
    for (size_t i = 0; i < COUNT_OF(lifts); i++)
        if (lifts[i].from == t && (enum cls)role_class[role] == lifts[i].cls) return lifts[i].to;
    return t;
}

/* Returns whether tensors of this role belong to the class; several: the model has experts. */
static bool in_class(enum cls want, enum role role, bool several) {
    static const struct {
        enum role role;
        enum cls cls; /* classes in addition to role_class */
    } fine[] = {
        {ROLE_ATTN_V, CLS_ATTN_V},     {ROLE_SSM_OUT, CLS_SSM_OUT},  {ROLE_SSM_IN, CLS_ACTIVE},
        {ROLE_SSM_ALPHA, CLS_AB},      {ROLE_SSM_BETA, CLS_AB},      {ROLE_SHEXP_GATE, CLS_SHEXP},
        {ROLE_SHEXP_UP, CLS_SHEXP},    {ROLE_SHEXP_DOWN, CLS_SHEXP}, {ROLE_ATTN_Q, CLS_ACTIVE},
        {ROLE_ATTN_K, CLS_ACTIVE},     {ROLE_ATTN_QKV, CLS_ACTIVE},  {ROLE_ATTN_GATE, CLS_ACTIVE},
        {ROLE_ATTN_OUTPUT, CLS_ACTIVE}};
    if (role_class[role] == want || (want == CLS_EXPS && several)) return true;
    for (size_t i = 0; i < COUNT_OF(fine); i++)
        if (fine[i].role == role) return want == CLS_ACTIVE || fine[i].cls == want;
    return false;
}

/* Returns the type from the first matching rule of the recipe or its base; `other` if none
 * matches. */
static enum qtype by_rules(const char *recipe, enum role role, bool several,
                           const struct recipe_model *m, struct place at, enum qtype other) {
    const struct recipe *self = lookup(recipe);
    for (size_t k = 0; k < COUNT_OF(rules); k++) {
        const struct rule *r = &rules[k];
        if (in_class(r->cls, role, several) && rule_is_of(r, recipe, m) && rule_holds(r, m, at))
            return lift(self, role, m, r->type);
    }
    return self && self->base ? by_rules(self->base, role, several, m, at, other)
                              : lift(self, role, m, other);
}

bool recipe_needs_imatrix(const char *recipe, const struct recipe_item *it) {
    if (it->role == ROLE_TOKEN_EMBD || it->role == ROLE_PLE_EMBD || it->role == ROLE_OUTPUT)
        return false;
    if (it->type == QT_Q2_K) return recipe && strcmp(recipe, "Q2_K_S") == 0;
    return (qtype_info((int64_t)it->type)->flags & QF_NEEDS_IMPORTANCE) != 0;
}

/* Sets the type, or a fallback if the rows are not whole blocks of it. llama.cpp falls back to Q4_0
 * where hone takes IQ4_NL. */
static void set_type(struct recipe_item *it, enum qtype t) {
    it->type = qtype_fit(t, it->ne[0]);
    it->fallback = it->type != t;
    it->ours = (t == QT_Q2_K || t == QT_Q3_K) && it->type == QT_IQ4_NL;
}

bool recipe_suits_drafts(enum qtype t) {
    return qtype_row_bytes(t, QK) >= qtype_row_bytes(QT_Q4_K, QK);
}

bool recipe_allows(const struct recipe_model *m, const struct recipe_item *it, enum qtype t) {
    const bool draft = (m->arch && m->arch->draft) ||
                       (m->n_mtp > 0 && it->block >= 0 && it->block >= m->n_blocks - m->n_mtp);
    return !draft || !it->quant || recipe_suits_drafts(t);
}

struct order {
    int64_t index;
    int block;
    const char *name;
};

/* Orders tensors by block, then by name, as llama.cpp's quantizer visits them, for qsort. */
static int by_block(const void *a, const void *b) {
    const struct order *x = a, *y = b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Counters of the tensors visited so far. */
struct counts {
    bool own; /* a named recipe, which counts layers instead of tensors */
    int64_t seen[CLS_COUNT], seen_up[ROLE_COUNT];
    int64_t n_values; /* tensors of the class V */
};

/* Returns the role that the rules use: presets do not know some names. */
static enum role rule_role(const struct recipe_item *t, bool own) {
    return t->fine && !own ? ROLE_OTHER : t->role;
}

/* Counts the tensor and returns its place. In models with experts, feed-forward tensors are counted
 * by layer, except by the IQ1 and IQ2 presets. */
static struct place next_place(struct counts *c, const char *recipe, const struct recipe_model *m,
                               const struct recipe_item *t, enum role role) {
    const enum cls cls = (enum cls)role_class[role];
    /* Gate and up have separate counters. */
    struct place at = {cls == CLS_UP ? c->seen_up[role]++ : c->seen[cls]++, m->n_blocks};
    const bool ffn = (cls == CLS_DOWN || cls == CLS_UP) && m->experts > 1 && !is_low(recipe);
    if ((c->own || ffn) && t->block >= 0) at.i = t->block;
    if (cls == CLS_V && !c->own) at.n = c->n_values;
    return at;
}

/* Returns whether a tensor gets the type of the output. Presets give it to every embedding of a
 * model without output.weight. */
static bool is_output(const struct recipe_model *m, const struct recipe_item *t, enum role role,
                      bool own) {
    if (role == ROLE_OUTPUT) return true;
    return m->tied && t->block < 0 && (role == ROLE_TOKEN_EMBD || (role == ROLE_PLE_EMBD && !own));
}

/* Returns the type of output.weight, or of the embedding if it is also the output. */
static enum qtype output_type(const char *recipe, const struct recipe_model *m, int64_t ne0) {
    if (recipe_default(recipe) == QT_Q8_0 || ne0 % QK != 0) return QT_Q8_0;
    if (is_arch(m, "falcon") && !recipe_about(recipe)) return QT_Q8_0;
    return by_rules(recipe, ROLE_OUTPUT, false, m, (struct place){0, m->n_blocks}, QT_Q6_K);
}

/* Returns whether MXFP4_MOE takes the tensor for matrices of experts: if it has several matrices,
 * except latent attention in this architecture. */
static bool is_several(const struct recipe_model *m, const struct recipe_item *t, enum role role) {
    const enum cls cls = (enum cls)role_class[role];
    return t->ne[2] > 1 && (!is_arch(m, "bailingmoe3") || cls == CLS_DOWN || cls == CLS_UP);
}

/* Sets the type that the recipe's rules give. */
static void apply_rules(const char *recipe, const struct recipe_model *m, struct recipe_item *t,
                        struct counts *c) {
    const enum role role = rule_role(t, c->own);
    const struct place at = next_place(c, recipe, m, t, role);
    if (is_output(m, t, role, c->own))
        set_type(t, output_type(recipe, m, t->ne[0]));
    else
        set_type(t, by_rules(recipe, role, is_several(m, t, role), m, at, recipe_default(recipe)));
    if (recipe_allows(m, t, t->type)) return;
    set_type(t, QT_Q4_K);
    t->ours = true;
}

void recipe_apply(const char *recipe, enum qtype uniform, const struct recipe_model *m,
                  struct recipe_item *it, int64_t n) {
    const enum qtype base = recipe ? recipe_default(recipe) : uniform;
    const bool ruled = recipe && (qtype_info(base)->flags & QF_QUANT);
    struct counts c = {.own = recipe && recipe_about(recipe)};
    struct order *ord = xreallocarray(NULL, (size_t)n + 1, sizeof *ord);
    for (int64_t i = 0; i < n; i++) {
        ord[i] = (struct order){i, it[i].block, it[i].name};
        c.n_values += it[i].quant && role_class[rule_role(&it[i], c.own)] == CLS_V;
    }
    qsort(ord, (size_t)n, sizeof *ord, by_block);
    for (int64_t o = 0; o < n; o++) {
        struct recipe_item *t = &it[ord[o].index];
        t->type = t->from;
        t->fallback = false;
        if (t->quant && ruled)
            apply_rules(recipe, m, t, &c);
        else if (t->quant)
            set_type(t, base);
    }
    free(ord);
}

int64_t recipe_keep_released(struct recipe_item *it, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!it[i].quant || !(qtype_info(it[i].from)->flags & QF_RELEASED) ||
            it[i].type == it[i].from ||
            qtype_row_bytes(it[i].type, it[i].ne[0]) < qtype_row_bytes(it[i].from, it[i].ne[0]))
            continue;
        it[i].type = it[i].from;
        it[i].fallback = false;
        kept++;
    }
    return kept;
}
