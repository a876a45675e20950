// SPDX-License-Identifier: MIT
/* report/card_files.c - the files section of README.md: a table narrow enough for a phone, and a
 * folded table with all numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "report/card.h"
#include "report/pick.h"
#include "report/report_text.h"

#define NBSP "\302\240"
#define STAR "\xe2\x98\x85"

void card_fold(const char *summary, struct buf *out) {
    buf_fmt(out, "\n<details><summary>%s</summary>\n\n", summary);
}

void card_fold_end(struct buf *out) {
    buf_str(out, "\n</details>\n");
}

/* Writes the text as a table cell and empties it. */
static void text_cell(struct buf *out, struct buf *text) {
    buf_chr(out, ' ');
    md_text(out, text->data ? text->data : "");
    buf_str(out, " |");
    buf_reset(text);
}

/* Writes the grade of file i with its divergence. */
static void loss_cell(const struct result *r, int i, struct buf *out) {
    const struct pick_grade g = pick_grade(r, i);
    const double kld =
        fmax(r->file[i].mean_kld, 1e-9); /* two digits; the folded table has full precision */
    buf_fmt(out, " %s", pick_word(g.band));
    if (g.band != PICK_UNKNOWN) {
        buf_fmt(out, ", %.*f", (int)fmin(fmax(1 - floor(log10(kld)), 2), 7), kld);
    }
    buf_str(out, " |");
}

/* Writes the purpose of file i and how it compares with llama.cpp's preset. */
static void what_for(const struct result *r, int i, struct buf *out) {
    struct buf text = {0};
    pick_role(r, i, &text);
    const double gain = pick_gain(r, i);
    if (pick_is_closer(r, i))
        buf_fmt(&text, "; %.*fx closer", gain < 9.95 ? 1 : 0, gain);
    else if (gain < 0.95)
        buf_str(&text, "; farther than llama.cpp's");
    else if (gain < 1.05)
        buf_str(&text, "; same as llama.cpp's");
    else if (isfinite(gain))
        buf_str(&text, "; not certainly closer than llama.cpp's");
    text_cell(out, &text);
    buf_release(&text);
}

/* Writes a size with a no-break space before its unit. */
static void size_cell(int64_t n_bytes, struct buf *out) {
    char size[32];
    text_size(size, n_bytes);
    const int n = (int)strcspn(size, " ");
    buf_fmt(out, " %.*s" NBSP "%s |", n, size, size + n + 1);
}

/* Writes the divergence over questions about images. */
static void images_cell(const struct result_file *f, struct buf *out) {
    struct buf text = {0};
    text_kld(&text, f->images.kld, (double)NAN);
    buf_fmt(out, " %s |", f->is_base ? "-" : text.data);
    buf_release(&text);
}

/* Writes a row of the table. The mark of the recommended file comes first, where a phone shows
 * it. */
static void file_row(const struct result *r, int i, const struct release *rel, struct buf *out) {
    const struct result_file *f = &r->file[i];
    buf_str(out, i == pick_file(r) ? "| " STAR NBSP "[**" : "| [");
    md_text(out, pick_label(r, i));
    buf_str(out, i == pick_file(r) ? "**]" : "]");
    if (!rel || release_has(rel, f->file)) {
        buf_chr(out, '(');
        text_url(out, f->file);
        buf_str(out, ") |");
    } else {
        buf_str(out, " (not here) |");
    }
    size_cell(f->size_bytes, out);
    if (f->is_base) {
        buf_str(out, " - | - |");
    } else {
        loss_cell(r, i, out);
        if (isfinite(f->same_top1))
            buf_fmt(out, " %.1f" NBSP "%% |", f->same_top1 * 100);
        else
            buf_str(out, " - |");
    }
    if (result_sees(r)) images_cell(f, out);
    what_for(r, i, out);
    buf_chr(out, '\n');
}

/* Returns whether a file is listed; the base is listed only if it is in the folder. */
static bool listed(const struct result *r, int i, const struct release *rel) {
    return !r->file[i].is_base || (rel && release_has(rel, r->file[i].file));
}

static bool any_gain(const struct result *r) {
    for (int i = 0; i < r->n_files; i++)
        if (pick_is_closer(r, i)) return true;
    return false;
}

/* Writes how many tensors of the files, if all are presets, have other types than llama.cpp's;
 * nothing if that is not known of every file. */
static void put_presets(const struct result *r, struct buf *out) {
    double most = r->n_files > 1 ? 0 : (double)NAN;
    for (int i = 0; i < r->n_files; i++) {
        const double n = r->file[i].is_base ? 0 : r->file[i].n_unlike;
        most = isfinite(n) && isfinite(most) ? fmax(most, n) : (double)NAN;
    }
    if (!isfinite(most)) return;
    buf_str(out, " The files are presets: llama.cpp uses the same types under these names");
    if (most > 0)
        buf_fmt(out, ", except for up to %.0f tensor%s per file, where hone's types lose less",
                most, str_s((int64_t)most));
    buf_chr(out, '.');
}

/* Writes what the columns of the table mean. */
static void put_captions(const struct result *r, struct buf *out) {
    buf_fmt(out,
            "\n" STAR " recommended. Loss: mean KL divergence of the next-token distribution "
            "from that of %s, in nats; 0 is identical. Same token: how often both rank the same "
            "token first.",
            pick_base_word(r));
    if (result_sees(r))
        buf_str(out, " Images: the same divergence in answers to questions about images.");
    if (any_gain(r))
        buf_fmt(out, " \"4x closer\": llama.cpp's preset of the same name and size has 4 times the "
                     "divergence on the same text; hone made that file too, with the preset's "
                     "types and the same importance matrix.");
    else
        put_presets(r, out);
    buf_chr(out, '\n');
}

/* Writes the folded table with all numbers and the tensor types, some of which are slow on some
 * backends. */
static void numbers(const struct result *r, const int *order, struct buf *out) {
    struct buf text = {0};
    card_fold("All numbers, and the types inside", out);
    buf_str(out, "| file | bits per weight | mean KLD | 99.9 % KLD | perplexity | types, by share "
                 "of the bytes |\n|---|---:|---:|---:|---:|---|\n");
    for (int k = 0; k < r->n_files; k++) {
        const struct result_file *f = &r->file[order[k]];
        buf_str(out, "| ");
        md_text(out, f->is_base && *r->base_type ? r->base_type : pick_label(r, order[k]));
        buf_str(out, " |");
        md_num(out, f->bpw, 2);
        if (f->is_base)
            buf_str(&text, "0");
        else
            text_kld(&text, f->mean_kld, f->mean_kld_stderr);
        text_cell(out, &text);
        md_num(out, f->is_base ? 0 : f->kld_p999, 4);
        if (isfinite(f->ppl)) buf_fmt(&text, "%.4f", f->ppl);
        if (isfinite(f->ppl) && isfinite(f->ppl_stderr)) buf_fmt(&text, " ± %.4f", f->ppl_stderr);
        text_cell(out, &text);
        pick_types(r, order[k], &text);
        text_cell(out, &text);
        buf_chr(out, '\n');
    }
    buf_fmt(out,
            "\n± is one standard error; %s. Perplexity compares the files of this table only; the "
            "divergence says more about a quant.\n",
            pick_knows_errors(r) ? "that of the divergence is over windows of the texts"
                                 : "that of the divergence is unknown");
    card_fold_end(out);
    buf_release(&text);
}

/* Writes what the grades mean, as a folded section. */
static void put_words(struct buf *out) {
    card_fold("What the words mean", out);
    for (int i = 0; i < PICK_BANDS; i++) {
        if (isfinite(pick_bands[i].max_kld))
            buf_fmt(out, "- **%s**, up to %g: %s.\n", pick_bands[i].name, pick_bands[i].max_kld,
                    pick_bands[i].reason);
        else
            buf_fmt(out, "- **%s**: %s.\n", pick_bands[i].name, pick_bands[i].reason);
    }
    card_fold_end(out);
}

void card_files(const struct result *r, const struct release *rel, struct buf *out) {
    int *order = pick_order(r);
    const bool sees = result_sees(r);
    buf_fmt(out,
            "## Files\n\n| file | size | loss | same token |%s what for, vs llama.cpp |\n"
            "|---|---:|---|---:|%s---|\n",
            sees ? " images |" : "", sees ? "---:|" : "");
    for (int i = 0; i < r->n_files; i++)
        if (listed(r, order[i], rel)) file_row(r, order[i], rel, out);
    put_captions(r, out);
    numbers(r, order, out);
    put_words(out);
    free(order);
}

void card_plain_files(const struct release *rel, struct buf *out) {
    buf_str(out, "## Files\n\n| file | bytes | GiB | bits per weight |\n|---|---:|---:|---:|\n");
    for (int i = 0; i < rel->n_files; i++) {
        const struct release_file *f = &rel->file[i];
        buf_str(out, "| ");
        md_link(out, f->file);
        buf_fmt(out, " | %llu | %.4f |", (unsigned long long)f->size_bytes,
                (double)f->size_bytes / 0x1p30);
        md_num(out, f->bpw, 2);
        buf_chr(out, '\n');
    }
}

void card_plots(const struct result *r, struct buf *out) {
    struct buf ignored = {0};
    bool more[2] = {report_svg_kld_depth(r, false, &ignored),
                    report_svg_speed_depth(r, false, &ignored)};
    buf_str(out, "\n## Size against loss\n\n![size against mean KLD](kld.svg)\n");
    if (any_gain(r)) buf_str(out, "\nRings: llama.cpp's presets of the same size.\n");
    if (more[0] || more[1]) card_fold("By length of context", out);
    if (more[0]) buf_str(out, "![KLD by depth](kld-depth.svg)\n");
    if (more[1]) buf_str(out, "\n![speed by depth](speed-depth.svg)\n");
    if (more[0] || more[1]) card_fold_end(out);
    buf_release(&ignored);
}
