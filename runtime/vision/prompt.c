// SPDX-License-Identifier: MIT
/* runtime/vision/prompt.c - what each projector type's prompt holds in place of an image: control
 * tokens and rows of embeddings, as the processors of transformers expand a placeholder. */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/mem.h"
#include "runtime/vision/image.h"

static const struct form {
    const char *token; /* placeholder, one token */
    const char *row;   /* token of a row of embeddings; NULL: the same */
    const char *opens; /* what templates write before the placeholder, and after it */
    const char *closes;
    const char *before;      /* the image */
    const char *index;       /* before that; %d: number of the image; NULL: none */
    const char *tile;        /* before a tile; %d, %d: its row and column */
    const char *tile_end;    /* after a tile */
    const char *row_end;     /* after each row of tiles */
    const char *between;     /* between two rows of tiles */
    const char *whole;       /* before the view of the whole image */
    const char *whole_split; /* the same if there are tiles */
    const char *whole_end;
    const char *line_end; /* between two lines of a view's tokens; NULL: none */
    const char *after;
} forms[PROJ_COUNT] = {
#define QWEN                                                                                       \
    { .token = "<|image_pad|>", .opens = "<|vision_start|>", .closes = "<|vision_end|>" }
    [PROJ_QWEN2VL] = QWEN,
    [PROJ_QWEN25VL] = QWEN,
    [PROJ_QWEN3VL] = QWEN,
    [PROJ_GEMMA3] = {.token = "<start_of_image>",
                     .row = "<image_soft_token>",
                     .before = "\n\n<start_of_image>",
                     .after = "<end_of_image>\n\n"},
    [PROJ_GEMMA4] = {.token = "<|image|>", .before = "<|image>", .after = "<image|>"},
    [PROJ_GEMMA4U] = {.token = "<|image|>", .before = "<|image>", .after = "<image|>"},
    [PROJ_PIXTRAL] = {.token = "[IMG]", .line_end = "[IMG_BREAK]", .after = "[IMG_END]"},
    [PROJ_IDEFICS3] = {.token = "<image>",
                       .tile = "<fake_token_around_image><row_%d_col_%d>",
                       .row_end = "\n",
                       .whole = "<fake_token_around_image><global-img>",
                       .whole_split = "\n<fake_token_around_image><global-img>",
                       .after = "<fake_token_around_image>"},
    [PROJ_INTERNVL] = {.token = "<IMG_CONTEXT>",
                       .closes = "\n",
                       .before = "<img>",
                       .after = "</img>"},
    [PROJ_LFM2] = {.token = "<image>",
                   .before = "<|image_start|>",
                   .tile = "<|img_row_%d_col_%d|>",
                   .whole_split = "<|img_thumbnail|>",
                   .after = "<|image_end|>"},
    [PROJ_GLM4V] = {.token = "<|image|>",
                    .opens = "<|begin_of_image|>",
                    .closes = "<|end_of_image|>"},
    [PROJ_KIMIVL] = {.token = "<|media_pad|>",
                     .opens = "<|media_start|>image<|media_content|>",
                     .closes = "<|media_end|>"},
    [PROJ_MINICPMV] = {.token = "<|image_pad|>",
                       .index = "<image_id>%d</image_id>",
                       .tile = "<slice>",
                       .tile_end = "</slice>",
                       .between = "\n",
                       .whole = "<image>",
                       .whole_split = "<image>",
                       .whole_end = "</image>"},
};

const char *image_placeholder(enum projector type) {
    return forms[type].token;
}

void image_around(enum projector type, const char **before, const char **after) {
    *before = forms[type].opens ? forms[type].opens : "";
    *after = forms[type].closes ? forms[type].closes : "";
}

const char *image_row_token(enum projector type) {
    return forms[type].row ? forms[type].row : forms[type].token;
}

struct writer {
    const struct vision_params *p;
    const struct pixels *px;
    const struct form *form;
    struct image_prompt *out;
    struct buf texts; /* of out, each ended by NUL */
    int cap;
    bool open; /* the last text continues */
};

/* Appends a zeroed part and returns it. */
static struct image_part *add_part(struct writer *w) {
    struct image_prompt *out = w->out;
    if (out->n_parts == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 16;
        out->part = xreallocarray(out->part, (size_t)w->cap, sizeof *out->part);
    }
    out->part[out->n_parts] = (struct image_part){0};
    return &out->part[out->n_parts++];
}

/* Appends a text. Until the end, `first` of its part is the text's offset in w->texts. */
static void add_text(struct writer *w, const char *text) {
    if (!text || !*text) return;
    if (w->open)
        w->texts.len--;
    else {
        struct image_part *part = add_part(w);
        part->view = -1;
        part->first = (int)w->texts.len;
    }
    buf_add(&w->texts, text, strlen(text) + 1);
    w->open = true;
}

/* Appends a text with up to two numbers in place of each %d. */
static void add_numbered(struct writer *w, const char *text, int a, int b) {
    struct buf made = {0};
    const char *s = text, *at;
    if (!text) return;
    for (; (at = strstr(s, "%d")) != NULL; s = at + 2, a = b)
        buf_fmt(&made, "%.*s%d", (int)(at - s), s, a);
    buf_str(&made, s);
    add_text(w, made.data);
    buf_release(&made);
}

/* Appends a view's rows, with the form's text between lines. */
static void add_view(struct writer *w, int view) {
    int cols, lines;
    view_grid(w->p, &w->px->view[view], &cols, &lines);
    const bool split = w->form->line_end != NULL;
    for (int i = 0; i < (split ? lines : 1); i++) {
        if (i) add_text(w, w->form->line_end);
        struct image_part *part = add_part(w);
        part->view = view;
        part->first = i * cols;
        part->n = split ? cols : cols * lines;
        w->out->n_rows += part->n;
        w->open = false;
    }
}

/* Appends the view of the whole image with its surrounding text. */
static void add_whole(struct writer *w) {
    add_text(w, w->px->rows ? w->form->whole_split : w->form->whole);
    add_view(w, w->px->whole);
    add_text(w, w->form->whole_end);
}

/* Appends the views of all tiles, row by row, with their surrounding texts. */
static void add_tiles(struct writer *w) {
    int view = w->px->whole == 0;
    for (int row = 0; row < w->px->rows; row++) {
        for (int col = 0; col < w->px->cols; col++) {
            add_numbered(w, w->form->tile, row + 1, col + 1);
            add_view(w, view++);
            add_text(w, w->form->tile_end);
        }
        add_text(w, w->form->row_end);
        if (row + 1 < w->px->rows) add_text(w, w->form->between);
    }
}

void image_prompt(const struct vision_params *p, const struct pixels *px, int index,
                  struct image_prompt *out) {
    struct writer w = {.p = p, .px = px, .form = &forms[p->type], .out = out};
    memset(out, 0, sizeof *out);
    add_numbered(&w, w.form->index, index, 0);
    add_text(&w, w.form->before);
    if (px->rows && px->whole == 0) add_whole(&w);
    add_tiles(&w);
    if (!px->rows || px->whole != 0) add_whole(&w);
    add_text(&w, w.form->after);
    out->texts = buf_take(&w.texts);
    for (int i = 0; i < out->n_parts; i++) {
        struct image_part *part = &out->part[i];
        part->text = part->view < 0 ? out->texts + part->first : NULL;
        if (part->text) part->first = part->view = 0;
    }
}

void image_prompt_release(struct image_prompt *pr) {
    free(pr->part);
    free(pr->texts);
    memset(pr, 0, sizeof *pr);
}
