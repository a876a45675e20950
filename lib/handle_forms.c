// SPDX-License-Identifier: MIT
/* lib/handle_forms.c - forms of calls on handles, for docs/reference.md only: they name the option
 * that each field sets, but copy nothing. */
#include "jobs/run.h"
#include "jobs/template_text.h"
#include "jobs/tokenize.h"
#include "lib/form.h"
#include "lib/options.h"

#include "commands/rows.h"
#define TO common_opts
const struct option common_options[] = {
#include "commands/common.def"
    {0}};
#undef TO
#define TO run_args
const struct option run_options[] = {
#include "commands/run.def"
    {0}};
#undef TO
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
    FORM(opts, "", hone_opts, common_options),
    FORM(generate, "run", hone_generate_opts, run_options),
    FORM(session_new, "run", hone_session_opts, run_options),
    FORM_OF_ARGUMENTS(template_tokens, "run", run_options),
    FORM_OF_ARGUMENTS(model_open, "run", run_options),
    FORM_OF_ARGUMENTS(tokenize, "tokenize", tokenize_options),
    FORM_OF_ARGUMENTS(detokenize, "tokenize", tokenize_options),
    FORM_OF_ARGUMENTS(template_read_answer, "template parse", template_parse_options),
    {0}};
