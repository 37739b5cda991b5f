/*
 * Parses the Date header of an answer, in the one form that HTTP lets servers send (RFC 9110,
 * 5.6.7). Any other byte makes it no date: the operator only needs it to estimate the server's
 * clock.
 */
#include "operator/kube/httpdate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "operator/api/rfc3339.h"

#define NAME "Date:"
#define FORM "Sun, 06 Nov 1994 08:49:37 GMT"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* 1 to 12; 0: no month. */
static unsigned month_of(const char *text)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (unsigned i = 0; i < 12; i++)
        if (memcmp(months + (size_t)i * 3, text, 3) == 0)
            return i + 1;
    return 0;
}

int64_t hvd_httpdate_parse(struct hvd_strview line)
{
    size_t name_len = strlen(NAME);
    char text[64];
    unsigned month;

    if (line.len < name_len || strncasecmp(line.data, NAME, name_len) != 0)
        return 0;
    line = (struct hvd_strview){line.data + name_len, line.len - name_len};
    while (line.len && is_blank(line.data[0]))
        line = (struct hvd_strview){line.data + 1, line.len - 1};
    while (line.len && is_blank(line.data[line.len - 1]))
        line.len--;
    if (line.len != strlen(FORM) || memcmp(line.data + 3, ", ", 2) != 0 ||
        memcmp(line.data + 25, " GMT", 4) != 0)
        return 0;
    month = month_of(line.data + 8);
    if (!month || line.data[7] != ' ' || line.data[11] != ' ' || line.data[16] != ' ')
        return 0;
    (void)snprintf(text, sizeof(text), "%.4s-%02u-%.2sT%.8sZ", line.data + 12, month, line.data + 5,
                   line.data + 17);
    return hvd_rfc3339_parse(text);
}
