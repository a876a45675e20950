// SPDX-License-Identifier: MIT
/* serve/page.c - handler for the web page, a single document with style sheet, body and script.
 *
 * The files of serve/page/ are embedded with the assembler's .incbin (paths relative to the source
 * tree's root, where make runs). A Content-Security-Policy with their hashes allows the browser to
 * run no other code and to contact only this server. */
#include <string.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/incbin.h"
#include "serve/server.h"

INCBIN(hone_page_html, "serve/page/page.html")
INCBIN(hone_page_css, "serve/page/page.css")
INCBIN(hone_page_base, "serve/page/base.js")
INCBIN(hone_page_markdown, "serve/page/markdown.js")
INCBIN(hone_page_chat, "serve/page/chat.js")
INCBIN(hone_page_tools, "serve/page/tools.js")
INCBIN(hone_page_tokens, "serve/page/tokens.js")
INCBIN(hone_page_pair, "serve/page/pair.js")
INCBIN(hone_page_server, "serve/page/server.js")

static const struct part {
    const char *at, *end;
} scripts[] = {
    {hone_page_base, hone_page_base_end},     {hone_page_markdown, hone_page_markdown_end},
    {hone_page_chat, hone_page_chat_end},     {hone_page_tools, hone_page_tools_end},
    {hone_page_tokens, hone_page_tokens_end}, {hone_page_pair, hone_page_pair_end},
    {hone_page_server, hone_page_server_end},
};

/* Returns the value of a lower-case hexadecimal digit. */
static int hex_digit(char c) {
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Appends a text's hash as a Content-Security-Policy needs it: 'sha256-...', in base64. */
static void put_hash(struct buf *out, const char *s, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { BYTES = 32 };
    struct sha256 h;
    char hex[65];
    unsigned char b[BYTES + 1] = {0}; /* one spare byte, because the last group has only two */
    sha256_init(&h);
    sha256_add(&h, s, n);
    sha256_hex(&h, hex);
    for (int i = 0; i < BYTES; i++)
        b[i] = (unsigned char)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    buf_str(out, "'sha256-");
    for (int i = 0; i < BYTES; i += 3) {
        const unsigned v = (unsigned)b[i] << 16 | (unsigned)b[i + 1] << 8 |
                           (i + 2 < BYTES ? (unsigned)b[i + 2] : 0);
        for (int k = 0; k < (i + 2 < BYTES ? 4 : 3); k++)
            buf_chr(out, digits[v >> (18 - 6 * k) & 63]);
    }
    buf_str(out, "='");
}

/* Writes the page with its script, and its Content-Security-Policy. */
static void write_page(struct buf *out, struct buf *policy) {
    struct buf script = {0};
    for (size_t i = 0; i < COUNT_OF(scripts); i++)
        buf_add(&script, scripts[i].at, (size_t)(scripts[i].end - scripts[i].at));
    const size_t n_css = (size_t)(hone_page_css_end - hone_page_css);
    buf_str(policy, "default-src 'none'; script-src ");
    put_hash(policy, script.data, script.len);
    buf_str(policy, "; style-src ");
    put_hash(policy, hone_page_css, n_css);
    buf_str(policy, "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'");
    buf_str(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                 "<title>hone</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>");
    buf_add(out, hone_page_css, n_css);
    buf_str(out, "</style>\n</head>\n");
    buf_add(out, hone_page_html, (size_t)(hone_page_html_end - hone_page_html));
    buf_str(out, "<script>");
    buf_add(out, script.data, script.len);
    buf_str(out, "</script>\n</body>\n</html>\n");
    buf_release(&script);
}

void info_page(struct server *s, struct job *j) {
    const struct http_text *accept = http_find(&j->req, "accept");
    struct buf b = {0}, policy = {0};
    if (!accept || !memmem(accept->s, accept->n, "text/html",
                           9)) { /* not a browser, perhaps a client of Ollama's API */
        info_root(s, j);
        return;
    }
    write_page(&b, &policy);
    job_field(j, "content-security-policy", policy.data);
    job_field(j, "x-content-type-options", "nosniff");
    job_field(j, "referrer-policy", "no-referrer");
    job_answer(j, 200, "text/html; charset=utf-8", b.data, b.len);
    buf_release(&b);
    buf_release(&policy);
}
