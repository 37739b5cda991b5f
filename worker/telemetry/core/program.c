/*
 * The name of a program without its arguments. The kernel provides the executable's path. The
 * process may have overwritten its own arguments with a title. So only a Python script or module is
 * taken from them, from the place where Python itself looks for it.
 */
#include "worker/telemetry/core/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns the next argument; NULL when there is none. */
static const char *next_of(struct hvd_strview *rest)
{
    const char *arg = rest->data;
    const char *end = rest->len ? memchr(arg, '\0', rest->len) : NULL;

    if (!end || end == arg)
        return NULL;
    rest->len -= (size_t)(end - arg) + 1;
    rest->data = end + 1;
    return arg;
}

/* How an option of Python affects the arguments behind it. */
enum option { OPTION_ALONE, OPTION_WITH_VALUE, OPTION_CODE, OPTION_MODULE };

/* Parses one or several letters behind a dash. *value: the text behind the last one, "" if that is
 * the next argument. */
static enum option letters(const char *option, const char **value)
{
    for (const char *c = option + 1; *c; c++) {
        *value = c + 1;
        if (*c == 'c')
            return OPTION_CODE;
        if (*c == 'm')
            return OPTION_MODULE;
        if (*c == 'W' || *c == 'X')
            return OPTION_WITH_VALUE;
    }
    return OPTION_ALONE;
}

/* Returns the script or module that Python runs; NULL: code of the command line, or none. */
static const char *script_of(struct hvd_strview cmdline)
{
    const char *value = "";
    const char *arg = next_of(&cmdline);

    while (arg && (arg = next_of(&cmdline))) {
        if (arg[0] != '-')
            return arg;
        const bool is_long = arg[1] == '-';
        const enum option option = !is_long ? letters(arg, &value)
                                   : strcmp(arg, "--check-hash-based-pycs") == 0 ? OPTION_WITH_VALUE
                                                                                 : OPTION_ALONE;
        value = is_long ? "" : value;
        if (arg[1] == '\0' || option == OPTION_CODE)
            return NULL;
        if (option == OPTION_MODULE)
            return *value ? value : next_of(&cmdline);
        if (option == OPTION_WITH_VALUE && !*value)
            (void)next_of(&cmdline);
    }
    return NULL;
}

static bool is_python(const char *file)
{
    return hvd_str_has_prefix(file, "python") || hvd_str_has_prefix(file, "pypy");
}

/* Returns the last part of a path, without slashes behind it. */
static struct hvd_strview file_of(const char *path)
{
    size_t len = strlen(path);
    size_t start;

    while (len > 1 && path[len - 1] == '/')
        len--;
    for (start = len; start > 0 && path[start - 1] != '/'; start--)
        ;
    return (struct hvd_strview){.data = path + start, .len = len - start};
}

void hvd_program_name(const char *exe, struct hvd_strview cmdline, char *out, size_t size)
{
    static const char deleted[] = " (deleted)";
    struct hvd_strview file = file_of(exe);
    const char *script = is_python(file.data) ? script_of(cmdline) : NULL;

    if (script)
        file = file_of(script);
    else if (hvd_str_has_suffix(file.data, deleted)) /* the kernel appends it for a deleted file */
        file.len -= sizeof(deleted) - 1;
    (void)snprintf(out, size, "%.*s", (int)file.len, file.data);
}
