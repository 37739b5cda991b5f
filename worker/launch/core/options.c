/*
 * The command line of horovodrun: flags up to the first word that is none, then the program and its
 * arguments untouched. A table says which flags there are; a flag that is not in it is an error, so
 * that a misspelt one never becomes the program's name or passes unnoticed.
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
};

struct rule {
    const char *names[4]; /* how it may be written; the last ones may be NULL */
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
    {{"--start-timeout"}, KIND_INTEGER, FIELD(start_timeout_s), {1, 86400}},
    {{"--no-prefix-output"}, KIND_FLAG, FIELD(has_no_prefix), {0}},
    {{"--prefix-output-with-timestamp", "-prefix-timestamp"}, KIND_FLAG, FIELD(has_timestamp), {0}},
    {{"--disable-cache"}, KIND_FLAG, FIELD(is_cache_disabled), {0}},
    {{"--mpi"}, KIND_FLAG, FIELD(is_mpi), {0}},
    {{"--verbose"}, KIND_FLAG, FIELD(is_verbose), {0}},
    {{"-v", "--version"}, KIND_FLAG, FIELD(wants_version), {0}},
    {{"-h", "--help"}, KIND_FLAG, FIELD(wants_help), {0}},
};

const char *hvd_launch_options_help(void)
{
    return "usage: horovodrun [flags] PROGRAM [ARGUMENTS]\n"
           "\n"
           "Runs N processes of PROGRAM over Open MPI, here or on a list of hosts.\n"
           "\n"
           "  -np, --num-proc N          processes to run; default: all slots of the hosts\n"
           "  -H, --hosts H:N,H:N        hosts and how many processes each takes\n"
           "  --hostfile FILE            the same, a line each: HOST slots=N\n"
           "  -x NAME[=VALUE]            environment for the program, beside what is passed "
           "anyway\n"
           "  -p, --ssh-port PORT        port of sshd on the hosts\n"
           "  -i, --ssh-identity-file F  private key for ssh\n"
           "  --network-interfaces A,B   interfaces for the traffic between hosts\n"
           "  --start-timeout SECONDS    time until the hosts are listed and checked; default 30,\n"
           "                             or HOROVOD_START_TIMEOUT\n"
           "  --no-prefix-output         lines of the ranks without [RANK]<stdout>: before them\n"
           "  --prefix-output-with-timestamp\n"
           "                             lines of the ranks with the time before them\n"
           "  --fusion-threshold-mb N, --cycle-time-ms T, --cache-capacity N,\n"
           "  --[no-]autotune, --autotune-log-file F, --autotune-warmup-samples N,\n"
           "  --autotune-steps-per-sample N, --autotune-bayes-opt-max-samples N,\n"
           "  --autotune-gaussian-process-noise X, --timeline-filename F,\n"
           "  --[no-]timeline-mark-cycles, --[no-]stall-check,\n"
           "  --stall-check-warning-time-seconds N, --stall-check-shutdown-time-seconds N,\n"
           "  --[no-]mpi-threads-disable, --thread-affinity C0,C1, --log-level LEVEL,\n"
           "  --log-with-timestamp, --log-without-timestamp\n"
           "                             set the variables of the library that have these names\n"
           "  --disable-cache, --mpi     accepted: nothing is cached, Open MPI is what is used\n"
           "  --verbose                  show the checks and the mpirun command\n"
           "  -v, --version              show the version\n"
           "  -h, --help                 show this\n"
           "\n"
           "Exit status: 0 when every rank ended with 0, else that of the first rank that failed\n"
           "(128 + N when signal N killed it); the last line on stderr names it. 2: wrong usage.\n";
}

/* The rule that a word names; *value is what stands behind '=', or NULL. */
static const struct rule *find_rule(const char *word, const char **value)
{
    const char *equals = word[0] == '-' && word[1] == '-' ? strchr(word, '=') : NULL;
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

/* Whether an export is NAME or NAME=VALUE with a name that an environment can hold. */
static bool is_export(const char *text)
{
    size_t len = strcspn(text, "=");

    return len > 0 && (text[0] < '0' || text[0] > '9') &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") >= len;
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

/* A flag that is no rule's: one that sets a variable of the runtime, or nothing. */
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
    value += value != NULL;
    if (!value && hvd_launch_flag_takes_value(flag)) {
        value = argv[*at];
        if (!value)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s needs a value", word);
        ++*at;
    }
    hvd_status_t st = hvd_launch_flag_apply(flag, value, &out->settings, err);
    if (st == HVD_OK)
        out->exports[out->n_exports++] = out->settings.items[out->settings.n - 1];
    return st;
}

/* Reads one flag at argv[*at] and moves *at behind it. */
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
    return apply_value(rule, rule->names[0], value, out, err);
}

/* What only all flags together tell. */
static hvd_status_t check_together(const struct hvd_launch_options *o, struct hvd_err *err)
{
    if (o->wants_help || o->wants_version)
        return HVD_OK;
    if (o->hosts && o->hostfile)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flags -H and --hostfile exclude each other");
    if (o->n_command == 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "no program: write it behind the flags, e.g. horovodrun -np 2 ./train");
    if (o->n_proc == 0 && !o->hosts && !o->hostfile)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "flag -np is missing: how many processes, e.g. horovodrun -np 2 ./train");
    if (o->ssh_identity && strpbrk(o->ssh_identity, " \t\n\"'"))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "flag -i: Open MPI takes no path with white space or quotes");
    return HVD_OK;
}

hvd_status_t hvd_launch_options_parse(int argc, char *const *argv, const char *start_timeout,
                                      struct hvd_launch_options *out, struct hvd_err *err)
{
    struct hvd_launch_options o = {.start_timeout_s = HVD_LAUNCH_START_TIMEOUT_S};
    const int64_t timeout_range[2] = {1, 86400};
    hvd_status_t st = HVD_OK;
    int at = 1;

    o.exports = hvd_calloc((size_t)argc + 1, sizeof(*o.exports));
    if (!o.exports)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the command line");
    if (start_timeout && start_timeout[0] != '\0') {
        st = hvd_str_parse_int64(hvd_strview_of(start_timeout), timeout_range, &o.start_timeout_s,
                                 err);
        if (st < 0)
            st = HVD_WRAP(err, st, "HOROVOD_START_TIMEOUT");
    }
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
    *options = (struct hvd_launch_options){0};
}
