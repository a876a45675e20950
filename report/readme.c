// SPDX-License-Identifier: MIT
/* report/readme.c - results.json -> README.md of the output folder: front matter the Hub
 * understands, the table of files, how it was measured, how to use it. Text from the model's
 * metadata is escaped. */
#include <math.h>
#include <string.h>

#include "report/report_text.h"
#include "report/result.h"

static void front_matter(const struct result *r, struct buf *out) {
    buf_str(out, "---\n");
    if (*r->base_name) yaml_field(out, "base_model", r->base_name);
    buf_str(out,
            "base_model_relation: quantized\nlibrary_name: gguf\npipeline_tag: text-generation\n");
    if (*r->license) yaml_field(out, "license", r->license);
    buf_str(out, "tags:\n- gguf\n- hone\n---\n\n");
}

static void file_row(const struct result_file *f, struct buf *out) {
    buf_fmt(out, "| [%s](%s) | %lld | %.4f |", f->file, f->file, (long long)f->size_bytes,
            (double)f->size_bytes / 0x1p30);
    md_num(out, f->bpw, 2);
    buf_str(out, " ");
    if (isfinite(f->ppl))
        buf_fmt(out, "%.4f ± %.4f |", f->ppl, f->ppl_stderr);
    else
        buf_str(out, "- |");
    if (f->is_base) {
        buf_str(out, " (base) | | |");
    } else {
        md_num(out, f->mean_kld, 6);
        md_num(out, f->kld_p999, 4);
        md_num(out, f->same_top1 * 100, 2);
    }
    md_num(out, f->pp_tok_per_s, 0);
    md_num(out, f->tg_tok_per_s, 1);
    buf_chr(out, '\n');
}

static void files(const struct result *r, struct buf *out) {
    buf_fmt(out,
            "## Files\n\n| file | bytes | GiB | bpw | PPL | mean KLD | 99.9 %% KLD | same top-1 %% "
            "| pp%lld t/s | tg%lld t/s |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
            (long long)r->pp, (long long)r->tg);
    for (int i = 0; i < r->n_files; i++) file_row(&r->file[i], out);
    buf_str(out,
            "\nKLD is the Kullback-Leibler divergence of each file's next-token distribution from "
            "the unquantized conversion's, in nats: 0 would be identical. PPL compares files of "
            "this table only; KLD and same top-1 say more about a quant than PPL does.\n");
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
}

/* The smallest file whose divergence is of no practical consequence, by the measured numbers. */
static const struct result_file *pick(const struct result *r, double limit) {
    const struct result_file *best = NULL;
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        if (f->is_base || !(f->mean_kld <= limit)) continue;
        if (!best || f->size_bytes < best->size_bytes) best = f;
    }
    return best;
}

static void use(const struct result *r, struct buf *out) {
    const struct result_file *f = pick(r, 0.01);
    if (!f) f = pick(r, 1e9);
    if (!f) return;
    buf_fmt(out, "\n## Use\n\n`%s` is the smallest file here with a mean KLD of %.4f.\n\n```sh\n",
            f->file, f->mean_kld);
    buf_fmt(out, "hone run %s -p \"Hello\"\n", f->file);
    buf_fmt(out, "llama-server -m %s --jinja -fa on\n```\n\n", f->file);
    buf_str(out,
            "Check a download with `sha256sum -c SHA256SUMS`. Details and the plot: `report.html`; "
            "every number: `results.json`.\n");
}

void report_readme(const struct result *r, struct buf *out) {
    char params[24];
    text_params(params, r->n_params);
    front_matter(r, out);
    buf_str(out, "# ");
    md_text(out, r->name);
    buf_str(out, " GGUF\n\n");
    buf_fmt(out, "Quantized from `%s` (%s%s%s, %s parameters, context %lld).\n\n",
            *r->base_name ? r->base_name : r->name, r->arch, *r->arch_note ? ", " : "",
            r->arch_note, params, (long long)r->ctx);
    files(r, out);
    how(r, out);
    use(r, out);
}
