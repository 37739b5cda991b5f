/*
 * Argument vectors: built here, executed elsewhere, shown quoted. No argument ever passes through a
 * shell, except for those of the remote check, which hvd_args_quote quotes.
 */
#include "worker/launch/core/args.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define ARGUMENT_MAX_BYTES ((size_t)1 << 20)

void hvd_args_fini(struct hvd_args *args)
{
    for (size_t i = 0; i < args->n; i++)
        hvd_free(args->items[i]);
    hvd_free(args->items);
    *args = (struct hvd_args){0};
}

/* Appends text. The vector takes ownership of it on success only. */
static hvd_status_t put(struct hvd_args *args, char *text, struct hvd_err *err)
{
    if (args->n + 2 > args->_capacity) {
        size_t capacity = args->_capacity ? 2 * args->_capacity : 16;
        char **items = hvd_realloc(args->items, capacity, sizeof(*items));

        if (!items)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for an argument list");
        args->items = items;
        args->_capacity = capacity;
    }
    args->items[args->n++] = text;
    args->items[args->n] = NULL;
    return HVD_OK;
}

hvd_status_t hvd_args_add(struct hvd_args *args, const char *text, struct hvd_err *err)
{
    char *copy = hvd_strdup(text);
    hvd_status_t st;

    if (!copy)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for an argument list");
    st = put(args, copy, err);
    if (st < 0)
        hvd_free(copy);
    return st;
}

hvd_status_t hvd_args_addf(struct hvd_args *args, struct hvd_err *err, const char *fmt, ...)
{
    va_list ap;
    int len;
    char *text;
    hvd_status_t st;

    va_start(ap, fmt);
    len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (len < 0 || (size_t)len >= ARGUMENT_MAX_BYTES)
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "an argument is longer than %zu bytes",
                        ARGUMENT_MAX_BYTES);
    text = hvd_malloc((size_t)len + 1, 1);
    if (!text)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for an argument list");
    va_start(ap, fmt);
    (void)vsnprintf(text, (size_t)len + 1, fmt, ap);
    va_end(ap);
    st = put(args, text, err);
    if (st < 0)
        hvd_free(text);
    return st;
}

hvd_status_t hvd_args_add_all(struct hvd_args *args, const char *const *texts, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; texts[i] && st == HVD_OK; i++)
        st = hvd_args_add(args, texts[i], err);
    return st;
}

/* Copies the word that begins at *at to out, without its quotes, and moves *at past it. False when
 * a quote is left open. */
static bool cut_word(const char **at, char *out)
{
    const char *c = *at;
    char quote = '\0';

    for (; *c && (quote || !strchr(" \t\n", *c)); c++) {
        if (quote && *c == quote)
            quote = '\0';
        else if (!quote && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (*c == '\\' && quote != '\'' && c[1])
            *out++ = *++c;
        else
            *out++ = *c;
    }
    *out = '\0';
    *at = c;
    return quote == '\0';
}

hvd_status_t hvd_args_split(struct hvd_args *args, const char *text, struct hvd_err *err)
{
    char *word = hvd_malloc(strlen(text) + 1, 1);
    const char *at = text;
    hvd_status_t st = HVD_OK;

    if (!word)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for an argument list");
    while (st == HVD_OK && *(at += strspn(at, " \t\n")))
        st = cut_word(&at, word)
                 ? hvd_args_add(args, word, err)
                 : HVD_FAIL(err, HVD_ERR_INVALID, 0, "a quote is not closed in \"%.200s\"", text);
    hvd_free(word);
    return st;
}

hvd_status_t hvd_args_quote(struct hvd_buf *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_./:,+=@%-";
    hvd_status_t st;

    if (text[0] != '\0' && text[strspn(text, plain)] == '\0')
        return hvd_buf_puts(out, text);
    st = hvd_buf_puts(out, "'");
    for (const char *c = text; *c && st == HVD_OK; c++)
        st = *c == '\'' ? hvd_buf_puts(out, "'\\''") : hvd_buf_add(out, c, 1);
    return st == HVD_OK ? hvd_buf_puts(out, "'") : st;
}

hvd_status_t hvd_args_quote_all(struct hvd_buf *out, const struct hvd_args *args)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < args->n && st == HVD_OK; i++) {
        if (i > 0)
            st = hvd_buf_puts(out, " ");
        if (st == HVD_OK)
            st = hvd_args_quote(out, args->items[i]);
    }
    return st;
}
