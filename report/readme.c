// SPDX-License-Identifier: MIT
/* report/readme.c - README.md of the output folder, written from results.json: front matter for the
 * Hub, the recommendation, files, commands, method. Text from the model's metadata is escaped. */
#include <string.h>

#include "base/json.h"
#include "report/card.h"
#include "report/pick.h"
#include "report/report_text.h"
#include "report/versus.h"

/* Writes a list of the front matter; more: values to write first, or NULL. */
static void put_list(struct buf *out, const char *key, const char *const *v, int n,
                     const char *const *more) {
    if (!n && !(more && more[0])) return;
    buf_fmt(out, "%s:\n", key);
    for (int i = 0; more && more[i]; i++) buf_fmt(out, "- %s\n", more[i]);
    for (int i = 0; i < n; i++) {
        bool twice = false;
        for (int k = 0; more && more[k]; k++) twice |= strcmp(more[k], v[i]) == 0;
        for (int k = 0; k < i; k++) twice |= strcmp(v[k], v[i]) == 0;
        if (twice) continue;
        buf_str(out, "- ");
        json_quote(out, v[i], strlen(v[i]));
        buf_chr(out, '\n');
    }
}

bool card_is_repo(const char *s) {
    static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t a = strspn(s, ok), b = s[a] == '/' ? strspn(s + a + 1, ok) : 0;
    return a && b && !s[a + 1 + b];
}

/* Returns the Hub's task of the model; rel may be NULL. */
static const char *task_tag(const struct release *rel) {
    static const char *const known[] = {"image-text-to-text", "any-to-any", "text2text-generation",
                                        "feature-extraction"};
    if (rel && rel->n_mmproj) return known[0];
    for (int i = 0; rel && i < rel->n_tags; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(rel->tag[i], known[k]) == 0) return known[k];
    return "text-generation";
}

/* Writes the keys that the Hub evaluates. Omits a base model that the Hub could not link to. */
static void front_matter(const struct result *r, const struct release *rel, struct buf *out) {
    static const char *const tags[] = {"gguf", "hone", NULL};
    static const char *const more[] = {"gguf", "hone", "imatrix", NULL};
    const char *base = rel && *rel->base_model ? rel->base_model : r ? r->base_name : "";
    const char *license = rel && *rel->license ? rel->license : r ? r->license : "";
    buf_str(out, "---\n");
    if (card_is_repo(base)) yaml_field(out, "base_model", base);
    buf_str(out, "base_model_relation: quantized\nlibrary_name: gguf\n");
    buf_fmt(out, "pipeline_tag: %s\n", task_tag(rel));
    if (*license) yaml_field(out, "license", license);
    if (rel && *rel->license_name) yaml_field(out, "license_name", rel->license_name);
    if (rel && *rel->license_link) yaml_field(out, "license_link", rel->license_link);
    if (rel && rel->quantized_by) yaml_field(out, "quantized_by", rel->quantized_by);
    if (rel) put_list(out, "language", rel->language, rel->n_languages, NULL);
    bool im = rel && rel->has_imatrix;
    put_list(out, "tags", rel ? rel->tag : NULL, rel ? rel->n_tags : 0, im ? more : tags);
    buf_str(out, "---\n\n" README_MARK "\n\n");
}

/* Writes the recommendation from the results of hone make. */
static void put_take(const struct result *r, struct buf *out) {
    struct buf text = {0};
    pick_head(r, &text);
    if (text.len) {
        buf_str(out, "**");
        md_text(out, text.data);
        buf_str(out, "** ");
        buf_reset(&text);
        pick_numbers(r, &text);
        buf_chr(&text, ' ');
        pick_others(r, &text);
        md_text(out, text.data ? text.data : "");
        buf_str(out, "\n\n");
    }
    buf_release(&text);
}

/* Writes the recommendation, the first section of the card. */
static void answer(const struct result *r, struct buf *out) {
    put_take(r, out);
    if (r->base_is_quantized) {
        buf_str(out, "The base of these files was already quantized");
        if (*r->base_type) {
            buf_str(out, " (");
            md_text(out, r->base_type);
            buf_chr(out, ')');
        }
        buf_str(out, ". The losses below are measured against it, and add to the loss "
                     "it already has.\n\n");
    }
}

/* Writes the recommendation from the results of hone versus, without those of hone make. */
static void compared_answer(const struct release *rel, const cJSON *versus, struct buf *out) {
    struct result seen;
    if (!versus_result(&seen, rel, versus)) return;
    put_take(&seen, out);
    card_glance(&seen, rel, versus, out);
    result_close(&seen);
}

/* Appends the inside of a code span. */
static void code_text(struct buf *out, const char *s) {
    for (; *s; s++) buf_chr(out, *s == '`' || (unsigned char)*s < 0x20 ? ' ' : *s);
}

/* Lists the calibration texts and describes the built-in ones. */
static void calibration(const struct result *r, struct buf *out) {
    bool any = false;
    for (const cJSON *t = doc_first(r->calib_texts); t; t = t->next) {
        const char *name = cJSON_GetStringValue(t) ? cJSON_GetStringValue(t) : doc_str(t, "name"),
                   *about = doc_str(t, "about");
        if (!name) continue;
        buf_str(out, any ? "; `" : "- Calibration text: `");
        code_text(out, name);
        buf_chr(out, '`');
        if (about) {
            buf_str(out, ", ");
            md_text(out, about);
        }
        any = true;
    }
    if (any) buf_str(out, ".\n");
}

const char *card_base_file(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (r->file[i].is_base) return r->file[i].file;
    return r->base_name;
}

/* Writes the texts of a list as Markdown items. */
static void put_sentences(const cJSON *list, const char *lead, struct buf *out) {
    for (const cJSON *n = doc_first(list); n; n = n->next) {
        if (!cJSON_GetStringValue(n)) continue;
        buf_str(out, lead);
        md_text(out, cJSON_GetStringValue(n));
        buf_chr(out, '\n');
    }
}

static void put_how(const struct result *r, struct buf *out) {
    buf_str(out, "\n## How this was made and measured\n\n");
    buf_str(out, "- Tool: hone ");
    md_text(out, r->version);
    buf_str(out, ". Base: `");
    code_text(out, card_base_file(r));
    buf_str(out, "`.\n");
    buf_fmt(out, "- Importance matrix: %lld chunks of %lld tokens.\n", (long long)r->imatrix_chunks,
            (long long)r->imatrix_chunk_size);
    calibration(r, out);
    buf_fmt(out, "- Evaluation: %lld scored tokens in %lld chunks of %lld from ",
            (long long)r->eval_tokens, (long long)r->eval_chunks, (long long)r->eval_ctx);
    md_list(out, r->eval_texts);
    buf_str(out,
            "; second half of each chunk scored, weights dequantized, activations in 32 bits, so "
            "only the error of the weights is measured.\n");
    put_sentences(r->notes, "- ", out);
    put_sentences(r->left_out, "- Left out: ", out);
}

/* Writes the credits for the authors of the model and of the files, and the license. */
static void credits(const struct result *r, const struct release *rel, struct buf *out) {
    const char *base = *rel->base_model ? rel->base_model : r ? r->base_name : "";
    buf_str(out, "\n## Credits\n\n- The model: ");
    if (card_is_repo(base))
        buf_fmt(out, "[%s](https://huggingface.co/%s)", base, base);
    else
        md_text(out, *base ? base : rel->title);
    buf_str(out, "; see its card for training, intended use and limitations.\n");
    if (*rel->license) {
        buf_str(out, "- License, as of the original: ");
        md_text(out, *rel->license_name ? rel->license_name : rel->license);
        buf_str(out, ".\n");
    }
    buf_str(out, "- Files");
    if (rel->quantized_by && *rel->quantized_by) {
        buf_str(out, " by ");
        md_text(out, rel->quantized_by);
    }
    buf_str(out, r ? ", made and measured with hone.\n" : "; this card was written by hone.\n");
}

/* Writes the architecture, the parameters and the context in parentheses. */
static void numbers_of(const struct release *rel, struct buf *out) {
    char params[24];
    text_params(params, rel->n_params);
    buf_str(out, " (");
    md_text(out, rel->arch);
    buf_fmt(out, ", %s parameters, context %lld)", params, (long long)rel->ctx);
}

/* Explains what drafts are for, and writes the measured share of accepted ones of each file. */
static void put_drafts(const struct release *rel, struct buf *out) {
    static const double z = 1.96; /* 95 % */
    bool any = false;
    buf_str(out, "**A draft, not a complete model**: it guesses the next tokens, and its model "
                 "checks them, so the model's answers do not change.\n\n");
    for (int i = 0; i < rel->n_files; i++) {
        const struct release_file *f = &rel->file[i];
        if (f->n_drafts <= 0) continue;
        if (!any)
            buf_fmt(out, "**Accepted guesses**, of %.0f along the evaluation text: ", f->n_drafts);
        buf_str(out, any ? ", " : "");
        md_text(out, *f->encoding ? f->encoding : f->file);
        buf_fmt(out, " %.1f &plusmn; %.1f %%", f->acceptance * 100, z * f->acceptance_stderr * 100);
        any = true;
    }
    buf_str(out, any ? "."
                     : "**Not listed**: how many of these guesses the model accepts, in each "
                       "of the files.");
    buf_str(out, " No matrix has a type below Q4_K, because drafts are accepted less often below "
                 "it.\n\n");
}

void report_readme(const struct result *r, const struct release *rel, const cJSON *versus,
                   struct buf *out) {
    char params[24];
    const char *title = r ? r->name : rel->title;
    front_matter(r, rel, out);
    buf_str(out, "# ");
    md_text(out, title);
    buf_str(out, " GGUF\n\n");
    const char *base = rel && *rel->base_model ? rel->base_model : r ? r->base_name : "";
    buf_str(out, rel && rel->drafts ? "Draft of a model, quantized from " : "Quantized from ");
    if (card_is_repo(base))
        buf_fmt(out, "[%s](https://huggingface.co/%s)", base, base);
    else
        md_text(out, *base ? base : title);
    if (r) {
        text_params(params, r->n_params);
        buf_str(out, " (");
        md_text(out, r->arch);
        buf_str(out, *r->arch_note ? ", " : "");
        md_text(out, r->arch_note);
        buf_fmt(out, ", %s parameters, context %lld)", params, (long long)r->ctx);
    } else {
        numbers_of(rel, out);
    }
    buf_str(out, ".\n\n");
    if (rel && rel->fault) {
        buf_str(out, "**These files cannot chat yet**: ");
        md_text(out, rel->fault);
        buf_str(out, ".\n\n");
    }
    if (r) answer(r, out);
    if (r && rel) card_glance(r, rel, versus, out);
    if (!r && rel && versus) compared_answer(rel, versus, out);
    if (rel && rel->drafts)
        put_drafts(rel, out);
    else if (rel && rel->unknown) {
        buf_str(out, "**Not evaluated**: hone cannot run the architecture `");
        md_text(out, rel->arch);
        buf_str(out, "` in this form. Types were chosen by tensor names; the loss of each file is "
                     "unknown.\n\n");
    }
    if (r)
        card_files(r, rel, out);
    else
        card_plain_files(rel, out);
    card_extras(r, rel, out);
    if (rel) card_use(rel, out);
    if (rel) card_fit(r, rel, out);
    if (versus) {
        buf_str(out, "\n## Compared with other files\n\n");
        versus_markdown(versus, out);
    }
    if (r && rel) card_plots(r, out);
    if (r) report_images_md(r, out);
    if (r) report_tools_md(r, out);
    if (rel) card_prompt(rel, out);
    if (r) put_how(r, out);
    if (rel) credits(r, rel, out);
    if (r && rel)
        buf_str(
            out,
            "\nMore: `report.html` (speed, memory, plots) and `results.json` (every number).\n");
}
