/*
 * Reads and writes times in the form of the API server. Counts days from 1 March of year 0, so that
 * the leap day is the last day of its year. Reads no clock and no time zone.
 */
#include "operator/api/rfc3339.h"

#include <stdbool.h>
#include <stdio.h>

#define DAYS_TO_1970 719468 /* from 1 March of year 0 */
#define DAYS_PER_ERA 146097 /* 400 years */
#define SECONDS_PER_DAY 86400

static int64_t days_from_civil(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = y / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
           day_of_year - DAYS_TO_1970;
}

/* Reads exactly n digits; -1 if there are none. */
static int64_t digits(const char **at, int n)
{
    int64_t value = 0;

    for (int i = 0; i < n; i++) {
        char c = (*at)[i];

        if (c < '0' || c > '9')
            return -1;
        value = value * 10 + (c - '0');
    }
    *at += n;
    return value;
}

/* Reads one separator and then n digits. */
static int64_t field(const char **at, char separator, int n)
{
    if (**at != separator)
        return -1;
    (*at)++;
    return digits(at, n);
}

/* Z, or +hh:mm; false if there is neither. */
static bool offset(const char *at, int64_t *seconds)
{
    int64_t sign = *at == '-' ? -1 : 1;
    int64_t hours, minutes;

    *seconds = 0;
    if (*at == 'Z')
        return at[1] == '\0';
    if (*at != '+' && *at != '-')
        return false;
    at++;
    hours = digits(&at, 2);
    minutes = hours < 0 ? -1 : field(&at, ':', 2);
    *seconds = sign * (hours * 3600 + minutes * 60);
    return minutes >= 0 && *at == '\0';
}

int64_t hvd_rfc3339_parse(const char *text)
{
    static const char separators[6] = {0, '-', '-', 'T', ':', ':'};
    int64_t part[6];
    int64_t zone;

    if (!text)
        return 0;
    for (int i = 0; i < 6; i++) {
        part[i] = i == 0 ? digits(&text, 4) : field(&text, separators[i], 2);
        if (part[i] < 0)
            return 0;
    }
    if (*text == '.') {
        text++;
        while (*text >= '0' && *text <= '9')
            text++;
    }
    if (part[1] < 1 || part[1] > 12 || part[2] < 1 || part[2] > 31 || !offset(text, &zone))
        return 0;
    return days_from_civil(part[0], part[1], part[2]) * SECONDS_PER_DAY + part[3] * 3600 +
           part[4] * 60 + part[5] - zone;
}

/* Two digits of 0 to 99: each status has some times in it. */
static void put_two(char *out, int number)
{
    out[0] = (char)('0' + number / 10 % 10);
    out[1] = (char)('0' + number % 10);
}

void hvd_rfc3339_format(int64_t seconds, char out[HVD_RFC3339_SIZE])
{
    int64_t days = seconds / SECONDS_PER_DAY + DAYS_TO_1970;
    int64_t second = seconds % SECONDS_PER_DAY;
    int64_t era = days / DAYS_PER_ERA;
    int64_t doe = days - era * DAYS_PER_ERA;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / (DAYS_PER_ERA - 1)) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    int month = (int)(mp < 10 ? mp + 3 : mp - 9);
    int year = (int)(yoe + era * 400) + (month <= 2 ? 1 : 0);

    const int part[] = {month, (int)(doy - (153 * mp + 2) / 5 + 1), (int)(second / 3600),
                        (int)(second / 60 % 60), (int)(second % 60)};
    const char *const separators = "--T::Z";

    if (year < 0 || year > 9999 || second < 0) { /* others may have written the time */
        (void)snprintf(out, HVD_RFC3339_SIZE, "%04d-%02d-%02dT%02d:%02d:%02dZ", year, part[0],
                       part[1], part[2], part[3], part[4]);
        return;
    }
    put_two(out, year / 100);
    put_two(out + 2, year % 100);
    for (int i = 0; i < 5; i++) {
        out[4 + 3 * i] = separators[i];
        put_two(out + 5 + 3 * i, part[i]);
    }
    out[19] = separators[5];
    out[20] = '\0';
}
