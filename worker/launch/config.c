/*
 * The configuration file: sections of scalars in YAML. libyaml decodes it, and this file translates
 * it into the equivalent flags. So one place checks a value, and a flag after the file overrides
 * it. An unknown key is an error: otherwise a misspelt one would pass unnoticed. No I/O.
 */
#include "worker/launch/config.h"

#include <string.h>

#include <yaml.h>

#include "worker/launch/core/flags.h"

struct rule {
    const char *section;
    const char *key;
    const char *flag;   /* takes the value; of a switch: for true */
    const char *denial; /* of a switch: for false; NULL: the flag takes a value */
};

static const struct rule rules[] = {
    {"params", "fusion_threshold_mb", "--fusion-threshold-mb", NULL},
    {"params", "cycle_time_ms", "--cycle-time-ms", NULL},
    {"params", "cache_capacity", "--cache-capacity", NULL},
    {"params", "hierarchical_allreduce", "--hierarchical-allreduce", "--no-hierarchical-allreduce"},
    {"params", "hierarchical_allgather", "--hierarchical-allgather", "--no-hierarchical-allgather"},
    {"params", "torus_allreduce", "--torus-allreduce", "--no-torus-allreduce"},
    {"autotune", "enabled", "--autotune", "--no-autotune"},
    {"autotune", "log_file", "--autotune-log-file", NULL},
    {"autotune", "warmup_samples", "--autotune-warmup-samples", NULL},
    {"autotune", "steps_per_sample", "--autotune-steps-per-sample", NULL},
    {"autotune", "bayes_opt_max_samples", "--autotune-bayes-opt-max-samples", NULL},
    {"autotune", "gaussian_process_noise", "--autotune-gaussian-process-noise", NULL},
    {"timeline", "filename", "--timeline-filename", NULL},
    {"timeline", "mark_cycles", "--timeline-mark-cycles", "--no-timeline-mark-cycles"},
    {"stall_check", "enabled", "--stall-check", "--no-stall-check"},
    {"stall_check", "warning_time_seconds", "--stall-check-warning-time-seconds", NULL},
    {"stall_check", "shutdown_time_seconds", "--stall-check-shutdown-time-seconds", NULL},
    {"library_options", "mpi_threads_disable", "--mpi-threads-disable", "--no-mpi-threads-disable"},
    {"library_options", "mpi_args", "--mpi-args", NULL},
    {"library_options", "num_nccl_streams", "--num-nccl-streams", NULL},
    {"library_options", "thread_affinity", "--thread-affinity", NULL},
    {"library_options", "gloo_timeout_seconds", "--gloo-timeout-seconds", NULL},
    {"logging", "level", "--log-level", NULL},
    {"logging", "with_timestamp", "--log-with-timestamp", "--log-without-timestamp"},
    {"logging", "hide_timestamp", "--log-hide-timestamp", "--no-log-hide-timestamp"},
};

struct reader {
    yaml_document_t doc;
    struct hvd_args *out;
    struct hvd_err *err;
};

static int line_of(const yaml_node_t *node)
{
    return node->start_mark.line < INT32_MAX ? (int)node->start_mark.line + 1 : 0;
}

/* The text of a scalar without zero bytes inside; NULL for any other node. */
static const char *text_of(const yaml_node_t *node)
{
    if (!node || node->type != YAML_SCALAR_NODE ||
        memchr(node->data.scalar.value, '\0', node->data.scalar.length))
        return NULL;
    return (const char *)node->data.scalar.value;
}

static bool is_null(const yaml_node_t *node)
{
    const char *text = text_of(node);

    return text && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0);
}

/* The flag of a switch for its value; NULL when that is neither true nor false. */
static const char *switch_flag(const struct rule *rule, const char *value)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};

    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(value, yes[i]) == 0)
            return rule->flag;
        if (strcasecmp(value, no[i]) == 0)
            return rule->denial;
    }
    return NULL;
}

/* Checks that the flag accepts the value. Only the caller knows the line for the error message, so
 * the check is made here. */
static hvd_status_t check(const char *flag, const char *value, struct hvd_err *err)
{
    const struct hvd_launch_flag *known = hvd_launch_flag_find(hvd_strview_of(flag));
    struct hvd_args ignored = {0};
    hvd_status_t st = known ? hvd_launch_flag_apply(known, value, &ignored, err)
                            : hvd_args_split(&ignored, value, err);

    hvd_args_fini(&ignored);
    return st;
}

static hvd_status_t apply(struct reader *r, const struct rule *rule, const yaml_node_t *value)
{
    const char *text = text_of(value);
    const char *flag = rule->flag;
    hvd_status_t st;

    if (is_null(value))
        return HVD_OK;
    if (!text)
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "line %d: %s.%s is not a single value",
                        line_of(value), rule->section, rule->key);
    if (rule->denial) {
        flag = switch_flag(rule, text);
        if (!flag)
            return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                            "line %d: %s.%s: \"%.64s\" is neither true nor false", line_of(value),
                            rule->section, rule->key, text);
    }
    st = check(flag, rule->denial ? NULL : text, r->err);
    if (st < 0)
        return HVD_WRAP(r->err, st, "line %d: %s.%s", line_of(value), rule->section, rule->key);
    return rule->denial ? hvd_args_add(r->out, flag, r->err)
                        : hvd_args_addf(r->out, r->err, "%s=%s", flag, text);
}

static const struct rule *find_rule(const char *section, const char *key, bool *has_section)
{
    *has_section = false;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (strcmp(rules[i].section, section) != 0)
            continue;
        *has_section = true;
        if (key && strcmp(rules[i].key, key) == 0)
            return &rules[i];
    }
    return NULL;
}

static hvd_status_t read_section(struct reader *r, const char *section, yaml_node_t *node)
{
    hvd_status_t st = HVD_OK;
    bool has_section;

    if (is_null(node))
        return HVD_OK;
    if (node->type != YAML_MAPPING_NODE)
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "line %d: %s is not a section with keys",
                        line_of(node), section);
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top && st == HVD_OK; pair++) {
        yaml_node_t *key = yaml_document_get_node(&r->doc, pair->key);
        const char *name = text_of(key);
        const struct rule *rule = name ? find_rule(section, name, &has_section) : NULL;

        st = rule ? apply(r, rule, yaml_document_get_node(&r->doc, pair->value))
                  : HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "line %d: %s has no key \"%.64s\"",
                             line_of(key), section, name ? name : "");
    }
    return st;
}

static hvd_status_t read_controller(struct reader *r, const yaml_node_t *value)
{
    const char *text = text_of(value);

    if (is_null(value) || (text && strcasecmp(text, "mpi") == 0))
        return HVD_OK;
    if (text && strcasecmp(text, "gloo") == 0)
        return hvd_args_add(r->out, "--gloo", r->err);
    return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                    "line %d: controller: \"%.64s\" is not here: mpi is what there is",
                    line_of(value), text ? text : "");
}

static hvd_status_t read_document(struct reader *r)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    hvd_status_t st = HVD_OK;
    bool has_section;

    if (!root || is_null(root))
        return HVD_OK;
    if (root->type != YAML_MAPPING_NODE)
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "line %d: there are no sections with keys",
                        line_of(root));
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top && st == HVD_OK; pair++) {
        yaml_node_t *key = yaml_document_get_node(&r->doc, pair->key);
        yaml_node_t *value = yaml_document_get_node(&r->doc, pair->value);
        const char *name = text_of(key);

        if (name && strcmp(name, "controller") == 0) {
            st = read_controller(r, value);
            continue;
        }
        if (name)
            (void)find_rule(name, NULL, &has_section);
        st = name && has_section
                 ? read_section(r, name, value)
                 : HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "line %d: there is no section \"%.64s\"",
                            line_of(key), name ? name : "");
    }
    return st;
}

hvd_status_t hvd_launch_config_parse(struct hvd_strview text, struct hvd_args *out,
                                     struct hvd_err *err)
{
    struct reader r = {.out = out, .err = err};
    yaml_parser_t parser;
    hvd_status_t st;

    if (text.len > HVD_LAUNCH_CONFIG_MAX)
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "the file is larger than 1 MiB");
    if (!yaml_parser_initialize(&parser))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the file");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.data, text.len);
    if (yaml_parser_load(&parser, &r.doc)) {
        st = read_document(&r);
        yaml_document_delete(&r.doc);
    } else if (parser.error == YAML_MEMORY_ERROR) {
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the file");
    } else {
        st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "line %zu: no YAML: %s",
                      parser.problem_mark.line + 1, parser.problem ? parser.problem : "");
    }
    yaml_parser_delete(&parser);
    return st;
}
