// SPDX-License-Identifier: MIT
/* cli/cmd_bench_kernels.c - hone bench-kernels: options of jobs/bench_job.c. */
#include "cli/cmd.h"
#include "jobs/bench_job.h"

int cmd_bench_kernels(struct cli *c, int argc, char **argv, struct err *e) {
    const char *types = NULL;
    double seconds = 0.03;
    const struct opt opts[] = {
        {"types", 0, OPT_STR, &types, "A,B", "only these tensor types"},
        {"seconds", 0, OPT_NUM, &seconds, "S", "time for each number (0.03)"},
    };
    const struct cmd_spec spec = {
        "bench-kernels",
        "[--types A,B] [--seconds S]",
        "Measures the kernels on one thread: decoding and dot products per tensor type in\n"
        "10^9 block bytes per second, packed rows with one token (GB/s) and with 64 (10^9\n"
        "multiply-adds per second), and the f32 matrix product, for every instruction set\n"
        "of this machine up to --isa. Data stays in cache.",
        opts,
        COUNT_OF(opts),
        0,
        0};
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    if (!(seconds > 0 && seconds <= 60))
        return err_set(e, ERR_USAGE, "--seconds: %g is not in 0..60", seconds);
    struct emit *m = emit_new();
    return cli_result(c, m, bench_job_run(&c->work, types, seconds, m, e));
}
