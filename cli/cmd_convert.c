// SPDX-License-Identifier: MIT
/* cli/cmd_convert.c - hone convert: Hugging Face folder to GGUF. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "convert/mmproj.h"
#include "core/io.h"
#include "core/mem.h"
#include "core/qtype.h"

struct plan_list { /* rows of --dry-run: they come before the numbers that head the document */
    struct row {
        char name[64], shape[96];
        enum qtype type;
        uint64_t n_bytes;
    } * v;
    size_t n, cap;
};

static void plan_row(void *ud, const char *name, enum qtype type, int n_dims, const int64_t ne[4],
                     uint64_t n_bytes) {
    struct plan_list *l = ud;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->v = xreallocarray(l->v, l->cap, sizeof *l->v);
    }
    struct row *r = &l->v[l->n++];
    *r = (struct row){.type = type, .n_bytes = n_bytes};
    snprintf(r->name, sizeof r->name, "%s", name);
    size_t k = 0;
    for (int i = 0; i < n_dims && k < sizeof r->shape; i++)
        k += (size_t)snprintf(r->shape + k, sizeof r->shape - k, "%s%lld", i ? " x " : "",
                              (long long)ne[i]);
}

static void emit_plan(struct emit *m, const struct plan_list *l) {
    emit_table(m, "tensors", "plan");
    emit_col(m, "name", "tensor");
    emit_col(m, "type", "type");
    emit_col(m, "shape", "shape (fastest first)");
    emit_col(m, "size_bytes", "bytes");
    for (size_t i = 0; i < l->n; i++) {
        emit_row(m);
        emit_cell_str(m, l->v[i].name);
        emit_cell_str(m, qtype_name(l->v[i].type));
        emit_cell_str(m, l->v[i].shape);
        emit_cell_i64(m, (int64_t)l->v[i].n_bytes);
    }
}

static void fill_mmproj(struct emit *m, const char *out, const struct mmproj_report *r) {
    char size[48];
    emit_fmt_bytes(size, r->size_bytes);
    emit_str(m, "mmproj", "vision tower", io_base(out));
    emit_str(m, "mmproj_projector", "projector", r->projector);
    emit_str(m, "mmproj_type", "type", r->type);
    emit_i64(m, "mmproj_n_tensors", "tensors", r->n_tensors);
    emit_i64(m, "mmproj_n_params", "parameters", r->n_params);
    emit_i64(m, "mmproj_size_bytes", NULL, (int64_t)r->size_bytes);
    emit_str(m, "mmproj_size", "size", size);
}

static void fill(struct emit *m, const struct convert_opts *o, const struct convert_report *r) {
    emit_str(m, "output", "output", io_base(o->out));
    emit_str(m, "arch", "architecture", r->arch);
    emit_str(m, "type", "type", r->type);
    emit_i64(m, "n_tensors", "tensors", r->n_tensors);
    emit_i64(m, "n_params", "parameters", r->n_params);
    emit_i64(m, "n_mtp_tensors", "MTP tensors", r->n_mtp_tensors);
    if (o->keep_mxfp4) emit_i64(m, "n_kept_mxfp4", "kept as MXFP4", r->n_kept);
    emit_i64(m, "n_vision_left_out", "vision tensors left out", r->n_skipped_vision);
    emit_i64(m, "n_nan", r->n_nan ? "NaN values" : NULL, r->n_nan);
    emit_i64(m, "n_overflow", r->n_overflow ? "overflowed values" : NULL, r->n_overflow);
    char size[48];
    emit_fmt_bytes(size, r->size_bytes);
    emit_i64(m, "size_bytes", NULL, (int64_t)r->size_bytes);
    emit_str(m, "size", "size", size);
    emit_num(m, "seconds", "seconds", r->seconds, 2);
}

struct convert_args {
    struct convert_opts o;
    bool mtp_off, dry, pad, keep;
    const char *mmproj;
};
#define AT(member) offsetof(struct convert_args, member)
static const struct opt convert_opts[] = {
    {"output", 'o', OPT_STR, AT(o.out), "OUT.gguf", "the file to write"},
    {"type", 0, OPT_STR, AT(o.type), "TYPE", "auto (as stored), f32, f16, bf16 or q8_0"},
    {"no-mtp", 0, OPT_FLAG, AT(mtp_off), NULL, "leave the multi-token-prediction block out"},
    {"mmproj", 0, OPT_STR, AT(mmproj), "FILE", "write the vision tower there, as a projector file"},
    {"split-max", 0, OPT_SIZE, AT(o.split_max), "SIZE", "start a new shard at this size"},
    {"pad", 0, OPT_FLAG, AT(pad), NULL, "pad feed-forward widths with zeros to multiples of 256"},
    {"keep-mxfp4", 0, OPT_FLAG, AT(keep), NULL, "matrices stored as MXFP4 stay MXFP4"},
    {"lora", 0, OPT_STR, AT(o.lora), "DIR", "merge this LoRA adapter into the weights"},
    {"dry-run", 0, OPT_FLAG, AT(dry), NULL, "print the plan and the sizes, write nothing"},
    {"name", 0, OPT_STR, AT(o.name), "NAME", "general.name of the output"},
    {"pre", 0, OPT_STR, AT(o.pre), "NAME", "pre-tokenizer, when it is not recognised"},
};
#undef AT
static const struct cmd_spec convert_spec = {
    .name = "convert",
    .synopsis = "HF_DIR -o OUT.gguf [--type TYPE] [--mmproj FILE] [--lora DIR] [--pad] [--no-mtp] "
                "[--keep-mxfp4] "
                "[--split-max SIZE] [--dry-run] [--name NAME] [--pre NAME]",
    .about = "Converts a Hugging Face folder to GGUF. Every structural error shows before any\n"
             "weight is read. The output is the language model; vision towers have a file of "
             "their own.",
    .opts = convert_opts,
    .n_opts = (int)COUNT_OF(convert_opts),
    .min_args = 1,
    .max_args = 1,
};

int cmd_convert(struct cli *c, int argc, char **argv, struct err *e) {
    struct convert_args x = {0};
    TRY(cli_parse(c, &convert_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (!x.o.out && !x.mmproj)
        return err_set(e, ERR_USAGE,
                       "convert: say where the result goes with -o OUT.gguf (or --mmproj FILE)");
    if (x.o.out && x.mmproj && strcmp(x.o.out, x.mmproj) == 0)
        return err_set(e, ERR_USAGE, "convert: -o and --mmproj name the same file");
    TRY(work_pool(&c->work, e));
    x.o.src = c->arg[0];
    x.o.no_mtp = x.mtp_off;
    x.o.pad = x.pad;
    x.o.keep_mxfp4 = x.keep;
    x.o.dry_run = x.dry;
    x.o.overwrite = c->work.overwrite;
    x.o.pool = c->work.pool;
    struct plan_list plan = {0};
    if (x.dry) {
        x.o.plan = plan_row;
        x.o.plan_ud = &plan;
    }
    struct convert_report r;
    struct mmproj_report mr;
    int rc = x.mmproj ? mmproj_run(&x.o, x.mmproj, &mr, e) : 0; /* the short one first */
    if (!rc && x.o.out) rc = convert_run(&x.o, &r, e);
    if (!rc) {
        struct emit *m = emit_new();
        emit_bool(m, "dry_run", x.dry ? "dry run" : NULL, x.dry);
        if (x.o.out) fill(m, &x.o, &r);
        if (x.mmproj) fill_mmproj(m, x.mmproj, &mr);
        if (x.dry) emit_plan(m, &plan);
        cli_emit(c, m);
        emit_free(m);
    }
    free(plan.v);
    return rc;
}
