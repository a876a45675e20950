// SPDX-License-Identifier: MIT
/* kernels/grid.c - grids of the IQ1, IQ2 and IQ3 formats, stored as text and expanded on first use.
 *
 * A grid of IQ2 or IQ3 is a strictly increasing list of codes. The text is base64 of byte deltas
 * (the first from 0; 255 introduces a 2-byte little-endian delta). A code consists of level
 * indices: 8 of 2 bits (IQ2) or 4 of 3 bits (IQ3), element 0 in the lowest bits.
 * tests/unit/test_blocks.c checks every entry through decoded blocks. */
#include "kernels/grid.h"

#include <pthread.h>

// clang-format off
/* 256 codes, SHA-1 of the codes as little-endian u16: 9ddc56270d77061ebc51b9e70f80ef3a63a24b43. */
static const char iq2_xxs_text[] =
    "AAIDAwIHAwwCBgIXAwwICQMcAggYXwMMBStEFGgCIGD/fwEDDBEDHAIGGCEDDBRcAgYYJiMXEXgHMEQg/1wBBQMMFBkD"
    "DAI2fDzCEv/tBQMMER8gJAwFawgYMAompCH/uwEIGAUkN5hKnhb/6wEDDDBBfwWbsf+vBQIIOh0fAqcfuAL//wEDDDAW"
    "qkEj/ywB/3gBGHT/sAH/vRUDDAgJAxwIDgohAwxwIEEfBXwPOA4S/5gBCBhgGXkS3P8BAgMMMAW7WAkhw0v/cAUICQgH"
    "YAh8PmLt//8BAnj3U/+sAREIS9zI//wFDDAomFXDSP+gAQX/CwECcv++Av++FwIIN0GCFCjR//ABAwwFKyCgRk51NyD/"
    "ogH/AgH/DQH/8wUMFBxhdWrF/7sBIiL/DQH/MAOf/+IGTjWE9/8YAv84BLQ=";

/* 512 codes, SHA-1 of the codes as little-endian u16: 95ad2859cf90aa51a79b766b224796822613efc6. */
static const char iq2_xs_text[] =
    "AAIDAwIHAwIDBwIDAxkDAgMHAgMDCQMcAgMDCQMFB2EDAgMHAgMDAgcDHAIDAwkDDAgZAwxwAgMDCQMMIQMMBSsK/3cB"
    "AwIDBwIDAwkDHAIDAwkDAgohAwxwAgMDCQMMIQMMER+BAwwWGgJC/3wBAgMDAgcDDAUcAwwIKCAKVwMMMEEIdyAIbgr/"
    "YQUDAgMHAgMDCQMcAgMDCQMMChcDDHACAwMJAwwhAwwwFAJrAwIKMCD/oAECAwMJAwwhAwUHFByBAwwwwBQ1/7gBAwwC"
    "LhQyegVh61j/VwUCAwMCBwMMIQMMMCBhAwwwCB2bIl4o/1kBAwwZF8BBEUdoGYz/WgEIAhY1MxrGKHgYYgYC/3cVAwID"
    "BwIDAwkDHAIDAwIHAwwFHAMMcAIDAwkDDCEDDDAFHV8DDAIXF//AAQIDAwkDBQchAwwwFG0DDBQcWmYKOgz/sQEDDDAF"
    "Dw6eETMMGZv//AUCAwMJAwwIGQMMMIEDDAUrAr5EZv9XAQMMER8gISBfCHgImUc5/18BFC0PSYEmAv9DAf98BQMMMBQO"
    "JCNX/yQBJkj/bgEW+jAFX/9dAmm74U4O/54VAgMDCQMMChcDDDACJgJXAwIKMBEIpyBgAh4I/1kBAwwCAysgKXdEYXNS"
    "/5YBCB01JgImXv8cAV4IDhL/WQUDDDAWLnwiQvIz/3cBBT8MCNFnAq//EAJVo8xL/6AFAgYCFgp2sQhNWgIGIlYg/6AB"
    "Vf/QATP/cgEWAgZ4CFyAAqICZxk=";

/* 1024 codes, SHA-1 of the codes as little-endian u16: 68b076e15a02f7e6f8f595a4eb4cc816724f0432. */
static const char iq2_s_text[] =
    "AAIDAwIHAwIDBwIDAxkDAgMHAgMDCQMCAxcCAwMJAwwFBVcDAgMHAgMDCQMcAgMDCQMCAwcFAxkDDAIDDANcAgMDCQMM"
    "ChcDAgMHBSsFBQoO/18BAwIDBwIDAwkDAgMXAgMDAgcDAgMHAgMcAwIDBwUDCQNcAgMDAgcDAgMHBQMZAwIDBwIDAwkD"
    "HAIDAwkDDGEDAgMHBSsFAwkDDCEDDP9wAQIDAwkDAgMHBQUXAwIDBwIDAwkDHAUPFlcDDAIDAwkfBQMJAwwhD3ARAw4G"
    "AiZJ/2gFAwIDBwIDAwkDAhoCAwMJAwIDBwIDAxkDAgoFAwkDXAIDAwIHAwIDBwIDAxkDAgMHAgMDCQMcAgMDCQNtAwUH"
    "BQwDHAUMAy0DDP9wAQIDAwkDAgMHBQMZAwIDBwIDAwkDHAIDAwkDDGEDAgMHAgMDCQMcAgMDCQMMIQMMcAUDCQMMIQMM"
    "MCr/VwEDAgMHBQMJHwIDAwkDDCEDfAIDAwkDDCEDDBk5YgwwFv+qBQIDAwkDAgMHBQUXAwwCAw8cCgoWVwMMAgMMHwID"
    "DAMMIQMMcAoYBgIaDDgCHv9ZAQMCAwcFAwkDHAIDAwkDDCEDDHAFAwkDDCEDDBYagQMMMBn/pwEFDAMtAww6IFcDDIV1"
    "GEIkAv93FQMCAwcCAwMCBwMCGgIDAwIHAwIDBwIDHAMMBQMJA1wCAwMJAwIDBwIDHAMCAwcCAwMJAxwCAwMJAwxhAwwC"
    "AwMMHAUDCQMMIQP/fAECAwMCBwMCAwcCAwMZAwIDBwIDAwkDHAIDAwkDDGEDAgMHAgMDCQMcAgMDCQMMChcDDHACAwMJ"
    "AwwhAwwwJf9cAQMFBwIDAwkDHAIDAwkDDCQMcAIDAwkDDCEDDDAWawMMMP/ABQIDAwkDAgMHAgMDGQMCAwcCAwMJAxwC"
    "AwMJA20DAgMHAgMDCQMcAgMDCQMMIQMMcAUDCQMMIQMMGRf/gQEDAgMHAgMDCQMcAgMDCQMMIQMMcAIDAwkDDCEDDDCB"
    "AwwWGv/AAQIDAwkDDCEDDAomgQMMMMAZbCP/WQUDAgoCAwMJAxwFAwkDDCQMcAIDAwkDDCEDDDAZawwwFkv/XwEFAwkD"
    "DCEDDDCBAwwwCh4qbpT/bQEDDFUzaCr/GAFf/18VAgMDCQMFBwUcAwwCAwMJHwUMA20DBQcCAwMJAxwCAwMJAy0DDBlX"
    "BQUHAy0DDP+xAQMCAwcCAwMJHwIDAwkDDCEDDHACAwMJAwwhAwwwCncDDBkX/8ABBQwDLQMMUl8DPCW9NgIoIP9fBQMF"
    "BwIDAwwcAgMDCQMMIQMMcAUMAy0DDAqnAwwwZv9aAQIDAwkDDCEDDDAWawMMMFgJX0Ye/50BAwwWGmlXSQn/PgH/cAUF"
    "BQoOCBcDDFIIliWdCBgGAlgGAh7/WQEDDDBJG1wZ/zgB/7kBHnqyMoICFgIGYCI=";

/* 256 codes, SHA-1 of the codes as little-endian u16: a9189d0250242d939ddf7331858c43320bb39a89. */
static const char iq3_xxs_text[] =
    "AAICBQIEAQIHCRkCBAIFAgcEAwIHCwwIAgIFBwIHAgQKBg4EBgECCyMTFAULDAIEBhMQMxcUBAIVDhACBQIHAgUCAgsB"
    "GAIHBwIvAgUCBwciBgIOCQ0QCwQjKAQSEwxNDiACBwIFAgQDCR8CAgMCBwcbBAEIAgcGAQINAQ0UBwQsBCEOGBQKG0UC"
    "CxccBwIHAhUNBQYCDgkLAhsCBQ0VEA8SPQ8TBgYMGx8SFSgVFAsOAgwETRQPARAGER4fJQshDhVNAwIOMhcXCAYQFx8O"
    "IAgpHQsEIwgXTywOMhACDh0gHiUkBkYhJTEoDjICAgESECwKKhsFFg0OFSEQHwISRA==";

/* 512 codes, SHA-1 of the codes as little-endian u16: 869dc21f42fbc6b7141792734d1dcfef54316c1a. */
static const char iq3_s_text[] =
    "AAEBAwIBAQECAgIBBAYFAgMCAgIFAgcDAwEBAQIEAQQDAwQCBAcNBAUGAQQCAQMDAwQDBAYDAgICDQMIBgQDAgcCAwYE"
    "Ag0CBAMLBAIDBgYDBg8KAgwCBAUGBAIPBQsDAg4RDwcCAgwCBAUNBBQBAQIEAQICAgECBwMCDgIDCQYBAgMCBAUHAwYH"
    "Ag4GAgoDAgEEBgYDCgMKBwMDAQMGBgEEBREGCwIFAg0CBwQCBBUHAwYHAg8nBAMNAhsCBQIHDAQRBggBAgICAQICAgMC"
    "BAECBwICAwINAQMCAwIGAwQDAwQDBgcYAwMKAgUHAgoECgMEAgMECQIFAgcGDgsGCQMHAwQZAwcFCQ0BCw0IAgUKHAQU"
    "BA0CCwUaBwICAgMHAgIFAgMCCgYIAgIHBQINEAoEAgoGCgIMGQcEBQIEAQkCBAYOCAYFBAcRBgQNBwILBQoKDRMTIAIN"
    "AgsjBAYGBAMDBwcQCgUCAgcGBQYGBBQCBQUECgUPAwYMBQIFAgcEIwISCwEZDAIKIRkRFBgFCwsGGQYEBg4EAwMMBgUC"
    "AgUHCSAGCQoFBg0XBQEPDQUMBgYDDAoMJAwTAjcgAg43AgIMAhUQEAcdFhIGCwUGCAwFDzUODw4DGRQVGykCNQQDCQIM"
    "AgwGEAcLDwIcAwQGAwcRGRgDDhYEBgUYKhAgFyc=";
/* IQ1_S and IQ1_M: one bit for each of the 3^8 vectors of -1, 0, 1, set if the vector is in the
 * grid. Vectors are in the order of their ternary numbers (digit 0 is -1, element 0 lowest). 2048
 * of 6561; SHA-1 of the numbers as little-endian u16: c98bd62ce50e6b0e77658934895f0eaa5bc14acd */
static const char iq1_text[] =
    "VSUUhaACQlEIRTGohiCKohoIKiAUhVAUgiBERSUVBaACgiCIGAAIgqADKqCIu6oKkKoLACIACqqMgqAIQFEIRSGIgFAU"
    "QlEIijAImKAIgCoIRSEUhSBIQlUIRQEswqAgiiYAKiSoqqII4q8ICCgoAKACQiiqKCCogCAKmwi5uqggyq6Joq6qOnzr"
    "6rq7gg64IrrK0w6SAiIAIiCoiroKggIIACpK4KI7IiArogCBQIGqiigIIgEUhVAVgiAJRSFUhaAIAiOoOiCEgiBUQlEI"
    "oiAIlVAUAioIuKiCgKBIAiAIgqJoogIoqyoIhSAIgjAIRUAARSEUhaAAQlEARQEpggCKgioIoTAUBVAUgigIRSEUhSAC"
    "AiCqKgAgErGKriiouqGqqHAAggoIAigiAoQAggBIgKDqsCqqwiCLuiLq2qeLi26okrAqqnKLikQMKiBIhEAoiioIqiDI"
    "zKIioq+aoOioAgACACqoiAAggKCLoqIouqCAgjIKur64uv7roqArogiKCijqogChMgIM+qTq3u8rqC6Nvn7r+vd/v+Z9"
    "ut5p+yf/vyb6EunhiiIQqr4OhKoIsqgLgq7/uiTpg4AEYixo8qgKpCsAAioICOKqEgACgioKpiDJgomQgigAogCMgBMA"
    "gggIAGyKqqq7Aqa+iqDKAoBrly7QsukQghAuqt4oFdGlBAAKggCKgiAIAaEggqo5uiIyhKAJgBgAiqJiAoEURFEARSGs"
    "glAUQlEIqiAoqocKEioIRSEUBaAIQlEIRQEgAqBAoiIAiAAIoghqim64qqqAACAKguLIIiEIRFAUQlEJiiAVhVAUhgoI"
    "qioqgAAKQlEIRSGoAFAUQlEI4iCIggoYgioIqqKqirCLAgoqqiAogoCqCigIKACpiAIioL4LKLgIirpLsq7/uqT4rqog"
    "UihotqAw5oAKAigIImpigCAKAqqqK6rqoqmgoggIECCgiiIAgg4ARSEUhaAKQFEIRSGpBgBKqgIIpQAQDUQUgigIRSEU"
    "BQAIgoKs8iAAAACqCigKuiDqogIAgkgJKOkUABFLRVEARQGoAlAUQlEIiCQIiCgKQAgARQEUBaACQFEIRQE=";
// clang-format on

static struct kern_grid grid;
static pthread_once_t grid_once = PTHREAD_ONCE_INIT;

/* Returns the value of a base64 character. */
static unsigned base64_value(char c) {
    if (c >= 'A' && c <= 'Z') return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z') return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9') return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : 63;
}

static unsigned base64_byte(const char *text, int i) {
    const char *p = text + i / 3 * 4 + i % 3;
    const unsigned pair = base64_value(p[0]) << 6 | base64_value(p[1]);
    return (pair >> (4 - 2 * (i % 3))) & 255u;
}

/* Decodes n ascending codes from the base64 differences in `text`. Each code is `per` indices of
 * `bits` bits: out [n][per] receives their levels, no [2][n] the codes' halves, one byte each. */
static void expand(const char *text, int n, int per, int bits, const uint8_t *level, uint8_t *out,
                   uint8_t *no) {
    unsigned code = 0;
    for (int e = 0, i = 0; e < n; e++) {
        unsigned delta = base64_byte(text, i++);
        if (delta == 255) {
            delta = base64_byte(text, i) | base64_byte(text, i + 1) << 8;
            i += 2;
        }
        code += delta;
        for (int j = 0; j < per; j++) *out++ = level[(code >> (bits * j)) & ((1u << bits) - 1)];
        for (int h = 0; h < 2; h++)
            no[h * n + e] =
                (uint8_t)(bits == 2 ? code >> (8 * h)
                                    : (code >> (6 * h) & 7) | (code >> (6 * h + 3) & 7) << 4);
    }
}

/* Expands the entries of IQ1's grid with both shifts, in eighths: 8 * v + 1 and 8 * v - 1. */
static void expand_iq1(void) {
    for (int code = 0, n = 0; code < 6561; code++) {
        if (!(base64_byte(iq1_text, code / 8) >> (code % 8) & 1)) continue;
        for (int j = 0, rest = code; j < 8; j++, rest /= 3) {
            const int v = rest % 3 - 1;
            grid.iq1[n][j] = (int8_t)(8 * v + 1);
            grid.iq1[KERN_IQ1 + n][j] = (int8_t)(8 * v - 1);
        }
        n++;
    }
}

/* Expands the grids of all IQ types, once. */
static void expand_all(void) {
    static const uint8_t iq2[4] = {8, 25, 43, 0};
    static const uint8_t iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    static const uint8_t iq3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    expand(iq2_xxs_text, 256, 8, 2, iq2, grid.iq2_xxs[0], grid.iq2_xxs_no[0]);
    expand(iq2_xs_text, 512, 8, 2, iq2, grid.iq2_xs[0], grid.iq2_xs_no[0]);
    expand(iq2_s_text, 1024, 8, 2, iq2, grid.iq2_s[0], grid.iq2_s_no[0]);
    expand(iq3_xxs_text, 256, 4, 3, iq3_xxs, grid.iq3_xxs[0], grid.iq3_xxs_no[0]);
    expand(iq3_s_text, 512, 4, 3, iq3_s, grid.iq3_s[0], grid.iq3_s_no[0]);
    expand_iq1();
    for (unsigned s = 0; s < 128; s++) {
        unsigned parity = s ^ s >> 4;
        parity ^= parity >> 2;
        parity ^= parity >> 1;
        grid.sign[s] = (uint8_t)(s | (parity & 1u) << 7);
    }
}

const struct kern_grid *kern_grid_get(void) {
    pthread_once(&grid_once, expand_all);
    return &grid;
}
