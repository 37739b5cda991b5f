/*
 * The files of the ConfigMap J-hosts. Hosts are the pods' addresses, or names J-worker-N.J. The
 * names resolve by the search path of the pod's namespace, whatever the cluster's domain is, and
 * match known_hosts. A master that runs ranks is the first host, under the name in its own
 * /etc/hosts: only the master looks that name up, and it starts before a cluster's DNS has it.
 * Pure.
 */
#include "operator/core/children/hosts.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "operator/core/children/children.h"
#include "operator/core/launch/launch.h"
#include "operator/core/view/hash.h"

#define FILE_MAX ((size_t)4 << 20)
#define ARGUMENT_MAX 131071 /* the longest argument of a program in Linux */
#define NAME_SIZE 128

static const char *const files[] = {"hostfile", "hosts", "discover_hosts.sh", HVD_LAUNCH_FILE};

/* A constant, whatever the number of hosts. */
static const char discover_hosts[] =
    "#!/bin/sh\n"
    "# Prints host:slots for each line of the hostfile beside it.\n"
    "case $0 in */*) cd \"${0%/*}\" || exit ;; esac\n"
    "while read -r host slots; do\n"
    "  case $host in *:*) host=\"[$host]\" ;; esac\n"
    "  echo \"$host:${slots#slots=}\"\n"
    "done <hostfile\n";

/* The format of hosts in a file. */
struct style {
    const char *between; /* host and slots */
    const char *after;
    const char *separator; /* before every host but the first */
    bool has_brackets;     /* around an address that has colons */
    size_t max;            /* a longer list is written as an empty one */
};

struct list {
    const struct hvd_job *job;
    const struct hvd_worker *workers;
    size_t n;
};

static void name_master(const struct hvd_job *job, char out[NAME_SIZE])
{
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(job, HVD_KIND_JOB, name);
    (void)snprintf(out, NAME_SIZE, "%s", job->spec.is_host_network ? "localhost" : name);
}

static void name_worker(const struct hvd_job *job, const struct hvd_worker *worker,
                        char out[NAME_SIZE])
{
    const char *ip = worker->pod ? worker->pod->u.pod.ip : NULL;
    char set[HVD_CHILD_NAME_MAX];

    if (job->spec.has_ip_names) {
        (void)snprintf(out, NAME_SIZE, "%s", ip ? ip : "");
        return;
    }
    hvd_children_group_name(job, worker->group, set);
    (void)snprintf(out, NAME_SIZE, "%s-%d.%s", set, worker->ordinal, job->name);
}

static hvd_status_t put_host(struct hvd_buf *text, const struct style *style, const char *name,
                             int32_t slots)
{
    bool is_v6 = style->has_brackets && strchr(name, ':') != NULL;

    if (*name == '\0')
        return HVD_OK;
    return hvd_buf_printf(text, "%s%s%s%s%s%d%s", text->len ? style->separator : "",
                          is_v6 ? "[" : "", name, is_v6 ? "]" : "", style->between, slots,
                          style->after);
}

static hvd_status_t put_list(struct hvd_buf *text, const struct list *list,
                             const struct style *style)
{
    const struct hvd_job_spec *spec = &list->job->spec;
    hvd_status_t st = HVD_OK;
    char name[NAME_SIZE];

    if (spec->is_master_worker) {
        name_master(list->job, name);
        st = put_host(text, style, name, spec->master_slots);
    }
    for (size_t i = 0; st == HVD_OK && i < list->n && text->len <= style->max; i++) {
        name_worker(list->job, &list->workers[i], name);
        st = put_host(text, style, name, spec->groups[list->workers[i].group].slots);
    }
    return st;
}

static void add_list(struct hvd_jb *jb, cJSON *data, const char *name, const struct list *list,
                     const struct style *style)
{
    struct hvd_buf text;

    hvd_buf_init(&text, FILE_MAX);
    if (put_list(&text, list, style) != HVD_OK)
        jb->failed = true;
    else
        hvd_jb_str(jb, data, name, text.data && text.len <= style->max ? text.data : "");
    hvd_buf_fini(&text);
}

cJSON *hvd_hosts_data(struct hvd_jb *jb, const struct hvd_job *job,
                      const struct hvd_worker *workers, size_t n_workers)
{
    static const struct style hostfile = {
        .between = " slots=", .after = "\n", .separator = "", .max = FILE_MAX};
    static const struct style hosts = {
        .between = ":", .after = "", .separator = ",", .has_brackets = true, .max = ARGUMENT_MAX};
    const struct list list = {job, workers, n_workers};
    cJSON *data = hvd_jb_root(jb);

    add_list(jb, data, files[0], &list, &hostfile);
    add_list(jb, data, files[1], &list, &hosts);
    hvd_jb_str(jb, data, files[2], discover_hosts);
    hvd_launch_of(job)->put_file(jb, data, job);
    return data;
}

size_t hvd_hosts_size(const cJSON *data)
{
    const cJSON *file = NULL;
    size_t size = 0;

    cJSON_ArrayForEach(file, data)
    {
        size += strlen(file->string) + (cJSON_IsString(file) ? strlen(file->valuestring) : 0);
    }
    return size;
}

cJSON *hvd_hosts_data_of_all(struct hvd_jb *jb, const struct hvd_job *job)
{
    size_t n_all = job->spec.replicas > 0 ? (size_t)job->spec.replicas : 0;
    struct hvd_worker *workers = hvd_calloc(n_all ? n_all : 1, sizeof(*workers));
    cJSON *data = NULL;
    size_t n = 0;

    for (size_t group = 0; workers && group < job->spec.n_groups; group++) {
        for (int32_t i = 0; i < job->spec.groups[group].replicas; i++)
            workers[n++] = (struct hvd_worker){.group = group, .ordinal = i};
    }
    if (workers)
        data = hvd_hosts_data(jb, job, workers, n);
    else
        jb->failed = true;
    hvd_free(workers);
    return data;
}

int64_t hvd_hosts_slots(const struct hvd_job *job, const struct hvd_worker *workers,
                        size_t n_workers)
{
    int64_t slots = job->spec.is_master_worker ? job->spec.master_slots : 0;

    for (size_t i = 0; i < n_workers; i++)
        slots += job->spec.groups[workers[i].group].slots;
    return slots;
}

uint64_t hvd_hosts_hash(const cJSON *data)
{
    uint64_t hash = HVD_HASH_START;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const cJSON *file = hvd_json_get(data, files[i]);

        if (!cJSON_IsString(file))
            return 0;
        hash = hvd_hash_text(hash, file->valuestring);
    }
    return hash;
}

bool hvd_hosts_has_any(const cJSON *members)
{
    bool has = false;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        has = has || hvd_json_get(members, files[i]);
    return has;
}

void hvd_hosts_put_removals(struct hvd_jb *jb, cJSON *members)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        hvd_jb_str(jb, members, files[i], NULL);
}
