// SPDX-License-Identifier: MIT
/* tests/unit/test_joint.c - the fit to joint probes and the choice of single probes, compared with
 * numpy (tests/oracle/joint.py); the list of joint probes; their cost. */
#include "base/doc.h"
#include "base/mem.h"
#include "mix/joint.h"
#include "tests/check.h"

static enum role role_of(const char *name) {
    for (int r = 0; r < ROLE_COUNT; r++)
        if (name && strcmp(name, role_name((enum role)r)) == 0) return (enum role)r;
    return ROLE_OTHER;
}

/* Fills in groups and probes of a case. The caller frees s->group. */
static void load(struct sens *s, const cJSON *c) {
    int64_t v = 0;
    memset(s, 0, sizeof *s);
    s->group = xcalloc(100, sizeof *s->group);
    CHECK(doc_i64(c, "n_blocks", &v));
    s->model.n_blocks = (int)v;
    for (const cJSON *m = doc_first(doc_get(c, "groups")); m; m = m->next) {
        struct sens_group *g = &s->group[s->n_groups++];
        g->role = role_of(doc_str(m, "role"));
        CHECK(doc_i64(m, "block", &v));
        g->block = (int)v;
        CHECK(doc_i64(m, "bytes", &v));
        g->bytes[QT_Q3_K] = (uint64_t)v;
        g->joint_type = QT_Q3_K;
        g->err[QT_Q3_K] = doc_num(m, "error", 0);
        g->slope = doc_num(m, "slope", 0);
        g->gain[QT_Q3_K] = 1;
        if (doc_get(m, "kld"))
            g->probe[g->n_probes++] =
                (struct sens_probe){.type = QT_Q3_K,
                                    .kld = doc_num(m, "kld", 0),
                                    .kld_stderr = doc_num(m, "kld_stderr", 0)};
    }
    for (const cJSON *m = doc_first(doc_get(c, "joint")); m; m = m->next) {
        struct sens_joint *j = &s->joint[s->n_joint++];
        *j = (struct sens_joint){.role = role_of(doc_str(m, "role")),
                                 .block = SENS_EVERY,
                                 .kld = doc_num(m, "kld", 0),
                                 .kld_stderr = doc_num(m, "kld_stderr", 0)};
        if (doc_i64(m, "block", &v)) j->block = (int)v;
    }
}

static void test_fit(void) {
    struct err e;
    cJSON *golden = NULL;
    CHECK_OK(doc_read(&golden, "tests/golden/joint.json", 1 << 20, &e));
    int n = 0;
    for (const cJSON *c = doc_first(golden); c; c = c->next, n++) {
        struct sens s;
        struct joint_choice got;
        int i = 0;
        load(&s, c);
        joint_fit(&s);
        for (const cJSON *m = doc_first(doc_get(c, "groups")); m; m = m->next, i++) {
            const double fit = doc_num(m, "fit", 0);
            CHECK_CLOSE(s.group[i].fit, fit, 1e-6 * fit);
            CHECK_CLOSE(s.group[i].fit_sd, doc_num(m, "fit_sd", 0), 1e-6);
            CHECK_CLOSE(sens_loss(&s, i, QT_Q3_K), fit * s.group[i].err[QT_Q3_K], 1e-6 * fit);
        }
        joint_choose(&s, JOINT_SINGLES, &got);
        CHECK_CLOSE(got.risk, doc_num(c, "risk", 0), 1e-6);
        CHECK_CLOSE(got.after, doc_num(c, "after", 0), 1e-6);
        i = 0;
        for (const cJSON *m = doc_first(doc_get(c, "picks")); m; m = m->next, i++)
            CHECK_EQ_I64(i < got.n ? got.group[i] : -1, (int64_t)cJSON_GetNumberValue(m));
        CHECK_EQ_I64(got.n, i);
        s.n_joint = 0; /* nothing to fit to */
        joint_fit(&s);
        CHECK(s.group[0].fit <= 0 && s.group[0].fit_sd <= 0);
        free(s.group);
    }
    CHECK_EQ_I64(n, 2);
    cJSON_Delete(golden);
}

/* Tests the list: every role, everything, and blocks from the outside in, without the draft block's
 * group. */
static void test_list(void) {
    struct sens s = {.n_groups = 9, .model.n_blocks = 5, .model.n_mtp = 1};
    struct sens_joint *out = xcalloc(SENS_MAX_JOINT, sizeof *out);
    bool used[9];
    s.group = xcalloc(9, sizeof *s.group);
    for (int i = 0; i < 9; i++) {
        struct sens_group *g = &s.group[i];
        g->role = i < 8 ? i % 2 ? ROLE_FFN_DOWN : ROLE_ATTN_Q : ROLE_OUTPUT;
        g->block = i < 8 ? i / 2 : -1;
        used[i] = i != 7; /* as if unused by the forward pass */
        g->can[QT_IQ3_S] = g->can[QT_Q3_K] = g->can[QT_Q6_K] = true;
        g->err[QT_IQ3_S] = .016;
        g->err[QT_Q3_K] = .02;
        g->err[QT_Q6_K] = .0005;
    }
    joint_types(&s, used);
    CHECK(s.group[0].joint_type == QT_Q3_K && s.group[7].joint_type == QT_F32);
    CHECK_EQ_I64(joint_list(&s, out), 8);
    const int blocks[] = {0, 3, 1, 2};
    CHECK(out[0].role == ROLE_OUTPUT && out[1].role == ROLE_ATTN_Q && out[2].role == ROLE_FFN_DOWN);
    CHECK(out[3].role == ROLE_OTHER && out[3].block == SENS_EVERY);
    for (int i = 0; i < 4; i++) CHECK_EQ_I64(out[4 + i].block, blocks[i]);
    CHECK(joint_has(&out[5], &s.group[6]) && !joint_has(&out[5], &s.group[7]) &&
          !joint_has(&out[5], &s.group[8]) && joint_has(&out[3], &s.group[8]));
    free(s.group);
    free(out);
}

/* Tests the cost for a mixture of experts with 40 blocks: 12 roles, 282 groups. */
static void test_cost(void) {
    const int layers[] = {1, 1, 10, 10, 10, 10, 30, 30, 30, 30, 40, 40, 40};
    struct probe_cost joint, all, none;
    probe_cost(PROBES_JOINT, layers, COUNT_OF(layers), 1, 0, &joint);
    probe_cost(PROBES_ALL, layers, COUNT_OF(layers), 3, 0, &all);
    probe_cost(PROBES_SLOPES, layers, COUNT_OF(layers), 3, 0, &none);
    CHECK_EQ_I64(joint.n_probes, 13 + 1 + 40 + JOINT_SINGLES);
    CHECK_EQ_I64(all.n_probes, 3 * 282);
    CHECK(all.single_passes > 10 * (joint.joint_passes + joint.single_passes) &&
          joint.encoded > 3 && joint.encoded < 3.1);
    CHECK(none.n_probes == 0 && none.joint_passes + none.single_passes <= 0);
    probe_cost(PROBES_ALL, layers, COUNT_OF(layers), 1, 4, &all);
    CHECK_EQ_I64(all.n_probes, 2 + 11 * 4);
}

int main(void) {
    RUN(test_fit);
    RUN(test_list);
    RUN(test_cost);
    return check_done();
}
