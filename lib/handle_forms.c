// SPDX-License-Identifier: MIT
/* lib/handle_forms.c - options of commands whose work is done by calls on handles: which field is
 * which option. Nothing is copied by these rows; they are for docs/reference.md. */
#include "jobs/template_text.h"
#include "jobs/tokenize.h"
#include "lib/form.h"
#include "lib/options.h"

#define FROM hone_opts
static const struct field common_fields[] = {FIELD_OF_CALL(log, "verbose"),
                                             FIELD_OF_CALL(log, "trace"),
                                             FIELD_OF_CALL(log, "quiet"),
                                             FIELD_OF_CALL(progress, "progress"),
                                             FIELD_OF_CALL(n_threads, "threads"),
                                             FIELD_OF_CALL(untrusted, "untrusted"),
                                             FIELD_OF_CALL(device, "device"),
                                             FIELD_OF_CALL(isa, "isa"),
                                             FIELD_OF_CALL(pack_cache, "pack-cache"),
                                             FIELD_OF_CALL(max_vram, "max-vram"),
                                             FIELD_OF_CALL(place, "place"),
                                             FIELD_OF_CALL(stream_from, "stream-from"),
                                             FIELD_OF_CALL(max_memory, "max-memory"),
                                             ARGUMENT("overwrite of the call's options", "force"),
                                             ARGUMENT("every call returns JSON", "json"),
                                             ARGUMENT("hone_version", "version")};
#undef FROM
#define FROM hone_generate_opts
static const struct field generate_fields[] = {
    ARGUMENT("prompt", "prompt"),
    FIELD_OF_CALL(max_tokens, "n-predict"),
    FIELD_OF_CALL(temperature, "temp"),
    FIELD_OF_CALL(top_k, "top-k"),
    FIELD_OF_CALL(top_p, "top-p"),
    FIELD_OF_CALL(min_p, "min-p"),
    FIELD_OF_CALL(repeat_penalty, "repeat-penalty"),
    FIELD_OF_CALL(presence_penalty, "presence-penalty"),
    FIELD_OF_CALL(frequency_penalty, "frequency-penalty"),
    FIELD_OF_CALL(repeat_last_n, "repeat-last-n"),
    FIELD_OF_CALL(seed, "seed"),
    FIELD_OF_CALL(stop, "stop"),
    FIELD_OF_CALL(schema, "schema"),
    FIELD_OF_CALL(open_objects, "open-objects"),
    FIELD_OF_CALL(grammar, "grammar"),
    FIELD_OF_CALL(regex, "regex"),
    FIELD_OF_CALL(choices, "choices"),
    FIELD_OF_CALL(control, "raw"),
};
#undef FROM
#define FROM hone_session_opts
static const struct field session_fields[] = {
    FIELD_OF_CALL(n_ctx, "ctx"), FIELD_OF_CALL(kv_type, "kv-type"), FIELD_OF_CALL(exact, "act"),
    FIELD_OF_CALL(draft, "draft")};
#undef FROM
static const struct field tokens_fields[] = {
    ARGUMENT("conversation", "chat"),
    ARGUMENT("conversation", "system"),
    ARGUMENT("variables", "think"),
    ARGUMENT("variables", "no-think"),
    ARGUMENT("variables", "kwargs"),
    ARGUMENT("hone_template_render", "special-in-content"),
    ARGUMENT("member loose of hone_template_read_answer", "strict-calls")};
static const struct field model_fields[] = {ARGUMENT("hone_opts.pre", "pre")};

#include "commands/rows.h"
#define TO parse_opts
const struct option template_parse_options[] = {
#include "commands/template_parse.def"
    {0}};
#undef TO
#define TO tokenize_opts
const struct option tokenize_options[] = {
#include "commands/tokenize.def"
    {0}};
#undef TO

const struct form forms_handles[] = {
    FORM("hone_opts", "", hone_opts, common_fields),
    FORM("hone_generate", "run", hone_generate_opts, generate_fields),
    FORM("hone_session_new", "run", hone_session_opts, session_fields),
    FORM_OF_ARGUMENTS("hone_template_tokens", "run", tokens_fields),
    FORM_OF_ARGUMENTS("hone_model_open", "run", model_fields),
    FORM_OF_ROW_ARGUMENTS(tokenize, "tokenize", tokenize_options),
    FORM_OF_ROW_ARGUMENTS(detokenize, "tokenize", tokenize_options),
    FORM_OF_ROW_ARGUMENTS(template_read_answer, "template parse", template_parse_options),
    {0}};
