// SPDX-License-Identifier: MIT
/* report/html.c - results.json -> report.html: one self-contained page, no scripts, no references.
 */
#include <math.h>
#include <string.h>

#include "report/report_text.h"
#include "report/result.h"

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}table{border-collapse:collapse;width:100%;font-size:13px}"
    "th,td{padding:.35rem .5rem;border-bottom:1px solid #ddd;text-align:left}"
    ".n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:12px}"
    "tr.base "
    "td{color:#777}h1,p{overflow-wrap:anywhere}.wrap{overflow-x:auto}svg{width:100%;min-width:"
    "560px;height:auto}"
    "@media "
    "print{body{max-width:none;margin:0}.wrap{overflow:visible}svg{min-width:0}table{font-size:9px}"
    "h2{break-after:avoid}tr,svg{break-inside:avoid}}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}"
    "}";

static void table(const struct result *r, struct buf *out) {
    buf_fmt(out,
            "<div class=wrap><table><tr><th>file<th class=n>bytes<th class=n>GiB<th class=n>bpw"
            "<th class=n>PPL<th class=n>&plusmn;<th class=n>mean KLD<th class=n>&plusmn;"
            "<th class=n>99.9 %% KLD<th class=n>max KLD<th class=n>RMS &Delta;p %%<th class=n>same "
            "top-1 %%"
            "<th class=n>pp%lld t/s<th class=n>tg%lld t/s</tr>\n",
            (long long)r->pp, (long long)r->tg);
    for (int i = 0; i < r->n_files; i++) {
        const struct result_file *f = &r->file[i];
        buf_fmt(out, "<tr%s><td><code>", f->is_base ? " class=base" : "");
        html_text(out, f->file);
        buf_fmt(out, "</code></td><td class=n>%lld</td>", (long long)f->size_bytes);
        html_num(out, (double)f->size_bytes / 0x1p30, 4);
        html_num(out, f->bpw, 2);
        html_num(out, f->ppl, 4);
        html_num(out, f->ppl_stderr, 4);
        html_num(out, f->mean_kld, 6);
        html_num(out, f->mean_kld_stderr, 6);
        html_num(out, f->kld_p999, 4);
        html_num(out, f->max_kld, 3);
        html_num(out, f->rms_dp * 100, 3);
        html_num(out, f->same_top1 * 100, 2);
        html_num(out, f->pp_tok_per_s, 0);
        html_num(out, f->tg_tok_per_s, 1);
        buf_str(out, "</tr>\n");
    }
    buf_str(out, "</table></div>\n");
}

static void sums(const struct result *r, struct buf *out) {
    buf_str(out, "<h2>Checksums</h2><div class=wrap><table><tr><th>SHA-256<th>file</tr>\n");
    for (int i = 0; i < r->n_files; i++) {
        buf_fmt(out, "<tr><td><code>%s</code><td><code>", r->file[i].sha256);
        html_text(out, r->file[i].file);
        buf_str(out, "</code></tr>\n");
    }
    buf_str(out, "</table></div>\n");
}

static void names(const struct json *list, struct buf *out) {
    const char *sep = "";
    for (const struct json *n = json_first(list); n; n = json_next(n)) {
        const char *s = json_str(n) ? json_str(n) : json_str(json_get(n, "name"));
        if (!s) continue;
        buf_fmt(out, "%s<code>", sep);
        html_text(out, s);
        buf_str(out, "</code>");
        sep = ", ";
    }
}

void report_html(const struct result *r, struct buf *out) {
    char params[24];
    text_params(params, r->n_params);
    buf_str(out, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
                 "content='width=device-width'><title>");
    html_text(out, r->name);
    buf_fmt(out, " GGUF report</title><style>%s</style>\n<h1>", style);
    html_text(out, r->name);
    buf_str(out, "</h1>\n<p>");
    html_text(out, r->arch);
    buf_fmt(out, ", %s parameters, context %lld. Made by hone ", params, (long long)r->ctx);
    html_text(out, r->version);
    buf_str(out, ".</p>\n<h2>Size against divergence</h2>\n");
    buf_str(out, "<div class=wrap>");
    report_svg_kld(r, out);
    buf_str(out, "</div>\n");
    struct buf plot = {0};
    if (report_svg_kld_depth(r, &plot))
        buf_fmt(out, "<h2>Divergence by depth</h2>\n<div class=wrap>%s</div>\n", plot.data);
    buf_reset(&plot);
    if (report_svg_speed_depth(r, &plot))
        buf_fmt(out, "<h2>Speed by depth</h2>\n<div class=wrap>%s</div>\n", plot.data);
    buf_release(&plot);
    buf_str(out, "<h2>Files</h2>\n");
    table(r, out);
    report_tools_html(r, out);
    buf_fmt(out, "<h2>Method</h2><p>%lld tokens scored in %lld chunks of %lld from ",
            (long long)r->eval_tokens, (long long)r->eval_chunks, (long long)r->eval_ctx);
    names(r->eval_texts, out);
    buf_fmt(out, "; importance matrix from %lld chunks of %lld tokens of ",
            (long long)r->imatrix_chunks, (long long)r->imatrix_chunk_size);
    names(r->calib_texts, out);
    buf_str(out, ". Base and quants run together on the same tokens; weights are dequantized and "
                 "activations are 32-bit floats. Speed on ");
    html_text(out, r->machine);
    buf_str(out, ".</p>\n");
    for (const struct json *n = json_first(r->notes); n; n = json_next(n)) {
        if (!json_str(n)) continue;
        buf_str(out, "<p>");
        html_text(out, json_str(n));
        buf_str(out, "</p>\n");
    }
    sums(r, out);
    buf_str(out, "</html>\n");
}
