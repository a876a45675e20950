// SPDX-License-Identifier: MIT
/* base/incbin.h - files embedded in the binary with the assembler's .incbin. The Makefile must list
 * each embedded file as a dependency of the object. */
#ifndef HONE_BASE_INCBIN_H
#define HONE_BASE_INCBIN_H

#if defined(__APPLE__) /* Mach-O: other section names, and C symbols begin with _. */
#define INCBIN_BEGIN ".section __TEXT,__const\n"
#define INCBIN_END ".text\n"
#define INCBIN_LABEL(name) ".globl _" name "\n.private_extern _" name "\n_" name ":\n"
#elif defined(_WIN32) /* COFF has no hidden symbols */
#define INCBIN_BEGIN ".section .rdata,\"dr\"\n"
#define INCBIN_END ".text\n"
#define INCBIN_LABEL(name) ".globl " name "\n" name ":\n"
#else
#define INCBIN_BEGIN ".section .rodata\n"
#define INCBIN_END ".previous\n"
#define INCBIN_LABEL(name) ".global " name "\n.hidden " name "\n" name ":\n"
#endif

/* Defines symbol[] with the bytes of `file` (a path from the root), followed by a NUL at
 * symbol_end[0]. */
#define INCBIN(symbol, file)                                                                       \
    __asm__(INCBIN_BEGIN INCBIN_LABEL(#symbol) ".incbin \"" file "\"\n" INCBIN_LABEL(              \
        #symbol "_end") ".byte 0\n" INCBIN_END);                                                   \
    extern const char symbol[], symbol##_end[];

#endif
