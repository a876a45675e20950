// SPDX-License-Identifier: MIT
/* cli/facts_opts.h - facts of a model card as rows of an option table (make/publish.h), for hone
 * publish and hone make. */
#ifndef HONE_CLI_FACTS_OPTS_H
#define HONE_CLI_FACTS_OPTS_H

#include "cli/opt.h"
#include "make/publish.h"

/* Rows that fill a struct publish_facts, the member pf of T. */
#define PUBLISH_FACT_OPTIONS(T, pf)                                                                \
    ROW("repo", 0, OPT_TEXT, offsetof(T, pf.text[FACT_REPO]), "USER/NAME",                         \
        "the Hub repository it will be"),                                                          \
        ROW("base-model", 0, OPT_TEXT, offsetof(T, pf.text[FACT_BASE_MODEL]), "ORG/NAME",          \
            "the original on the Hub"),                                                            \
        ROW("license", 0, OPT_TEXT, offsetof(T, pf.text[FACT_LICENSE]), "ID",                      \
            "the Hub's identifier, such as apache-2.0"),                                           \
        ROW("license-name", 0, OPT_TEXT, offsetof(T, pf.text[FACT_LICENSE_NAME]), "NAME",          \
            "with --license other: its name"),                                                     \
        ROW("license-link", 0, OPT_TEXT, offsetof(T, pf.text[FACT_LICENSE_LINK]), "URL",           \
            "with --license other: its text"),                                                     \
        ROW("quantized-by", 0, OPT_TEXT, offsetof(T, pf.text[FACT_QUANTIZED_BY]), "NAME",          \
            "who made the files"),                                                                 \
        ROW("name", 0, OPT_TEXT, offsetof(T, pf.text[FACT_NAME]), "NAME", "the model's name"),     \
        ROW("language", 0, OPT_TEXT, offsetof(T, pf.language), "A,B,..",                           \
            "languages, such as en,fr"),                                                           \
        ROW("tags", 0, OPT_TEXT, offsetof(T, pf.tags), "A,B,..", "more tags of the card")

/* Options of make_facts.c, for the table of hone make. */
#define MAKE_FACT_OPTIONS(T, mk)                                                                   \
    PUBLISH_FACT_OPTIONS(T, mk.given),                                                             \
        ROW("notes", 0, OPT_TEXT, offsetof(T, mk.words), "FILE", "your own words for README.md"),  \
        ROW("allow-requantize", 0, OPT_FLAG, offsetof(T, mk.requantize), NULL,                     \
            "accept an already quantized SRC")

#endif
