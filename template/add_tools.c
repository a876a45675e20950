// SPDX-License-Identifier: MIT
/* template/add_tools.c - tool support for templates that render no tools. The added text is
 * template/add_tools.jinja, which uses only constructs that all engines have. */
#include "template/add_tools.h"

#include "base/incbin.h"
#include "template/lint_int.h"

INCBIN(hone_tmpl_add_tools, "template/add_tools.jinja")

/* Determines whether the template supports tools, calls and thinking. */
static int caps_of(struct lint_caps *caps, const char *src, size_t len, const char *name,
                   struct err *e) {
    struct jinja *t;
    struct jinja_err je;
    TRY(jinja_compile_mode(&t, src, len, name, JINJA_HF, &je, e));
    lint_caps_of(caps, t);
    jinja_free(t);
    return 0;
}

int template_add_tools(const char *src, size_t len, const char *name, struct buf *out,
                       struct err *e) {
    struct lint_caps caps;
    TRY(caps_of(&caps, src, len, name, e));
    if (caps.tools || caps.calls || caps.tries)
        return err_set(e, ERR_DATA,
                       "%s: the template already supports tools; --add-tools is for templates that "
                       "render neither tools nor calls",
                       name);
    buf_fmt(out, "{%%- set hone_takes_system = %s -%%}\n", caps.system ? "true" : "false");
    buf_add(out, hone_tmpl_add_tools, (size_t)(hone_tmpl_add_tools_end - hone_tmpl_add_tools));
    buf_add(out, src, len);
    TRY(caps_of(&caps, out->data, out->len, name, e));
    if (caps.tools && caps.calls) return 0;
    return err_set(
        e, ERR_DATA,
        "%s: cannot add tools: the template rejects the turns that carry calls and results", name);
}
