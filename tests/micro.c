// SPDX-License-Identifier: MIT
/* tests/micro.c - writes the folder of a micro checkpoint and prints its path: `micro
 * tests/golden/archs/gemma3`. The caller removes its parent folder. */
#include "tests/unit/micro.h"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    tmp_make();
    puts(micro_folder(argv[1], NULL));
    return check_n_failed || check_failed_here;
}
