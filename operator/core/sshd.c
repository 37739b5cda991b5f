/*
 * The worker's sshd: command line and probes. sshd starts sessions with a fresh environment, so the
 * container's variables are handed on by SetEnv. The line is built here and needs no shell: literal
 * values are quoted for sshd, values from elsewhere (valueFrom) stand as $(NAME), which the kubelet
 * expands in arguments as it does in literal values. What only the image knows (its own PATH)
 * cannot be named here; set it in the template's env. sshd honours the first SetEnv only, so one
 * directive holds all. Pure.
 *
 * LogLevel FATAL: at ERROR and above sshd writes a line for every TCP probe.
 */
#include "operator/core/sshd.h"

#include <string.h>

#include "base/buf.h"

#define SETENV_MAX 131072

static hvd_status_t put_quoted(struct hvd_buf *out, const char *text)
{
    hvd_status_t st = HVD_OK;

    for (; st == HVD_OK && *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            st = hvd_buf_puts(out, "\\");
        if (st == HVD_OK)
            st = hvd_buf_add(out, text, 1);
    }
    return st;
}

/* One " \"NAME=value\"" of SetEnv. */
static hvd_status_t put_variable(struct hvd_buf *out, const cJSON *variable)
{
    const char *name = hvd_json_str(variable, "name");
    const char *value = hvd_json_str(variable, "value");
    hvd_status_t st;

    if (!name)
        return HVD_OK;
    st = hvd_buf_printf(out, "%s\"%s=", out->len ? " " : "SetEnv=", name);
    if (st == HVD_OK && hvd_json_get(variable, "valueFrom"))
        st = hvd_buf_printf(out, "$(%s)", name);
    else if (st == HVD_OK && value)
        st = put_quoted(out, value);
    return st == HVD_OK ? hvd_buf_puts(out, "\"") : st;
}

static void add_setenv(struct hvd_jb *jb, cJSON *command, const cJSON *env)
{
    struct hvd_buf text;
    const cJSON *variable = NULL;
    hvd_status_t st = HVD_OK;

    hvd_buf_init(&text, SETENV_MAX);
    cJSON_ArrayForEach(variable, env)
    {
        if (st == HVD_OK)
            st = put_variable(&text, variable);
    }
    if (st != HVD_OK) {
        jb->failed = true;
    } else if (text.len > 0) {
        hvd_jb_str(jb, command, NULL, "-o");
        hvd_jb_str(jb, command, NULL, text.data);
    }
    hvd_buf_fini(&text);
}

void hvd_sshd_command(struct hvd_jb *jb, cJSON *container, int port)
{
    static const char *const options[] = {"AuthorizedKeysFile=/etc/horovod/ssh/id.pub",
                                          "StrictModes=no",
                                          "UsePAM=no",
                                          "PidFile=none",
                                          "PasswordAuthentication=no",
                                          "LogLevel=FATAL"};
    cJSON *command = hvd_jb_array(jb, container, "command");

    hvd_jb_str(jb, command, NULL, "/usr/sbin/sshd");
    hvd_jb_str(jb, command, NULL, "-De");
    hvd_jb_str(jb, command, NULL, "-f");
    hvd_jb_str(jb, command, NULL, "/dev/null");
    hvd_jb_str(jb, command, NULL, "-p");
    hvd_jb_fmt(jb, command, NULL, "%d", port);
    hvd_jb_str(jb, command, NULL, "-h");
    hvd_jb_str(jb, command, NULL, "/etc/horovod/ssh/id");
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        hvd_jb_str(jb, command, NULL, "-o");
        hvd_jb_str(jb, command, NULL, options[i]);
    }
    add_setenv(jb, command, hvd_json_get(container, "env"));
}

static cJSON *tcp_probe(struct hvd_jb *jb, cJSON *container, const char *name, int port)
{
    cJSON *probe;

    if (!container || hvd_json_get(container, name))
        return NULL;
    probe = hvd_jb_object(jb, container, name);
    hvd_jb_int(jb, hvd_jb_object(jb, probe, "tcpSocket"), "port", port);
    return probe;
}

void hvd_sshd_probes(struct hvd_jb *jb, cJSON *container, int port, int startup_s)
{
    cJSON *ports = hvd_jb_ensure_array(jb, container, "ports");
    cJSON *entry = NULL;
    cJSON *probe;
    bool has_port = false;

    cJSON_ArrayForEach(entry, ports)
    {
        has_port = has_port || hvd_json_int(entry, "containerPort", 0) == port;
    }
    if (ports && !has_port) {
        entry = hvd_jb_object(jb, ports, NULL);
        hvd_jb_str(jb, entry, "name", "ssh");
        hvd_jb_int(jb, entry, "containerPort", port);
        hvd_jb_str(jb, entry, "protocol", "TCP");
    }
    probe = tcp_probe(jb, container, "startupProbe", port);
    hvd_jb_int(jb, probe, "periodSeconds", 1);
    hvd_jb_int(jb, probe, "failureThreshold", startup_s);
    probe = tcp_probe(jb, container, "readinessProbe", port);
    hvd_jb_int(jb, probe, "periodSeconds", 10);
}
