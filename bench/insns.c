// SPDX-License-Identifier: MIT
/* bench/insns.c - a QEMU plugin that counts executed instructions, for bench/arm64.py. The
 * declarations are QEMU's plugin interface, version 1 (its header is not in Debian's packages).
 * Compiled for this machine: cc -shared -fPIC. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef uint64_t plugin_id;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*f)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, enum qemu_plugin_op op,
                                              void *to, uint64_t n);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*f)(plugin_id, void *), void *what);

#define EXPORT __attribute__((visibility("default")))
EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

int qemu_plugin_version = 1;
static uint64_t count;

/* Makes a block of instructions add their number each time it is executed. */
static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &count,
                                             qemu_plugin_tb_n_insns(tb));
}
/* Prints the number of instructions. */
static void at_exit(plugin_id id, void *what) {
    (void)id;
    (void)what;
    fprintf(stderr, "%" PRIu64 " instructions\n", count);
}

/* Registers the counter; called by QEMU. */
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
