// SPDX-License-Identifier: MIT
/* chat/think.c - table of the template variables that control thinking, one row per name. */
#include "chat/think.h"

#include <string.h>

#include "base/ctx.h"
#include "base/mem.h"

static const struct {
    const char *name, *on, *off;
} switches[] = {
#define THINK_SWITCH(name, on, off) {name, "\"" name "\": " on, "\"" name "\": " off},
#include "template/think.def"
#undef THINK_SWITCH
};

/* Renders a one-message chat with the template argument; false if that fails. */
static bool render_with(const struct chat *c, const char *member, struct buf *out) {
    static const char talk[] = "[{\"role\": \"user\", \"content\": \"a\"}]";
    struct buf kwargs = {0};
    struct err e;
    buf_fmt(&kwargs, "{%s}", member);
    int rc = chat_render_text(c, talk, sizeof talk - 1, kwargs.data, true, out, &e);
    buf_release(&kwargs);
    return rc == 0;
}

bool think_sample(const struct chat *c, struct buf *out) {
    static const char any[] = "\"bos_token\": \"<s>\", \"eos_token\": \"</s>\""; /* if unknown */
    struct ctx_cost few = {.most = CHAT_PROBE_STEPS}, *before = ctx_cost_enter(&few);
    const bool ok = render_with(c, "", out) || render_with(c, any, out);
    ctx_cost_enter(before);
    return ok && out->len;
}

const char *think_member(const struct chat *c, const char *tmpl, bool on) {
    struct ctx_cost few = {.most = CHAT_PROBE_STEPS}, *before = ctx_cost_enter(&few);
    const char *found = NULL;
    for (size_t i = 0; i < COUNT_OF(switches) && !found; i++) {
        struct buf a = {0}, b = {0};
        if (!strstr(tmpl, switches[i].name)) continue;
        bool differs = render_with(c, switches[i].on, &a) && render_with(c, switches[i].off, &b) &&
                       (a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0));
        buf_release(&a);
        buf_release(&b);
        if (differs) found = on ? switches[i].on : switches[i].off;
    }
    ctx_cost_enter(before);
    return found;
}

int think_merge(const char *member, const char *object, struct buf *out, struct err *e) {
    struct json *j;
    char name[64];
    if (!object) object = "{}";
    TRY(json_parse(&j, object, strlen(object), "the template's variables", e));
    const size_t n = strcspn(member + 1, "\"");
    bool there = false;
    if (n < sizeof name) {
        memcpy(name, member + 1, n);
        name[n] = 0;
        there = json_get(j, name) != NULL;
    }
    const bool empty = json_len(j) == 0;
    json_free(j);
    if (there)
        buf_str(out, object);
    else
        buf_fmt(out, "{%s%s%s", member, empty ? "" : ", ", strchr(object, '{') + 1);
    return 0;
}
