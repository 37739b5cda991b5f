/*
 * The command line of horovodrun: flags up to the first word that is none, then the program and its
 * arguments, untouched. A table lists the flags. Any other flag is an error, so that a misspelt one
 * never becomes the program's name or passes unnoticed.
 */
#include "worker/launch/core/options.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "worker/launch/core/flags.h"

enum kind {
    KIND_FLAG,
    KIND_INTEGER,
    KIND_TEXT,
    KIND_EXPORT,
    KIND_INTERFACE, /* one more interface */
    KIND_CONFIG,
    KIND_WORDS, /* arguments for another program */
};

struct rule {
    const char *names[4]; /* its spellings; the last ones may be NULL */
    enum kind kind;
    size_t offset; /* of the field in struct hvd_launch_options */
    int64_t range[2];
};

#define FIELD(name) offsetof(struct hvd_launch_options, name)

static const struct rule rules[] = {
    {{"-np", "--num-proc", "-n"}, KIND_INTEGER, FIELD(n_proc), {1, 1000000}},
    {{"-H", "--hosts"}, KIND_TEXT, FIELD(hosts), {0}},
    {{"--hostfile", "-hostfile"}, KIND_TEXT, FIELD(hostfile), {0}},
    {{"-x"}, KIND_EXPORT, 0, {0}},
    {{"-p", "--ssh-port"}, KIND_INTEGER, FIELD(ssh_port), {1, 65535}},
    {{"-i", "--ssh-identity-file"}, KIND_TEXT, FIELD(ssh_identity), {0}},
    {{"--network-interfaces"}, KIND_TEXT, FIELD(interfaces), {0}},
    {{"--network-interface"}, KIND_INTERFACE, 0, {0}},
    {{"--output-filename"}, KIND_TEXT, FIELD(output_dir), {0}},
    {{"--config-file"}, KIND_CONFIG, FIELD(config_file), {0}},
    {{"--timeline-report"}, KIND_TEXT, FIELD(report), {0}},
    {{"--mpi-args"}, KIND_WORDS, FIELD(mpi_args), {0}},
    {{"--binding-args"}, KIND_WORDS, FIELD(binding), {0}},
    {{"--tcp"}, KIND_FLAG, FIELD(is_tcp), {0}},
    {{"-cb", "--check-build"}, KIND_FLAG, FIELD(wants_build), {0}},
    {{"--start-timeout"}, KIND_INTEGER, FIELD(start_timeout_s), {1, 86400}},
    {{"--stop-grace"}, KIND_INTEGER, FIELD(stop_grace_s), {0, 86400}},
    {{"--no-prefix-output"}, KIND_FLAG, FIELD(has_no_prefix), {0}},
    {{"--prefix-output-with-timestamp", "-prefix-timestamp"}, KIND_FLAG, FIELD(has_timestamp), {0}},
    {{"--disable-cache"}, KIND_FLAG, FIELD(is_cache_disabled), {0}},
    {{"--mpi"}, KIND_FLAG, FIELD(is_mpi), {0}},
    {{"--verbose"}, KIND_FLAG, FIELD(is_verbose), {0}},
    {{"-v", "--version"}, KIND_FLAG, FIELD(wants_version), {0}},
    {{"-h", "--help"}, KIND_FLAG, FIELD(wants_help), {0}},
};

/* Finds the rule of a flag; *value is the text after '=', or NULL. */
static const struct rule *find_rule(const char *word, const char **value)
{
    const char *equals = strchr(word, '=');
    struct hvd_strview name = hvd_strview_of(word);

    *value = NULL;
    if (equals) {
        name.len = (size_t)(equals - word);
        *value = equals + 1;
    }
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        for (size_t k = 0; k < 4 && rules[i].names[k]; k++)
            if (hvd_strview_equal(name, rules[i].names[k]))
                return &rules[i];
    return NULL;
}

/* Whether an export is NAME or NAME=VALUE with a valid name. */
static bool is_export(const char *text)
{
    size_t len = strcspn(text, "=");

    return len > 0 && (text[0] < '0' || text[0] > '9') &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") >= len;
}

/* Appends a network interface to those given before. */
static hvd_status_t add_interface(const char *value, struct hvd_launch_options *out,
                                  struct hvd_err *err)
{
    hvd_status_t st =
        hvd_args_addf(&out->settings, err, "%s%s%s", out->interfaces ? out->interfaces : "",
                      out->interfaces ? "," : "", value);

    if (st == HVD_OK)
        out->interfaces = out->settings.items[out->settings.n - 1];
    return st;
}

static hvd_status_t apply_value(const struct rule *rule, const char *flag, const char *value,
                                struct hvd_launch_options *out, struct hvd_err *err)
{
    char *field = (char *)out + rule->offset;
    int64_t number = 0;
    hvd_status_t st;

    switch (rule->kind) {
    case KIND_INTEGER:
        st = hvd_str_parse_int64(hvd_strview_of(value), rule->range, &number, err);
        if (st < 0)
            return HVD_WRAP(err, st, "flag %s", flag);
        memcpy(field, &number, sizeof(number));
        return HVD_OK;
    case KIND_EXPORT:
        if (!is_export(value))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s: \"%.64s\" is not NAME or NAME=VALUE",
                            flag, value);
        out->exports[out->n_exports++] = value;
        return HVD_OK;
    case KIND_WORDS:
        st = hvd_args_split((struct hvd_args *)(void *)field, value, err);
        return st < 0 ? HVD_WRAP(err, st, "flag %s", flag) : HVD_OK;
    case KIND_INTERFACE:
        return add_interface(value, out, err);
    case KIND_CONFIG:
        if (out->config_file)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s: there can be one file only", flag);
        memcpy(field, &value, sizeof(value));
        return HVD_OK;
    case KIND_TEXT:
        if (value[0] == '\0')
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s: the value is empty", flag);
        memcpy(field, &value, sizeof(value));
        return HVD_OK;
    case KIND_FLAG:
    default:
        return HVD_FAIL(err, HVD_ERR_STATE, 0, "flag %s takes no value", flag);
    }
}

/* Parses a flag without a rule: it sets a variable of the runtime, or nothing. */
static hvd_status_t parse_setting(char *const *argv, int *at, struct hvd_launch_options *out,
                                  struct hvd_err *err)
{
    const char *word = argv[*at];
    const char *value = strchr(word, '=');
    const struct hvd_strview name = {.data = word,
                                     .len = value ? (size_t)(value - word) : strlen(word)};
    const struct hvd_launch_flag *flag = hvd_launch_flag_find(name);

    ++*at;
    if (!flag)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "unknown flag \"%.64s\": horovodrun --help lists them; put \"--\" before a "
                        "program whose name starts with \"-\"",
                        word);
    if (value)
        value++;
    if (!value && hvd_launch_flag_takes_value(flag)) {
        value = argv[*at];
        if (!value)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s needs a value", word);
        ++*at;
    }
    const size_t n_before = out->settings.n;
    hvd_status_t st = hvd_launch_flag_apply(flag, value, &out->settings, err);
    if (st == HVD_OK && out->settings.n > n_before)
        out->exports[out->n_exports++] = out->settings.items[out->settings.n - 1];
    if (st == HVD_OK && hvd_launch_flag_note(flag))
        st = hvd_args_addf(&out->warnings, err, "flag %.*s changes nothing: %s", (int)name.len,
                           word, hvd_launch_flag_note(flag));
    return st;
}

/* Reads one flag at argv[*at] and moves *at past it. */
static hvd_status_t parse_flag(char *const *argv, int *at, struct hvd_launch_options *out,
                               struct hvd_err *err)
{
    const char *word = argv[*at];
    const char *value = NULL;
    const struct rule *rule = find_rule(word, &value);

    if (!rule)
        return parse_setting(argv, at, out, err);
    ++*at;
    if (rule->kind == KIND_FLAG) {
        const bool yes = true;

        if (value)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s takes no value", rule->names[0]);
        memcpy((char *)out + rule->offset, &yes, sizeof(yes));
        return HVD_OK;
    }
    if (!value) {
        value = argv[*at];
        if (!value)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s needs a value", word);
        ++*at;
    }
    if (rule->kind == KIND_CONFIG)
        out->config_at = *at;
    return apply_value(rule, rule->names[0], value, out, err);
}

/* Checks that depend on several flags. */
static hvd_status_t check_together(const struct hvd_launch_options *o, struct hvd_err *err)
{
    if (o->wants_help || o->wants_version || o->wants_build)
        return HVD_OK;
    if (o->report && o->n_command == 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "no timeline: write the files behind, e.g. horovodrun --timeline-report "
                        "%.200s timeline.*.json",
                        o->report);
    if (o->report)
        return HVD_OK;
    if (o->hosts && o->hostfile)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flags -H and --hostfile exclude each other");
    if (o->n_command == 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "no program: write it behind the flags, e.g. horovodrun -np 2 ./train");
    if (o->n_proc == 0 && !o->hosts && !o->hostfile && !o->has_allocation)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "flag -np is missing: how many processes, e.g. horovodrun -np 2 ./train");
    if (o->ssh_identity && strpbrk(o->ssh_identity, " \t\n\"'"))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "flag -i: Open MPI takes no path with white space or quotes");
    return HVD_OK;
}

/* Reads seconds from the environment; *out stays unchanged where the variable is not set. */
static hvd_status_t read_seconds(const char *name, const char *text, int64_t least, int64_t *out,
                                 struct hvd_err *err)
{
    const int64_t range[2] = {least, 86400};
    hvd_status_t st = HVD_OK;

    if (text && text[0] != '\0')
        st = hvd_str_parse_int64(hvd_strview_of(text), range, out, err);
    return st < 0 ? HVD_WRAP(err, st, "%s", name) : HVD_OK;
}

hvd_status_t hvd_launch_options_parse(int argc, char *const *argv,
                                      const struct hvd_launch_around *around,
                                      struct hvd_launch_options *out, struct hvd_err *err)
{
    struct hvd_launch_options o = {.start_timeout_s = HVD_LAUNCH_START_TIMEOUT_S,
                                   .stop_grace_s = around->is_pod ? HVD_LAUNCH_POD_GRACE_S : 0,
                                   .has_allocation = around->has_allocation};
    hvd_status_t st;
    int at = 1;

    o.exports = hvd_calloc((size_t)argc + 1, sizeof(*o.exports));
    if (!o.exports)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the command line");
    st = read_seconds("HOROVOD_START_TIMEOUT", around->start_timeout, 1, &o.start_timeout_s, err);
    if (st == HVD_OK)
        st = read_seconds("HOROVOD_STOP_GRACE", around->stop_grace, 0, &o.stop_grace_s, err);
    while (st == HVD_OK && at < argc && argv[at][0] == '-') {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        st = parse_flag(argv, &at, &o, err);
    }
    if (st == HVD_OK) {
        o.command = argv + at;
        o.n_command = at < argc ? (size_t)(argc - at) : 0;
        st = check_together(&o, err);
    }
    if (st < 0) {
        hvd_launch_options_fini(&o);
        return st;
    }
    *out = o;
    return HVD_OK;
}

void hvd_launch_options_fini(struct hvd_launch_options *options)
{
    hvd_free((void *)options->exports);
    hvd_args_fini(&options->settings);
    hvd_args_fini(&options->warnings);
    hvd_args_fini(&options->mpi_args);
    hvd_args_fini(&options->binding);
    *options = (struct hvd_launch_options){0};
}
