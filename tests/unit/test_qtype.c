// SPDX-License-Identifier: MIT
/* tests/unit/test_qtype.c - bits per weight and names according to the published format tables,
 * refused ids, row sizes, file types. */
#include "base/attr.h"
#include "containers/qtype.h"
#include "tests/check.h"

static void test_table(void) {
    static const struct {
        int id;
        const char *name;
        double bpw;
    } want[] = {{0, "F32", 32},         {1, "F16", 16},          {2, "Q4_0", 4.5},
                {3, "Q4_1", 5},         {6, "Q5_0", 5.5},        {7, "Q5_1", 6},
                {8, "Q8_0", 8.5},       {9, "Q8_1", 9},          {10, "Q2_K", 2.625},
                {11, "Q3_K", 3.4375},   {12, "Q4_K", 4.5},       {13, "Q5_K", 5.5},
                {14, "Q6_K", 6.5625},   {15, "Q8_K", 9.125},     {16, "IQ2_XXS", 2.0625},
                {17, "IQ2_XS", 2.3125}, {18, "IQ3_XXS", 3.0625}, {19, "IQ1_S", 1.5625},
                {20, "IQ4_NL", 4.5},    {21, "IQ3_S", 3.4375},   {22, "IQ2_S", 2.5625},
                {23, "IQ4_XS", 4.25},   {24, "I8", 8},           {25, "I16", 16},
                {26, "I32", 32},        {27, "I64", 64},         {28, "F64", 64},
                {29, "IQ1_M", 1.75},    {30, "BF16", 16},        {34, "TQ1_0", 1.6875},
                {35, "TQ2_0", 2.0625},  {39, "MXFP4", 4.25},     {40, "NVFP4", 4.5},
                {41, "Q1_0", 1.125},    {42, "Q2_0", 2.25}};
    int n = 0;
    for (int id = -5; id < 300; id++) n += qtype_info(id) != NULL;
    CHECK_EQ_I64(n, COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        enum qtype t = (enum qtype)want[i].id, back = QT_COUNT;
        CHECK_EQ_STR(qtype_name(t), want[i].name);
        CHECK(qtype_bpw(t) == want[i].bpw);
        CHECK(qtype_parse(want[i].name, &back) && back == t);
        CHECK(qtype_foreign(want[i].id) == NULL);
    }
}

static void test_names(void) {
    enum qtype t = QT_F32;
    CHECK(qtype_parse("q4_k", &t) && t == QT_Q4_K);
    CHECK(!qtype_parse("Q4_K_M", &t) && !qtype_parse("", &t) && !qtype_parse("Q4", &t));
    CHECK(t == QT_Q4_K);
    CHECK_EQ_STR(qtype_name((enum qtype)4), "?");
    CHECK_EQ_STR(qtype_name((enum qtype)4000), "?");
}

static void test_refused_ids(void) {
    static const int retired[] = {4, 5, 31, 32, 33, 36, 37, 38};
    for (size_t i = 0; i < COUNT_OF(retired); i++) {
        CHECK(qtype_info(retired[i]) == NULL);
        CHECK(qtype_foreign(retired[i]) && strstr(qtype_foreign(retired[i]), "retired"));
    }
    CHECK(qtype_info(INT64_MAX) == NULL && qtype_info(INT64_MIN) == NULL && qtype_info(43) == NULL);
    CHECK_EQ_STR(qtype_foreign(4), "retired (Q4_2)");
    CHECK_EQ_STR(qtype_foreign(139), "ik_llama.cpp IQ4_K");
    CHECK_EQ_STR(qtype_foreign(158), "ik_llama.cpp IQ1_KT");
    CHECK(qtype_foreign(36) && strstr(qtype_foreign(36), "I2_S"));
    CHECK(qtype_foreign(97) && qtype_foreign(150) && qtype_foreign(210));
    CHECK(!qtype_foreign(43) && !qtype_foreign(100) && !qtype_foreign(-1) && !qtype_foreign(99999));
}

static void test_row_bytes(void) {
    CHECK_EQ_I64(qtype_row_bytes(QT_Q4_K, 2048), 8 * 144);
    CHECK_EQ_I64(qtype_row_bytes(QT_F32, 3), 12);
    CHECK_EQ_I64(qtype_row_bytes(QT_Q8_0, 64), 68);
    CHECK_EQ_I64(qtype_row_bytes(QT_Q8_0, 63), 0);
    CHECK_EQ_I64(qtype_row_bytes(QT_Q4_K, 0), 0);
    CHECK_EQ_I64(qtype_row_bytes(QT_Q4_K, -256), 0);
    CHECK_EQ_I64(qtype_row_bytes(QT_F64, INT64_MAX), 0);
    CHECK_EQ_I64(qtype_row_bytes((enum qtype)4, 256), 0);
}

static void test_file_types(void) {
    CHECK_EQ_I64(qtype_ftype_id("Q4_K_M"), 15);
    CHECK_EQ_I64(qtype_ftype_id("bf16"), 32);
    CHECK_EQ_I64(qtype_ftype_id("F32"), 0);
    CHECK_EQ_I64(qtype_ftype_id("Q4_K"), -1);
    CHECK_EQ_STR(qtype_ftype_name(18), "Q6_K");
    CHECK_EQ_STR(qtype_ftype_name(1024 + 30), "IQ4_XS"); /* 1024: guessed */
    static const int none[] = {-1, 4, 5, 6, 33, 34, 35, 42, 1023, 2048};
    for (size_t i = 0; i < COUNT_OF(none); i++) CHECK(qtype_ftype_name(none[i]) == NULL);
    for (int id = 0; id < 64; id++)
        if (qtype_ftype_name(id)) CHECK_EQ_I64(qtype_ftype_id(qtype_ftype_name(id)), id);
}

int main(void) {
    RUN(test_table);
    RUN(test_names);
    RUN(test_refused_ids);
    RUN(test_row_bytes);
    RUN(test_file_types);
    return check_done();
}
