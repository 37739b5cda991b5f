/*
 * Arithmetic of resource quantities. A text is digits, with a point or without, and a suffix: a
 * power of 1000 (n u m k M G T P E), of 1024 (Ki ... Ei), or an exponent (e3). The digits become
 * one integer of at most 19 digits and a power of ten; excess digits round up. Pure.
 */
#include "operator/core/children/quantity.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NANO 1000000000
#define MILLI_IN_NANO 1000000
#define MAX_DIGITS 19
#define MAX_POWER 100 /* of ten: larger ones saturate or vanish */

__extension__ typedef unsigned __int128 wide;

/* digits * 10^power * 2^shift, and a little more if digits were cut off. */
struct parts {
    uint64_t digits;
    int power;
    int shift;
    bool has_more;
};

static const struct hvd_quantity largest = {INT64_MAX, 0};

/* Reads digits and point; returns the place after them, NULL without a digit. */
static const char *read_digits(const char *at, struct parts *out)
{
    int n = 0, n_kept = 0;
    bool is_fraction = false;

    for (; isdigit((unsigned char)*at) || (*at == '.' && !is_fraction); at++) {
        if (*at == '.') {
            is_fraction = true;
            continue;
        }
        n++;
        if (n_kept < MAX_DIGITS) {
            out->digits = out->digits * 10 + (uint64_t)(*at - '0');
            n_kept += out->digits > 0;
            out->power -= is_fraction;
        } else {
            out->has_more = out->has_more || *at != '0';
            out->power += !is_fraction;
        }
    }
    return n > 0 ? at : NULL;
}

/* Reads "e3", "E-3"; false for another text. */
static bool read_exponent(const char *at, struct parts *out)
{
    int sign = 1, value = 0;

    if (*at != 'e' && *at != 'E')
        return false;
    at++;
    if (*at == '+' || *at == '-')
        sign = *at++ == '-' ? -1 : 1;
    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++)
        value = value < MAX_POWER ? value * 10 + (*at - '0') : value;
    out->power += sign * value;
    return *at == '\0';
}

static bool read_suffix(const char *at, struct parts *out)
{
    static const struct {
        const char *text;
        int power;
        int shift;
    } suffixes[] = {{"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},
                    {"k", 3, 0},   {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},
                    {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
                    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60}};

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (strcmp(at, suffixes[i].text) == 0) {
            out->power += suffixes[i].power;
            out->shift = suffixes[i].shift;
            return true;
        }
    }
    return read_exponent(at, out);
}

static struct hvd_quantity from_wide(wide whole, wide nano)
{
    whole += nano / NANO;
    if (whole > INT64_MAX)
        return largest;
    return (struct hvd_quantity){(int64_t)whole, (int32_t)(nano % NANO)};
}

/* Divides for a power below 0, in two steps, because one step would need more than 128 bits. */
static struct hvd_quantity divide(const struct parts *p, wide value)
{
    wide divisor = 1, rest, nano;
    bool has_more = p->has_more;

    for (int i = p->power; i < 0; i++) {
        if (i >= -MAX_DIGITS) {
            divisor *= 10;
            continue;
        }
        has_more = has_more || value % 10 != 0;
        value /= 10;
    }
    rest = value % divisor;
    nano = rest * NANO / divisor;
    if (has_more || rest * NANO % divisor != 0)
        nano++;
    return from_wide(value / divisor, nano);
}

static struct hvd_quantity put_together(const struct parts *p)
{
    wide value = (wide)p->digits << p->shift;

    if (p->power < 0)
        return divide(p, value);
    for (int i = 0; i < p->power && value > 0; i++) {
        if (value > INT64_MAX)
            return largest;
        value *= 10;
    }
    return from_wide(value, p->has_more ? 1 : 0);
}

static bool read_text(const char *text, struct hvd_quantity *out)
{
    struct parts parts = {0};
    const char *end = read_digits(*text == '+' ? text + 1 : text, &parts);

    if (!end || !read_suffix(end, &parts))
        return false;
    *out = put_together(&parts);
    return true;
}

bool hvd_quantity_read(const cJSON *item, struct hvd_quantity *out)
{
    char text[64];

    if (cJSON_IsString(item) || (cJSON_IsNumber(item) && item->valuestring))
        return read_text(item->valuestring, out);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > 1e18)
        return false;
    (void)snprintf(text, sizeof(text), "%.9f", item->valuedouble);
    return read_text(text, out);
}

struct hvd_quantity hvd_quantity_sum(struct hvd_quantity a, struct hvd_quantity b)
{
    return from_wide((wide)a.whole + (wide)b.whole, (wide)a.nano + (wide)b.nano);
}

struct hvd_quantity hvd_quantity_max(struct hvd_quantity a, struct hvd_quantity b)
{
    if (a.whole != b.whole)
        return a.whole > b.whole ? a : b;
    return a.nano > b.nano ? a : b;
}

struct hvd_quantity hvd_quantity_times(struct hvd_quantity a, int64_t n)
{
    return from_wide((wide)a.whole * (wide)n, (wide)a.nano * (wide)n);
}

void hvd_quantity_format(struct hvd_quantity a, char out[HVD_QUANTITY_SIZE])
{
    int milli = (a.nano + MILLI_IN_NANO - 1) / MILLI_IN_NANO;
    int64_t whole = a.whole;

    if (milli == 0)
        (void)snprintf(out, HVD_QUANTITY_SIZE, "%" PRId64, whole);
    else if (milli < 1000 && whole == 0)
        (void)snprintf(out, HVD_QUANTITY_SIZE, "%dm", milli);
    else if (milli < 1000 && whole < INT64_MAX / 1000)
        (void)snprintf(out, HVD_QUANTITY_SIZE, "%" PRId64 "%03dm", whole, milli);
    else
        (void)snprintf(out, HVD_QUANTITY_SIZE, "%" PRId64, whole == INT64_MAX ? whole : whole + 1);
}
