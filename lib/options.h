// SPDX-License-Identifier: MIT
/* lib/options.h - option tables of the commands (commands/NAME.def). Each is defined next to the
 * library call that runs the same job. */
#ifndef HONE_LIB_OPTIONS_H
#define HONE_LIB_OPTIONS_H

#include "commands/option.h"

#include "commands/members.h"
struct common_opts {
#include "commands/common.def"
};
extern const struct option common_options[], run_options[], serve_options[],
    bench_kernels_options[], convert_options[], diff_options[], doctor_options[],
    eval_cases_options[], eval_choice_options[], eval_kld_options[], eval_kv_options[],
    eval_logits_options[], eval_mtp_options[], eval_needle_options[], eval_ppl_options[],
    eval_replay_options[], eval_speed_options[], eval_suite_options[], eval_vision_options[],
    imatrix_options[], inspect_options[], make_options[], merge_options[], meta_options[],
    plan_options[], publish_options[], quantize_options[], recipes_options[], replay_options[],
    sensitivity_options[], split_options[], synth_options[], template_eval_options[],
    template_fix_options[], template_lint_options[], template_parse_options[],
    template_render_options[], template_show_options[], tokenize_options[], verify_options[],
    versus_options[];

#endif
