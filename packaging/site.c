// SPDX-License-Identifier: MIT
/* packaging/site.c - converts docs/ and the man pages to HTML pages that open from disk (make
 * site).
 *
 *     site OUT FILE...      FILE: *.md, *.1 (man), *.h (verbatim), paths from the root
 *
 * Each FILE becomes OUT/FILE.html (*.md: without .md), with an index of all pages at the top.
 * Supports the Markdown and man macros used in this repository. A link to a Markdown file that is
 * not among the FILEs is an error. A build tool, not part of hone. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE = 16384 };
static char **files;
static int n_files, n_dead;

struct page {
    FILE *in, *out;
    const char *path;
    int depth; /* folders between the page and OUT */
};

static bool ends_with(const char *s, const char *end) {
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static int target_len(const char *path) { /* without .md */
    return (int)(strlen(path) - (ends_with(path, ".md") ? 3 : 0));
}

static void put_char(FILE *o, char c) {
    if (c == '<' || c == '>' || c == '&') {
        fputs(c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;", o);
    } else {
        fputc(c, o);
    }
}
static void put_n(FILE *o, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) put_char(o, s[i]);
}

/* ---- Markdown ---- */

/* Resolves "../x.md" seen from a page to a path from the root. */
static void resolve(char *out, size_t size, const char *page, const char *to) {
    char parts[LINE];
    const char *slash = strrchr(page, '/');
    const int dir = slash ? (int)(slash - page) + 1 : 0;
    snprintf(parts, sizeof parts, "%.*s%s", dir, page, to);
    size_t n = 0;
    for (const char *p = parts; *p && n + 1 < size;) {
        const char *end = strchr(p, '/');
        const size_t len = end ? (size_t)(end - p) + 1 : strlen(p);
        if (len == 3 && strncmp(p, "../", 3) == 0) {
            if (n) n--;
            while (n && out[n - 1] != '/') n--;
        } else if (!(len == 2 && strncmp(p, "./", 2) == 0)) {
            for (size_t i = 0; i < len && n + 1 < size; i++) out[n++] = p[i];
        }
        p += len;
    }
    out[n] = 0;
}

/* Returns whether the path is a page of the site. */
static bool on_site(const char *path) {
    for (int i = 0; i < n_files; i++)
        if (strcmp(files[i], path) == 0) return true;
    return false;
}

/* Writes a link. Reports a link to a missing page and writes it as plain text. */
static void put_link(const struct page *g, const char *text, size_t n, const char *to, size_t len) {
    char url[LINE], path[LINE];
    snprintf(url, sizeof url, "%.*s", (int)len, to);
    char *hash = strchr(url, '#');
    if (hash) *hash = 0;
    resolve(path, sizeof path, g->path, url);
    const bool away = strstr(url, "://") != NULL, image = ends_with(url, ".png");
    const bool here = url[0] && on_site(path);
    if (ends_with(url, ".md") && !away && !here) {
        fprintf(stderr, "site: %s links to %s, which is not there\n", g->path, path);
        n_dead++;
    }
    if (away || image)
        fprintf(g->out, "<a href=\"%s\">", url);
    else if (here)
        fprintf(g->out, "<a href=\"%.*s.html%s%s\">", target_len(url), url, hash ? "#" : "",
                hash ? hash + 1 : "");
    put_n(g->out, text, n);
    if (away || image || here) fputs("</a>", g->out);
}

static void put_inline(const struct page *g, const char *s) {
    bool bold = false, italic = false;
    while (*s) {
        const char *end = *s == '`' ? strchr(s + 1, '`') : NULL;
        const char *mid = *s == '[' ? strstr(s, "](") : NULL;
        const char *close = mid ? strchr(mid, ')') : NULL;
        if (end) {
            fputs("<code>", g->out);
            put_n(g->out, s + 1, (size_t)(end - s - 1));
            fputs("</code>", g->out);
            s = end + 1;
        } else if (s[0] == '!' && s[1] == '[' && strstr(s, "](") && strchr(s, ')')) {
            mid = strstr(s, "](");
            close = strchr(mid, ')');
            fprintf(g->out, "<img alt=\"\" src=\"%.*s\">", (int)(close - mid - 2), mid + 2);
            s = close + 1;
        } else if (close && !memchr(s + 1, '[', (size_t)(mid - s - 1))) {
            put_link(g, s + 1, (size_t)(mid - s - 1), mid + 2, (size_t)(close - mid - 2));
            s = close + 1;
        } else if (s[0] == '*' && s[1] == '*') {
            fputs(bold ? "</b>" : "<b>", g->out);
            bold = !bold;
            s += 2;
        } else if (s[0] == '*' &&
                   (italic || (s[1] && !isspace((unsigned char)s[1]) && strchr(s + 1, '*')))) {
            fputs(italic ? "</i>" : "<i>", g->out);
            italic = !italic;
            s++;
        } else {
            put_char(g->out, *s++);
        }
    }
    if (bold) fputs("</b>", g->out);
    if (italic) fputs("</i>", g->out);
}

static void put_heading(const struct page *g, const char *s) {
    int level = 0;
    while (s[level] == '#') level++;
    s += level + (s[level] == ' ');
    fprintf(g->out, "<h%d id=\"", level);
    for (const char *p = s; *p; p++)
        if (isalnum((unsigned char)*p) || *p == '-' || *p == ' ' || *p == '_')
            fputc(*p == ' ' ? '-' : tolower((unsigned char)*p), g->out);
    fputs("\">", g->out);
    put_inline(g, s);
    fprintf(g->out, "</h%d>\n", level);
}

static void put_row(const struct page *g, char *s, const char *cell) {
    fputs("<tr>", g->out);
    for (char *p = s + 1, *end; *p; p = end + 1) {
        bool code = false;
        for (end = p; *end && (code || *end != '|' || end[-1] == '\\'); end++) code ^= *end == '`';
        if (!*end) break;
        *end = 0;
        fprintf(g->out, "<%s>", cell);
        put_inline(g, p);
        fprintf(g->out, "</%s>", cell);
    }
    fputs("</tr>\n", g->out);
}

enum block { NONE, PARA, LIST, NUMBERS, TABLE, CODE };
static const char *const closing[] = {"",           "</p>\n",  "</li></ul>\n", "</li></ol>\n",
                                      "</table>\n", "</pre>\n"};

/* Closes the block *now and sets it to `next`, which the caller opens. */
static void to_block(const struct page *g, enum block *now, enum block next) {
    fputs(closing[*now], g->out);
    *now = next;
}

/* Returns the kind of list item that starts here, if any, and sets *text to its text. */
static enum block item_of(const char *s, const char **text) {
    const char *p = s + strspn(s, " ");
    size_t d = strspn(p, "0123456789");
    if ((*p == '-' || *p == '*') && p[1] == ' ') {
        *text = p + 2;
        return LIST;
    }
    *text = p + d + 2;
    return d && d < 3 && p[d] == '.' && p[d + 1] == ' ' ? NUMBERS : NONE;
}

static void put_markdown(const struct page *g) {
    static char line[LINE];
    enum block now = NONE;
    int row = 0;
    while (fgets(line, sizeof line, g->in)) {
        const char *text = line;
        line[strcspn(line, "\n")] = 0;
        const char *first = line + strspn(line, " ");
        const enum block item = item_of(line, &text);
        if (strncmp(first, "```", 3) == 0) {
            const bool was = now == CODE;
            to_block(g, &now, was ? NONE : CODE);
            if (!was) fputs("<pre>", g->out);
        } else if (now == CODE) {
            put_n(g->out, line, strlen(line));
            fputc('\n', g->out);
        } else if (!*first) {
            if (now != LIST && now != NUMBERS) to_block(g, &now, NONE);
        } else if (line[0] == '#') {
            to_block(g, &now, NONE);
            put_heading(g, line);
        } else if (line[0] == '|') {
            if (now != TABLE) {
                to_block(g, &now, TABLE);
                fputs("<table>\n", g->out);
                row = 0;
            }
            if (row++ != 1) put_row(g, line, row == 1 ? "th" : "td");
        } else if (item != NONE) {
            if (now != item) {
                to_block(g, &now, item);
                fputs(item == LIST ? "<ul><li>" : "<ol><li>", g->out);
            } else {
                fputs("</li>\n<li>", g->out);
            }
            put_inline(g, text);
        } else {
            const bool goes_on = now == PARA || ((now == LIST || now == NUMBERS) && line[0] == ' ');
            if (!goes_on) {
                to_block(g, &now, PARA);
                fputs("<p>", g->out);
            } else {
                fputc('\n', g->out);
            }
            put_inline(g, first);
        }
    }
    to_block(g, &now, NONE);
}

/* ---- man pages ---- */

static char font = 'R';
/* Switches to font f of troff: R, B, I; P counts as R. */
static void set_font(FILE *o, char f) {
    if (f == 'P') f = 'R';
    if (f == font) return;
    if (font != 'R') fputs(font == 'B' ? "</b>" : "</i>", o);
    if (f != 'R') fputs(f == 'B' ? "<b>" : "<i>", o);
    font = f;
}

static void put_roff(FILE *o, const char *s) {
    static const struct {
        const char *name, *text;
    } special[] = {{"(dq", "\""}, {"(aq", "'"}, {"(em", "-"}, {"(bu", "*"}, {"e", "\\"},
                   {"-", "-"},    {"&", ""},    {" ", " "},   {"|", ""},    {".", "."}};
    for (; *s; s++) {
        size_t i = 0;
        if (*s != '\\') {
            put_char(o, *s);
            continue;
        }
        s++;
        if (*s == 'f' && s[1]) {
            set_font(o, *++s);
            continue;
        }
        while (i < sizeof special / sizeof *special &&
               strncmp(s, special[i].name, strlen(special[i].name)) != 0)
            i++;
        if (i == sizeof special / sizeof *special) {
            put_char(o, *s);
            continue;
        }
        fputs(special[i].text, o);
        s += strlen(special[i].name) - 1;
    }
}

/* Writes the words of a macro, alternating between its fonts: .BR bold, roman, ... */
static void put_words(FILE *o, char *s, const char *fonts) {
    for (int i = 0; *s;) {
        while (*s == ' ') s++;
        if (!*s) break;
        const bool quoted = *s == '"';
        char *end = quoted ? strchr(++s, '"') : strchr(s, ' ');
        if (!end) end = s + strlen(s);
        const char was = *end;
        *end = 0;
        if (i && !fonts[1]) fputc(' ', o);
        set_font(o, fonts[1] ? fonts[i % 2] : fonts[0]);
        put_roff(o, s);
        i++;
        s = was ? end + 1 : end;
    }
    set_font(o, 'R');
    fputc('\n', o);
}

static void put_man_page(const struct page *g) {
    static char line[LINE];
    bool term = false, dl = false;
    while (fgets(line, sizeof line, g->in)) {
        line[strcspn(line, "\n")] = 0;
        char macro[4] = "", *rest = line;
        if (line[0] == '.') {
            size_t n = 1;
            while (n < 4 && isalpha((unsigned char)line[n])) n++;
            snprintf(macro, sizeof macro, "%.*s", (int)n - 1, line + 1);
            rest = line + n + (line[n] == ' ');
        }
        const bool section = strcmp(macro, "SH") == 0 || strcmp(macro, "SS") == 0;
        const bool para = strcmp(macro, "P") == 0 || strcmp(macro, "PP") == 0;
        if (dl && (section || para)) {
            fputs("</dl>\n", g->out);
            dl = false;
        }
        if (strcmp(macro, "TH") == 0) {
            fprintf(g->out, "<h1>%.*s</h1>\n", (int)strcspn(rest, " "), rest);
        } else if (section) {
            fputs(macro[1] == 'H' ? "<h2>" : "<h3>", g->out);
            put_roff(g->out, rest);
            fputs(macro[1] == 'H' ? "</h2>\n" : "</h3>\n", g->out);
        } else if (para) {
            fputs("<p>\n", g->out);
        } else if (strcmp(macro, "TP") == 0) {
            if (!dl) fputs("<dl>\n", g->out);
            dl = term = true;
            fputs("<dt>", g->out);
        } else if (strcmp(macro, "br") == 0) {
            fputs("<br>\n", g->out);
        } else if (strcmp(macro, "nf") == 0 || strcmp(macro, "fi") == 0) {
            fputs(macro[0] == 'n' ? "<pre>" : "</pre>\n", g->out);
        } else {
            if (macro[0]) {
                put_words(g->out, rest, macro);
            } else {
                put_roff(g->out, line);
                fputc('\n', g->out);
            }
            if (term) fputs("<dd>", g->out);
            term = false;
        }
    }
    set_font(g->out, 'R');
    if (dl) fputs("</dl>\n", g->out);
}

/* ---- pages ---- */

static void put_head(const struct page *g) {
    fprintf(
        g->out,
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width\">\n<title>hone: %s</title>\n<style>body{font:16px/1.5 "
        "sans-serif;margin:0;display:flex;color:#222;background:#fff}nav{flex:0 0 14em;padding:1em;"
        "font-size:13px;background:#f4f4f4;height:100vh;overflow:auto;position:sticky;top:0;"
        "box-sizing:border-box}nav a{display:block;overflow-wrap:anywhere}main{max-width:52em;"
        "min-width:0;padding:1em 2em}pre{background:#f4f4f4;padding:.7em;overflow:auto}code,pre{"
        "font:13px/1.45 monospace}table{border-collapse:collapse;display:block;overflow:auto}td,th{"
        "border:1px solid #ccc;padding:.2em .5em;text-align:left;vertical-align:top}img{max-width:"
        "100%%}@media(max-width:50em){body{display:block}nav{height:auto;position:static}}@media("
        "prefers-color-scheme:dark){body{color:#ddd;background:#181818}nav,pre{background:#242424}"
        "a{color:#8bf}}</style>\n<nav>\n",
        g->path);
    for (int i = 0; i < n_files; i++) {
        fputs("<a href=\"", g->out);
        for (int k = 0; k < g->depth; k++) fputs("../", g->out);
        fprintf(g->out, "%.*s.html\">%s</a>\n", target_len(files[i]), files[i], files[i]);
    }
    fputs("</nav>\n<main>\n", g->out);
}

static bool make_dirs(char *path) {
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        const bool ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        *p = '/';
        if (!ok) return false;
    }
    return true;
}

/* Opens a page's source: the generated one in the folder `made`, otherwise the file itself. */
static FILE *open_source(const char *made, const char *path) {
    char name[LINE];
    const char *tail = strncmp(path, "docs/", 5) ? path : path + 5;
    snprintf(name, sizeof name, "%s/%.*s", made, (int)strlen(tail) - 3 * ends_with(tail, ".in"),
             tail);
    FILE *f = fopen(name, "r");
    return f ? f : fopen(path, "r");
}

static bool make_page(const char *dir, const char *made, const char *path) {
    char to[LINE];
    struct page g = {.path = path};
    for (const char *p = path; *p; p++) g.depth += *p == '/';
    snprintf(to, sizeof to, "%s/%.*s.html", dir, target_len(path), path);
    if (!make_dirs(to) || !(g.in = open_source(made, path)) || !(g.out = fopen(to, "w"))) {
        perror(path);
        return false;
    }
    put_head(&g);
    if (ends_with(path, ".md")) {
        put_markdown(&g);
    } else if (ends_with(path, ".1")) {
        put_man_page(&g);
    } else {
        int c;
        fputs("<pre>", g.out);
        while ((c = getc(g.in)) != EOF) put_char(g.out, (char)c);
        fputs("</pre>\n", g.out);
    }
    fputs("</main>\n", g.out);
    fclose(g.in);
    return fclose(g.out) == 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: %s OUT MADE FILE...\n", argv[0]), 2;
    files = argv + 3;
    n_files = argc - 3;
    bool ok = true;
    for (int i = 0; i < n_files; i++) ok = make_page(argv[1], argv[2], files[i]) && ok;
    return ok && !n_dead ? 0 : 1;
}
