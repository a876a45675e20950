// SPDX-License-Identifier: MIT
/* report/lint_private.c - the linter's check for files that belong only to the job that made the
 * folder: state, calibration texts (often personal), logs. They are recognized by name. */
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
     "state of hone make, written by an earlier version: the next hone make moves it to DIR.work; "
     "or remove it",
     true},
    {"*.hone-journal", "file-leftover", "left over from an interrupted job", true},
    {"default-calib*", "private-text", "a calibration text: move it elsewhere", false},
    {"default-eval*", "private-text", "an evaluation text: move it elsewhere", false},
    {"*calib*.txt", "private-text", "a calibration text: move it elsewhere unless it is public",
     false},
    {"*calib*.jsonl", "private-text", "a calibration text: move it elsewhere unless it is public",
     false},
    {"*calib*.gz", "private-text", "a calibration text: move it elsewhere unless it is public",
     false},
    {"*calib*.parquet", "private-text", "a calibration text: move it elsewhere unless it is public",
     false},
    {"*.log", "private-log", "a log: move it elsewhere", false},
    {"nohup.out", "private-log", "a log: move it elsewhere", false},
    {".hone-writing", "file-leftover", "left over from an interrupted job", true},
    {"*.orig", "private-orig", "your own version of a file that hone wrote: move it elsewhere",
     false},
    {".env*", "private-secret", "a file that usually holds passwords or tokens: move it elsewhere",
     true},
};

/* Returns whether name is the state folder of a job. */
static bool is_state(const struct lint *l, const char *name) {
    char *dir = io_join(l->dir, name), *lock = io_join(dir, "lock");
    bool yes = str_ends(name, ".work") && io_exists(lock);
    free(lock);
    free(dir);
    return yes;
}

void lint_private(struct lint *l, const char *name) {
    if (is_state(l, name))
        lint_add(l, true, "private-state", name,
                 "the state of a job of hone make: move it elsewhere");
    if (str_ends(name, ".part.log")) return; /* a leftover, which another check reports */
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const struct pattern *p = &patterns[i];
        if (fnmatch(p->glob, name, FNM_CASEFOLD) != 0) continue;
        lint_add(l, p->error, p->rule, name, "%s", p->text);
        return;
    }
}
