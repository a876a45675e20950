// SPDX-License-Identifier: MIT
/* report/lint_private.c - what lies in a folder to publish and is of the job that made it: state,
 * texts that models were calibrated on (often a person's own), logs. Found by name. */
#include <fnmatch.h>
#include <stdlib.h>

#include "base/io.h"
#include "base/str.h"
#include "report/folder_lint.h"

struct pattern {
    const char *glob, *rule, *text;
    bool error;
};
static const struct pattern patterns[] = {
    {".hone", "private-state",
     "the state of hone make of an earlier version: the next hone make moves it to DIR.work, or "
     "remove it",
     true},
    {"*.hone-journal", "file-leftover", "left over from an interrupted job", true},
    {"default-calib*", "private-text", "a calibration text: move it away", false},
    {"default-eval*", "private-text", "an evaluation text: move it away", false},
    {"*calib*.txt", "private-text", "a calibration text: move it away unless it is for all", false},
    {"*calib*.jsonl", "private-text", "a calibration text: move it away unless it is for all",
     false},
    {"*calib*.gz", "private-text", "a calibration text: move it away unless it is for all", false},
    {"*calib*.parquet", "private-text", "a calibration text: move it away unless it is for all",
     false},
    {"*.log", "private-log", "a log: move it away", false},
    {"nohup.out", "private-log", "a log: move it away", false},
    {".hone-writing", "file-leftover", "left over from an interrupted job", true},
    {"*.orig", "private-orig", "a file that hone made way for: move it away", false},
    {".env*", "private-secret", "a file that usually holds passwords or tokens: move it away",
     true},
};

/* Returns true for the state of a job, whose folder lies in this one. */
static bool is_state(const struct lint *l, const char *name) {
    char *dir = io_join(l->dir, name), *lock = io_join(dir, "lock");
    bool yes = str_ends(name, ".work") && io_exists(lock);
    free(lock);
    free(dir);
    return yes;
}

void lint_private(struct lint *l, const char *name) {
    if (is_state(l, name))
        lint_add(l, true, "private-state", name, "the state of a job of hone make: move it away");
    if (str_ends(name, ".part.log")) return; /* a leftover, said elsewhere */
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const struct pattern *p = &patterns[i];
        if (fnmatch(p->glob, name, FNM_CASEFOLD) != 0) continue;
        lint_add(l, p->error, p->rule, name, "%s", p->text);
        return;
    }
}
