// SPDX-License-Identifier: MIT
/* serve/preset.c - parser of presets, which uses the field tables of requests. */
#include "serve/preset.h"

#include <string.h>

static const struct field own[] = {
    {"max_tokens", FIELD(F_INT, n_max, 0, INT32_MAX)},
    {"stop", FIELD_BY(ask_read_stop)},
    {"kwargs", FIELD_BY(ask_read_kwargs)},
    {"reasoning_effort", FIELD_BY(ask_read_effort)},
    {"reasoning_budget_tokens", FIELD(F_INT, n_think, -1, INT32_MAX)},
};

/* Sets the defaults of a request; returns 0 or the fault's HTTP status. */
static int apply_preset(struct ask *a, const struct json *preset, struct fault *f) {
    static const struct field *const tables[] = {own, ask_sampling};
    const int sizes[] = {(int)COUNT_OF(own), ask_n_sampling};
    return fields_read(a, preset, "", tables, sizes, 2, f);
}

int presets_check(const struct json *presets, const char *file, struct err *e) {
    static const struct sample_opts any;
    if (json_type(presets) != JSON_OBJ)
        return err_set(e, ERR_USAGE, "%s: must be an object of presets", file);
    for (const struct json *p = json_first(presets); p; p = json_next(p)) {
        struct ask a;
        struct fault f;
        if (json_type(p) != JSON_OBJ)
            return err_set(e, ERR_USAGE, "%s: '%s' is not an object", file, json_name(p));
        ask_init(&a, &any, -1, -1);
        int rc = apply_preset(&a, p, &f);
        if (rc) rc = err_set(e, ERR_USAGE, "%s: '%s': %s", file, json_name(p), f.msg);
        if (!rc && a.ignored.len)
            rc = err_set(e, ERR_USAGE, "%s: '%s': unknown setting %s", file, json_name(p),
                         a.ignored.data);
        ask_release(&a);
        if (rc) return rc;
    }
    return 0;
}

size_t preset_id_len(const struct json *presets, const char *model) {
    const char *at = strrchr(model, '@');
    return at && json_get(presets, at + 1) ? (size_t)(at - model) : strlen(model);
}

int preset_apply(struct ask *a, const struct json *presets, const struct json *body,
                 struct fault *f) {
    const struct json *v = json_get(body, "preset");
    const char *name = json_str(v), *model = json_str(json_get(body, "model"));
    if (json_type(v) != JSON_NULL && !name)
        return fault_set(f, 400, NULL, "preset", "a name is required");
    if (!name && model && model[preset_id_len(presets, model)])
        name = model + preset_id_len(presets, model) + 1;
    if (!name) return 0;
    const struct json *p = json_get(presets, name);
    if (!p) return fault_set(f, 400, NULL, "preset", "no such preset: '%.80s'", name);
    return apply_preset(a, p, f);
}
