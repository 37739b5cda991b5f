/*
 * The files of the ConfigMap J-hosts. Host names are J-worker-N.J: they resolve by the search path
 * of the pod's namespace, whatever the cluster's domain is, and match known_hosts. Pure.
 */
#include "operator/core/hosts.h"

#include "base/buf.h"
#include "base/mem.h"
#include "operator/core/children.h"
#include "operator/core/hash.h"
#include "operator/core/template.h"

#define FILE_MAX 1048576

static const char *const files[] = {"hostfile", "hosts", "discover_hosts.sh", "ssh_config"};

/* How one worker stands in a file. */
struct line {
    const char *head; /* of the file */
    const char *before;
    const char *between; /* host and slots */
    const char *after;
    const char *separator; /* before every line but the first */
};

struct list {
    const struct hvd_job *job;
    const struct hvd_worker *workers;
    size_t n;
};

static void add_file(struct hvd_jb *jb, cJSON *data, const char *name, const struct list *list,
                     const struct line *line)
{
    const struct hvd_job *job = list->job;
    char set[HVD_CHILD_NAME_MAX];
    struct hvd_buf text;
    hvd_status_t st;

    hvd_buf_init(&text, FILE_MAX);
    st = hvd_buf_puts(&text, line->head);
    for (size_t i = 0; st == HVD_OK && i < list->n; i++) {
        const struct hvd_worker *worker = &list->workers[i];

        hvd_group_name(job, worker->group, set);
        st = hvd_buf_printf(&text, "%s%s%s-%d.%s%s%d%s", i ? line->separator : "", line->before,
                            set, worker->ordinal, job->name, line->between,
                            job->spec.groups[worker->group].slots, line->after);
    }
    if (st == HVD_OK)
        hvd_jb_str(jb, data, name, text.data ? text.data : "");
    else
        jb->failed = true;
    hvd_buf_fini(&text);
}

static void add_ssh_config(struct hvd_jb *jb, cJSON *data, int port)
{
    hvd_jb_fmt(jb, data, "ssh_config",
               "Host *\n"
               "  Port %d\n"
               "  IdentityFile " HVD_SSH_DIR "/id\n"
               "  IdentitiesOnly yes\n"
               "  UserKnownHostsFile " HVD_SSH_DIR "/known_hosts\n"
               "  GlobalKnownHostsFile /dev/null\n"
               "  StrictHostKeyChecking yes\n"
               "  UpdateHostKeys no\n"
               "  BatchMode yes\n"
               "  ConnectTimeout 10\n"
               "  ConnectionAttempts 10\n"
               "  LogLevel ERROR\n",
               port);
}

cJSON *hvd_hosts_data(struct hvd_jb *jb, const struct hvd_job *job,
                      const struct hvd_worker *workers, size_t n_workers)
{
    static const struct line hostfile = {"", "", " slots=", "\n", ""};
    static const struct line hosts = {"", "", ":", "", ","};
    static const struct line script = {"#!/bin/sh\n", "echo ", ":", "\n", ""};
    const struct list list = {job, workers, n_workers};
    cJSON *data = hvd_jb_root(jb);

    add_file(jb, data, files[0], &list, &hostfile);
    add_file(jb, data, files[1], &list, &hosts);
    add_file(jb, data, files[2], &list, &script);
    add_ssh_config(jb, data, job->spec.ssh_port);
    return data;
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
