// SPDX-License-Identifier: MIT
/* cli/cmd_bench_kernels.c - command line of hone bench-kernels; runs jobs/bench_job.c. */
#include "cli/cmd.h"
#include "jobs/bench_job.h"
#include "lib/options.h"

static const struct cmd_spec bench_kernels_spec = {
    "bench-kernels",
    "[--types A,B] [--seconds S]",
    "Measures the kernels on one thread: decoding and dot products per tensor type in\n"
    "10^9 block bytes per second, packed rows with one token (GB/s) and with 64 (10^9\n"
    "multiply-adds per second), and the f32 matrix product, for every instruction set\n"
    "of this machine up to --isa. Data stays in cache.",
    bench_kernels_options,
    0,
    0};

int cmd_bench_kernels(struct cli *c, int argc, char **argv, struct err *e) {
    struct bench_kernels_opts o = bench_kernels_usual;
    TRY(cli_parse(c, &bench_kernels_spec, &o, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, bench_job_run(&c->work, &o, m, e));
}
