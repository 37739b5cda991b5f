/*
 * The environment of the ranks. mpirun's own -x cuts values at some characters. So all entries
 * travel encoded in variables of ours, and the wrapper around each rank unpacks them. The values
 * never appear on a command line, where other users could read them.
 *
 * The text: entries separated by '&', every byte but letters, digits and a few more as %XX.
 */
#include "worker/launch/core/environment.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static const char hex_digits[] = "0123456789ABCDEF";

bool hvd_environment_is_passed(const char *entry)
{
    static const char *const prefixes[] = {"BASH_FUNC_", "OMPI_", "PMIX_",
                                           "PRTE_",      "SSH_",  "HOROVOD_LAUNCH_"};
    static const char *const names[] = {"PWD", "OLDPWD",   "SHLVL",
                                        "_",   "HOSTNAME", "HOROVOD_SECRET_KEY"};
    struct hvd_strview value = hvd_strview_of(entry);
    struct hvd_strview name = hvd_strview_cut(&value, '=');
    static const char devices[] = "CUDA_VISIBLE_DEVICES";
    const size_t devices_len = sizeof(devices) - 1;

    if (!value.data || name.len == 0)
        return false;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (hvd_str_has_prefix(entry, prefixes[i]))
            return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (hvd_strview_equal(name, names[i]))
            return false;
    return name.len < devices_len ||
           memcmp(name.data + name.len - devices_len, devices, devices_len) != 0;
}

/* The entry NAME=VALUE of that name; NULL when there is none. */
static const char *find(char *const *environ_, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; environ_[i]; i++)
        if (strncmp(environ_[i], name, len) == 0 && environ_[i][len] == '=')
            return environ_[i];
    return NULL;
}

static hvd_status_t collect_export(char *const *environ_, const char *export_, struct hvd_args *out,
                                   struct hvd_err *err)
{
    const char *entry = strchr(export_, '=') ? export_ : find(environ_, export_);

    if (!entry)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "flag -x: %.64s is not set here: export it, or write -x %.64s=VALUE",
                        export_, export_);
    return hvd_args_add(out, entry, err);
}

hvd_status_t hvd_environment_collect(char *const *environ_, const char *const *exports,
                                     size_t n_exports, struct hvd_args *out, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; environ_[i] && st == HVD_OK; i++)
        if (hvd_environment_is_passed(environ_[i]))
            st = hvd_args_add(out, environ_[i], err);
    for (size_t i = 0; i < n_exports && st == HVD_OK; i++)
        st = collect_export(environ_, exports[i], out, err);
    if (st < 0)
        hvd_args_fini(out);
    return st;
}

static hvd_status_t encode_byte(struct hvd_buf *out, char c)
{
    const char escaped[3] = {'%', hex_digits[((unsigned char)c) >> 4],
                             hex_digits[((unsigned char)c) & 15]};
    bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    (c != '\0' && strchr("_./:,+=@-", c) != NULL);

    return is_plain ? hvd_buf_add(out, &c, 1) : hvd_buf_add(out, escaped, sizeof(escaped));
}

hvd_status_t hvd_environment_encode(const struct hvd_args *entries, struct hvd_buf *out)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < entries->n && st == HVD_OK; i++) {
        if (i > 0)
            st = hvd_buf_puts(out, "&");
        for (const char *c = entries->items[i]; *c && st == HVD_OK; c++)
            st = encode_byte(out, *c);
    }
    return st;
}

/* Unescapes the text in place; false on an invalid escape, or one for a zero byte. */
static bool unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        const char *high = from[1] ? strchr(hex_digits, from[1]) : NULL;
        const char *low = high && from[2] ? strchr(hex_digits, from[2]) : NULL;

        if (!low || (high == hex_digits && low == hex_digits))
            return false;
        *to++ = (char)((high - hex_digits) * 16 + (low - hex_digits));
        from += 2;
    }
    *to = '\0';
    return true;
}

hvd_status_t hvd_environment_decode(const char *text, struct hvd_args *out, struct hvd_err *err)
{
    struct hvd_strview rest = hvd_strview_of(text);
    hvd_status_t st = HVD_OK;

    while (rest.len > 0 && st == HVD_OK) {
        struct hvd_strview entry = hvd_strview_cut(&rest, '&');
        char *copy = hvd_strndup(entry.data, entry.len);

        if (!copy)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the environment");
        else if (!unescape(copy) || copy[0] == '=' || !strchr(copy, '='))
            st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s holds a broken entry", HVD_LAUNCH_ENV);
        else
            st = hvd_args_add(out, copy, err);
        hvd_free(copy);
    }
    if (st < 0)
        hvd_args_fini(out);
    return st;
}
