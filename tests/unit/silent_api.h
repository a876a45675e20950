// SPDX-License-Identifier: MIT
/* tests/unit/silent_api.h - helpers for scheduler tests: a folder's model converted to a given
 * type, and an API that writes nothing and keeps the last fault. */
#ifndef HONE_TESTS_SILENT_API_H
#define HONE_TESTS_SILENT_API_H

#include "convert/convert.h"
#include "serve/sched_int.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

/* Converts a folder to a type and opens it. */
static struct model *open_model(const char *src, const char *type) {
    struct err e = {0};
    struct model *m = NULL;
    struct convert_opts o = {
        .src = src, .out = tmp_path("m.gguf"), .type = type, .overwrite = true};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    return m;
}

static void no_event(struct reply *r, const struct event *ev, struct buf *out) {
    (void)r, (void)ev, (void)out;
}
static void no_whole(struct reply *r, struct buf *out) {
    (void)r, (void)out;
}
static char last_fault[sizeof((struct fault *)0)->msg];
static int no_fail(const struct fault *f, const char *id, bool in_stream, struct buf *out) {
    (void)id, (void)in_stream, (void)out;
    snprintf(last_fault, sizeof last_fault, "%s", f->msg);
    if (f->status != 499 && f->status != 500) fprintf(stderr, "%s\n", f->msg);
    return f->status;
}
static const struct api silent = {.name = "test",
                                  .id = "t_",
                                  .call_id = "c_",
                                  .event = no_event,
                                  .whole = no_whole,
                                  .fail = no_fail};

#endif
