// SPDX-License-Identifier: MIT
/* core/incbin.h - files inside the binary, by the assembler's .incbin. The Makefile must say that
 * the object depends on them. */
#ifndef HONE_CORE_INCBIN_H
#define HONE_CORE_INCBIN_H

/* Defines symbol[] with the bytes of `file` (a path from the root) and a NUL behind them, at
 * symbol_end[0]. */
#define INCBIN(symbol, file)                                                                       \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #symbol "\n.hidden " #symbol "\n" #symbol ":\n"                             \
            ".incbin \"" file "\"\n"                                                               \
            ".global " #symbol "_end\n.hidden " #symbol "_end\n" #symbol "_end:\n"                 \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const char symbol[], symbol##_end[];

#endif
