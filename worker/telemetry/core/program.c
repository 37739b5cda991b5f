/*
 * The name of a program without what it was called with. The executable's path is the kernel's; the
 * arguments are the process's own, which may have been overwritten with a title: so only a script
 * or a module of Python is taken from them, where it stands as Python itself looks for it.
 */
#include "worker/telemetry/core/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The next argument; NULL when there is none. */
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

/* What an option of Python's means for the arguments behind it. */
enum option { OPTION_ALONE, OPTION_WITH_VALUE, OPTION_CODE, OPTION_MODULE };

/* One or several letters behind a dash; *value: what stands behind the last one, "" when that is
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

/* The script or module that Python runs; NULL: code of the command line, or none. */
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

/* The last part of a path, without slashes behind it. */
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
    else if (hvd_str_has_suffix(file.data, deleted)) /* the kernel's, for a file that is gone */
        file.len -= sizeof(deleted) - 1;
    (void)snprintf(out, size, "%.*s", (int)file.len, file.data);
}
