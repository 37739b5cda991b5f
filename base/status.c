/*
 * Status codes and the error record that travels with them.
 *
 * Everything here works on the caller's memory: no allocation, no lock, any thread. The first error
 * set in a record wins, so that clean-up code on the way out cannot hide the root cause.
 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const char *hvd_status_str(hvd_status_t st)
{
    switch (st) {
#define X(name, value, text)                                                                       \
    case name:                                                                                     \
        return text;
        HVD_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

const char *hvd_status_name(hvd_status_t st)
{
    switch (st) {
#define X(name, value, text)                                                                       \
    case name:                                                                                     \
        return #name;
        HVD_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

/* Makes a message safe for one line of a terminal or log, because its parts may come from outside.
 * Replaces white space by blanks, and harmful characters by question marks. */
static void make_plain(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        if (*c >= '\t' && *c <= '\r')
            *c = ' ';
    }
    hvd_str_disarm(text);
}

void hvd_err_set(struct hvd_err *err, hvd_status_t st, int sys, const char *fmt, ...)
{
    va_list ap;

    if (!err || err->status < 0)
        return;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    make_plain(err->msg);
    err->status = st;
    err->sys = sys;
}

void hvd_err_wrap(struct hvd_err *err, const char *fmt, ...)
{
    char inner[sizeof(err->msg)];
    const size_t room = sizeof(inner);
    va_list ap;
    int n;

    if (!err)
        return;
    memcpy(inner, err->msg, room);
    va_start(ap, fmt);
    n = vsnprintf(err->msg, room, fmt, ap);
    va_end(ap);
    make_plain(err->msg);
    if (n < 0 || (size_t)n + 2 >= room)
        return;
    memcpy(err->msg + n, ": ", 2);
    n += 2;
    size_t len = strnlen(inner, room - (size_t)n - 1);
    memcpy(err->msg + n, inner, len);
    err->msg[(size_t)n + len] = '\0';
}

void hvd_err_clear(struct hvd_err *err)
{
    if (!err)
        return;
    err->status = HVD_OK;
    err->sys = 0;
    err->msg[0] = '\0';
}
