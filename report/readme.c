// SPDX-License-Identifier: MIT
/* report/readme.c - results.json -> README.md of the output folder: front matter the Hub
 * understands, the table of files, how it was measured, how to use it. Text from the model's
 * metadata is escaped. */
#include <math.h>
#include <string.h>

#include "report/release.h"
#include "report/pick.h"
#include "report/report_text.h"
#include "report/result.h"

static void list(struct buf *out, const char *key, const char *const *v, int n,
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

static bool is_repo_id(const char *s) {
    const char *slash = strchr(s, '/');
    return slash && slash != s && slash[1] && !strchr(slash + 1, '/') && !strchr(s, ' ');
}

static const char *pipeline(const struct release *rel) {
    static const char *const known[] = {"image-text-to-text", "any-to-any", "text2text-generation",
                                        "feature-extraction"};
    for (int i = 0; rel && i < rel->n_tags; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(rel->tag[i], known[k]) == 0) return known[k];
    return "text-generation";
}

/* Writes keys and values that the Hub acts on. A base model that it could not link to is left out.
 */
static void front_matter(const struct result *r, const struct release *rel, struct buf *out) {
    static const char *const tags[] = {"gguf", "hone", NULL};
    static const char *const more[] = {"gguf", "hone", "imatrix", NULL};
    const char *base = rel && *rel->base_model ? rel->base_model : r ? r->base_name : "";
    const char *license = rel && *rel->license ? rel->license : r ? r->license : "";
    buf_str(out, "---\n");
    if (is_repo_id(base)) yaml_field(out, "base_model", base);
    buf_str(out, "base_model_relation: quantized\nlibrary_name: gguf\n");
    buf_fmt(out, "pipeline_tag: %s\n", pipeline(rel));
    if (*license) yaml_field(out, "license", license);
    if (rel && *rel->license_name) yaml_field(out, "license_name", rel->license_name);
    if (rel && *rel->license_link) yaml_field(out, "license_link", rel->license_link);
    if (rel && rel->quantized_by) yaml_field(out, "quantized_by", rel->quantized_by);
    if (rel) list(out, "language", rel->language, rel->n_languages, NULL);
    bool im = rel && rel->has_imatrix;
    list(out, "tags", rel ? rel->tag : NULL, rel ? rel->n_tags : 0, im ? more : tags);
    buf_str(out, "---\n\n" README_MARK "\n\n");
}

/* Writes a name; as it is, where Markdown does nothing with it. */
static void name_text(struct buf *out, const char *s) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (s[strspn(s, plain)])
        md_text(out, s);
    else
        buf_str(out, s);
}

static void text_cell(struct buf *out, struct buf *text) {
    buf_chr(out, ' ');
    md_text(out, text->data ? text->data : "");
    buf_str(out, " |");
    buf_reset(text);
}

static void file_row(const struct result *r, int i, const struct release *rel, struct buf *out) {
    const struct result_file *f = &r->file[i];
    struct buf text = {0};
    char size[32], gib[32];
    text_size(size, f->size_bytes);
    text_gib(gib, f->size_bytes);
    if (!rel || release_has(rel, f->file)) {
        buf_str(out, "| [");
        name_text(out, f->file);
        buf_fmt(out, "](%s) |", f->file);
    } else {
        buf_str(out, "| ");
        md_text(out, f->file);
        buf_str(out, " (not here) |");
    }
    buf_fmt(out, " %s (%s) |", size, gib);
    md_num(out, f->bpw, 2);
    if (i == pick_file(r)) buf_str(out, " **recommended**:");
    struct pick_grade g = pick_grade(r, i);
    if (i == pick_file(r))
        pick_grade_text(&g, &text);
    else
        pick_phrase(r, i, &text);
    text_cell(out, &text);
    if (f->is_base) {
        buf_str(out, " - | - |");
    } else {
        text_kld(&text, f->mean_kld, f->mean_kld_stderr);
        text_cell(out, &text);
        md_num(out, f->same_top1 * 100, 1);
    }
    const double gain = pick_gain(r, i);
    if (gain >= 1.05)
        buf_fmt(out, " %.*fx closer |", gain < 9.95 ? 1 : 0, gain);
    else
        buf_str(out, isfinite(gain) ? " equal |" : " - |");
    if (isfinite(f->ppl))
        buf_fmt(out, " %.4f ± %.4f |", f->ppl, f->ppl_stderr);
    else
        buf_str(out, " - |");
    md_num(out, f->pp_tok_per_s, 0);
    md_num(out, f->tg_tok_per_s, 1);
    buf_chr(out, '\n');
    buf_release(&text);
}

/* Writes what the words of the table and the numbers mean. */
static void legend(const struct result *r, struct buf *out) {
    buf_fmt(out,
            "\nKLD is the mean Kullback-Leibler divergence of each file's next-token distribution "
            "from that of %s, in nats, ± its standard error: 0 would be identical. The words:",
            pick_base_word(r));
    for (int i = 0; i + 1 < PICK_BANDS; i++)
        buf_fmt(out, "%s %s up to %g with the same most likely token at least %.0f %% of the time",
                i ? ";" : "", pick_bands[i].name, pick_bands[i].max_kld,
                pick_bands[i].min_top1 * 100);
    buf_str(out,
            "; beyond, heavy loss. Telling two models apart with odds of 20 to 1 takes 3 nats: at "
            "0.005 about 600 tokens of text. PPL compares files of this table only; KLD and the "
            "same token say more about a quant than PPL does.\n");
}

/* Writes what the column of gains means, where there is one. */
static void gain_legend(const struct result *r, struct buf *out) {
    bool any = false;
    for (int i = 0; i < r->n_files; i++) any |= isfinite(pick_gain(r, i));
    if (any)
        buf_fmt(out,
                "\n\"vs llama.cpp\": the mean KLD of llama.cpp's preset of the same size and name, "
                "measured on the same texts, divided by that of the file. The files have as many "
                "bytes; which types they hold was chosen by measurement.\n");
}

/* Writes the types inside each file, since some backends are slow with some of them. */
static void types(const struct result *r, struct buf *out) {
    struct buf text = {0};
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (f->is_base) continue;
        const size_t had = text.len;
        buf_fmt(&text, "- %s: ", pick_label(r, i));
        if (pick_types(r, i, &text))
            buf_chr(&text, '\n');
        else
            text.len = had;
    }
    if (text.len)
        buf_fmt(out, "\nTypes inside, by share of the bytes:\n\n%.*s", (int)text.len, text.data);
    buf_release(&text);
}

static void files(const struct result *r, const struct release *rel, struct buf *out) {
    buf_fmt(out,
            "## Files\n\n| file | size | bits per weight | what for | mean KLD | same token, %% | "
            "vs llama.cpp | PPL | pp%lld t/s | tg%lld t/s |\n"
            "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|\n",
            (long long)r->pp, (long long)r->tg);
    for (int i = 0; i < r->n_files; i++) file_row(r, i, rel, out);
    gain_legend(r, out);
    types(r, out);
    legend(r, out);
}

/* Writes which file to take, before everything else. */
static void answer(const struct result *r, struct buf *out) {
    struct buf text = {0};
    pick_sentence(r, &text);
    if (text.len) {
        buf_str(out, "**");
        md_text(out, text.data);
        buf_str(out, "**");
        buf_reset(&text);
        pick_others(r, &text);
        if (text.len) buf_chr(out, ' ');
        md_text(out, text.data ? text.data : "");
        buf_str(out, "\n\n");
    }
    if (r->base_is_quantized) {
        buf_str(out, "What these files were made from was quantized already");
        if (*r->base_type) {
            buf_str(out, " (");
            md_text(out, r->base_type);
            buf_chr(out, ')');
        }
        buf_str(out, ": the losses below are counted from that file and come on top of what it had "
                     "lost.\n\n");
    }
    buf_release(&text);
}

/* Writes links to the plots that publishing puts beside the card. */
static void plots(const struct result *r, struct buf *out) {
    struct buf ignored = {0};
    buf_str(out, "\n![size against mean KLD](kld.svg)\n");
    if (report_svg_kld_depth(r, false, &ignored))
        buf_str(out, "\n![KLD by depth](kld-depth.svg)\n");
    if (report_svg_speed_depth(r, false, &ignored))
        buf_str(out, "\n![speed by depth](speed-depth.svg)\n");
    buf_release(&ignored);
}

static void how(const struct result *r, struct buf *out) {
    buf_str(out, "\n## How this was made and measured\n\n");
    buf_fmt(out, "- Tool: hone %s. Base: `%s`.\n", r->version,
            r->n_files ? r->file[0].file : r->base_name);
    buf_fmt(out, "- Importance matrix: %lld chunks of %lld tokens from ",
            (long long)r->imatrix_chunks, (long long)r->imatrix_chunk_size);
    md_list(out, r->calib_texts);
    buf_fmt(out, ".\n- Evaluation: %lld scored tokens in %lld chunks of %lld from ",
            (long long)r->eval_tokens, (long long)r->eval_chunks, (long long)r->eval_ctx);
    md_list(out, r->eval_texts);
    buf_str(out,
            "; second half of each chunk scored, weights dequantized, activations in 32 bits, so "
            "only the error of the weights is seen.\n");
    buf_fmt(out, "- Speed: measured on %s; compare files with each other, not machines.\n",
            r->machine);
    for (const struct json *n = json_first(r->notes); n; n = json_next(n))
        if (json_str(n)) buf_fmt(out, "- %s\n", json_str(n));
    for (const struct json *n = json_first(r->left_out); n; n = json_next(n)) {
        if (!json_str(n)) continue;
        buf_str(out, "- Left out: ");
        md_text(out, json_str(n));
        buf_chr(out, '\n');
    }
}

/* Writes the sizes alone, where nothing was measured. */
static void plain_files(const struct release *rel, struct buf *out) {
    buf_str(out, "## Files\n\n| file | bytes | GiB | bpw |\n|---|---:|---:|---:|\n");
    for (int i = 0; i < rel->n_files; i++) {
        const struct release_file *f = &rel->file[i];
        buf_fmt(out, "| [%s](%s) | %llu | %.4f |", f->file, f->file,
                (unsigned long long)f->size_bytes, (double)f->size_bytes / 0x1p30);
        md_num(out, f->bpw, 2);
        buf_chr(out, '\n');
    }
}

static const char *label_of(const struct result *r, const struct release *rel, int file) {
    for (int k = 0; r && k < r->n_files; k++)
        if (strcmp(r->file[k].file, rel->file[file].file) == 0) return pick_label(r, k);
    return *rel->file[file].encoding ? rel->file[file].encoding : rel->file[file].file;
}

/* Writes one row: which file fits this memory with each context. */
static void fit_row(const struct result *r, const struct release *rel, const struct release_fit *f,
                    struct buf *out) {
    buf_fmt(out, "| %d GiB%s |", f->gib, rel->enough_gib[f->kind] == f->gib ? " and more" : "");
    for (int k = 0; k < RELEASE_CONTEXTS && rel->fit_ctx[k]; k++) {
        buf_chr(out, ' ');
        if (f->file[k] < 0)
            buf_str(out, "none");
        else
            md_text(out, label_of(r, rel, f->file[k]));
        if (f->file[k] >= 0 && f->cpu_moe[k]) buf_fmt(out, " `--n-cpu-moe %d`", f->cpu_moe[k]);
        buf_str(out, " |");
    }
    buf_chr(out, '\n');
}

static void fit_table(const struct result *r, const struct release *rel, int kind,
                      struct buf *out) {
    static const char *const title[RELEASE_MEMORIES] = {
        [RELEASE_GPU] = "GPU", [RELEASE_UNIFIED] = "Unified memory", [RELEASE_RAM] = "Main memory"};
    bool begun = false;
    for (int i = 0; i < rel->n_fits; i++) {
        if ((int)rel->fit[i].kind != kind) continue;
        if (!begun) {
            int n = 0;
            buf_fmt(out, "\n| %s |", title[kind]);
            for (; n < RELEASE_CONTEXTS && rel->fit_ctx[n]; n++) {
                char ctx[32];
                text_thousands(ctx, rel->fit_ctx[n]);
                buf_fmt(out, " %s tokens |", ctx);
            }
            buf_str(out, "\n|---:|");
            while (n--) buf_str(out, "---|");
            buf_chr(out, '\n');
        }
        begun = true;
        fit_row(r, rel, &rel->fit[i], out);
    }
}

/* Writes which memory is enough for the best file, for kinds without a table; false: none is. */
static bool enough(const struct result *r, const struct release *rel, struct buf *out) {
    static const char *const name[RELEASE_MEMORIES] = {[RELEASE_GPU] = "on a GPU",
                                                       [RELEASE_UNIFIED] = "of unified memory",
                                                       [RELEASE_RAM] = "of main memory"};
    bool any = false;
    for (int kind = 0; kind < RELEASE_MEMORIES; kind++) {
        bool rows = false;
        for (int i = 0; i < rel->n_fits; i++) rows |= (int)rel->fit[i].kind == kind;
        if (rows || !rel->enough_gib[kind]) continue;
        if (!any) {
            md_text(out, label_of(r, rel, rel->fit_best));
            buf_str(out, " fits with its whole context in");
        }
        buf_fmt(out, "%s %d GiB %s", any ? "," : "", rel->enough_gib[kind], name[kind]);
        any = true;
    }
    if (any) buf_str(out, ".\n");
    return any;
}

static void advice(const struct result *r, const struct release *rel, struct buf *out) {
    bool moe = false;
    if (!rel->fit_ctx[0] || rel->fit_best < 0) return;
    buf_str(out, "\n## What fits your memory\n\n");
    enough(r, rel, out);
    for (int kind = 0; kind < RELEASE_MEMORIES; kind++) fit_table(r, rel, kind, out);
    for (int i = 0; i < rel->n_fits; i++)
        for (int k = 0; k < RELEASE_CONTEXTS; k++) moe |= rel->fit[i].cpu_moe[k] > 0;
    if (rel->n_fits)
        buf_str(out,
                "\nNamed is the recommended file where it fits, else the closest to the "
                "original that does, for one conversation with keys and values "
                "in f16. A GPU keeps 1 GiB free; of unified memory macOS lets the GPU have two "
                "thirds (from 48 GiB three quarters); main memory leaves 3 GiB to the system.");
    if (moe)
        buf_str(out, " `--n-cpu-moe N` leaves the experts of the first N blocks in main memory: "
                     "slower, but it runs.");
    if (rel->n_fits) buf_chr(out, '\n');
    buf_str(out, "\nUse `-ngl 99` to put all layers on the GPU, fewer when it says that memory is "
                 "full; `hone plan FILE --vram SIZE` computes both numbers for your card.\n");
}

static void prompt(const struct release *rel, struct buf *out) {
    if (!rel->prompt || !*rel->prompt || strstr(rel->prompt, "```")) return;
    buf_fmt(out,
            "\n## Prompt format\n\n```text\n%s\n```\n\nThe template is in the files; programs "
            "that use it (`--jinja`) need nothing else.\n",
            rel->prompt);
}

/* Writes commands that work as they are, once the folder is on the Hub as rel->repo. */
static void from_the_hub(const struct release *rel, const struct release_file *f, struct buf *out) {
    const char *tag = *f->encoding ? f->encoding : "latest";
    buf_fmt(out, "# llama.cpp: chat, or a server\nllama-cli -hf %s:%s --jinja\n", rel->repo, tag);
    buf_fmt(out, "llama-server -hf %s:%s --jinja -fa on\n", rel->repo, tag);
    buf_fmt(out, "# Ollama\nollama run hf.co/%s:%s\n", rel->repo, tag);
    buf_fmt(out, "# LM Studio\nlms get %s\n", rel->repo);
    buf_fmt(out, "# download one file\nhf download %s --include \"*%s*\" --local-dir .\n",
            rel->repo, *f->encoding ? f->encoding : f->stem);
    buf_fmt(out, "# download the folder\nhf download %s --local-dir .\n", rel->repo);
}

static void commands(const struct release *rel, struct buf *out) {
    const struct release_file *f = &rel->file[release_pick(rel)];
    buf_str(out, "\n## Use\n\n```sh\n");
    if (rel->repo) from_the_hub(rel, f, out);
    buf_fmt(out, "# with the whole folder\nllama-server -m %s --jinja -fa on\n", f->file);
    buf_str(out, "ollama create my-model -f Modelfile && ollama run my-model\n");
    if (!rel->unknown)
        buf_fmt(out, "hone run %s \"Hello\"\n# for programs\nhone serve %s\n", f->file, f->file);
    buf_str(out, "```\n\n");
    buf_str(out,
            "Any other file of the table works the same way. `model.yaml` is for `lms push` only "
            "(LM Studio does not read it from the Hub). Check a download with `sha256sum -c "
            "SHA256SUMS`; `manifest.json` has a hash per tensor, for `hone diff` and `hone "
            "merge`.\n");
}

static void use(const struct result *r, struct buf *out) {
    int i = pick_file(r);
    if (i < 0) return;
    buf_fmt(out, "\n## Use\n\n```sh\nhone run %s \"Hello\"\n", r->file[i].file);
    buf_fmt(out, "llama-server -m %s --jinja -fa on\n```\n\n", r->file[i].file);
    buf_str(out,
            "Check a download with `sha256sum -c SHA256SUMS`. Details and the plot: `report.html`; "
            "every number: `results.json`.\n");
}

/* Writes who did what, and under which terms. */
static void credits(const struct result *r, const struct release *rel, struct buf *out) {
    const char *base = *rel->base_model ? rel->base_model : r ? r->base_name : "";
    buf_str(out, "\n## Credits\n\n- The model: ");
    if (is_repo_id(base))
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
    buf_str(out, r ? ", made and measured with hone.\n" : ", made with hone.\n");
    if (r && json_first(r->calib_texts)) {
        buf_str(out, "- Calibration data: ");
        md_list(out, r->calib_texts);
        buf_str(out, ".\n");
    }
}

static void numbers_of(const struct release *rel, struct buf *out) {
    char params[24];
    text_params(params, rel->n_params);
    buf_str(out, " (");
    md_text(out, rel->arch);
    buf_fmt(out, ", %s parameters, context %lld)", params, (long long)rel->ctx);
}

void report_readme(const struct result *r, const struct release *rel, struct buf *out) {
    char params[24];
    const char *title = r ? r->name : rel->title;
    front_matter(r, rel, out);
    buf_str(out, "# ");
    md_text(out, title);
    buf_str(out, " GGUF\n\n");
    const char *base = rel && *rel->base_model ? rel->base_model : r ? r->base_name : "";
    buf_str(out, "Quantized from ");
    if (is_repo_id(base))
        buf_fmt(out, "[%s](https://huggingface.co/%s)", base, base);
    else
        md_text(out, *base ? base : title);
    if (r) {
        text_params(params, r->n_params);
        buf_fmt(out, " (%s%s%s, %s parameters, context %lld)", r->arch, *r->arch_note ? ", " : "",
                r->arch_note, params, (long long)r->ctx);
    } else {
        numbers_of(rel, out);
    }
    buf_str(out, ".\n\n");
    if (r) answer(r, out);
    if (rel && rel->unknown) {
        buf_str(out, "**Not evaluated**: hone does not know the architecture `");
        md_text(out, rel->arch);
        buf_str(out,
                "` in this form. Types were chosen by the names of tensors; how much each file "
                "loses is not known.\n\n");
    }
    if (r)
        files(r, rel, out);
    else
        plain_files(rel, out);
    if (r) report_tools_md(r, out);
    if (r && rel) plots(r, out);
    if (rel) advice(r, rel, out);
    if (rel) prompt(rel, out);
    if (rel)
        commands(rel, out);
    else
        use(r, out);
    if (r) how(r, out);
    if (rel) credits(r, rel, out);
    if (r && rel)
        buf_str(out, "\nDetails and the plot: `report.html`; every number: `results.json`.\n");
}
