/*
 * The list of hosts, from -H or from a hostfile, with the checks that need no access to a host.
 * Names are checked strictly, because they become arguments of ssh and mpirun: a name with a
 * leading '-' would be an option there.
 */
#include "worker/launch/core/hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const int64_t slots_range[2] = {1, 1000000};

void hvd_hosts_fini(struct hvd_hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        hvd_free(hosts->items[i].name);
    hvd_free(hosts->items);
    *hosts = (struct hvd_hosts){0};
}

static hvd_status_t check_name(struct hvd_strview name, struct hvd_err *err)
{
    bool is_valid = name.len > 0 && name.len <= HVD_HOST_NAME_MAX && name.data[0] != '-';

    for (size_t i = 0; is_valid && i < name.len; i++) {
        char c = name.data[i];

        is_valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '.' || c == '-' || c == '_';
    }
    if (is_valid)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0, "\"%.*s\" is not a host name or address",
                    name.len > 64 ? 64 : (int)name.len, name.len ? name.data : "");
}

/* Adds the slots to the host of that name. Appends the host when it is new. */
static hvd_status_t put(struct hvd_hosts *hosts, struct hvd_strview name, int64_t slots,
                        struct hvd_err *err)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (hvd_strview_equal(name, hosts->items[i].name)) {
            hosts->items[i].slots += slots;
            return HVD_OK;
        }
    if (hosts->n == hosts->_capacity) {
        size_t capacity = hosts->_capacity ? 2 * hosts->_capacity : 8;
        struct hvd_host *items = hvd_realloc(hosts->items, capacity, sizeof(*items));

        if (!items)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the host list");
        hosts->items = items;
        hosts->_capacity = capacity;
    }
    hosts->items[hosts->n] =
        (struct hvd_host){.name = hvd_strndup(name.data, name.len), .slots = slots};
    if (!hosts->items[hosts->n].name)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the host list");
    hosts->n++;
    return HVD_OK;
}

/* Ends a parse: an empty list is an error, and a failed parse keeps nothing. */
static hvd_status_t finish(struct hvd_hosts *parsed, hvd_status_t st, struct hvd_hosts *out,
                           struct hvd_err *err)
{
    if (st == HVD_OK && parsed->n == 0)
        st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "the list names no host");
    if (st < 0) {
        hvd_hosts_fini(parsed);
        return st;
    }
    *out = *parsed;
    return HVD_OK;
}

hvd_status_t hvd_hosts_parse_list(const char *text, struct hvd_hosts *out, struct hvd_err *err)
{
    struct hvd_strview rest = hvd_strview_of(text);
    struct hvd_hosts parsed = {0};
    hvd_status_t st = HVD_OK;

    while (rest.data && st == HVD_OK) {
        struct hvd_strview count = hvd_strview_trim(hvd_strview_cut(&rest, ','));
        const struct hvd_strview entry = count;
        struct hvd_strview name = hvd_strview_cut(&count, ':');
        int64_t slots = 1;

        st = check_name(name, err);
        if (st == HVD_OK && count.data)
            st = hvd_str_parse_int64(count, slots_range, &slots, err);
        if (st < 0)
            st = HVD_WRAP(err, st, "host entry \"%.*s\" (write HOST:SLOTS)",
                          entry.len > 64 ? 64 : (int)entry.len, entry.len ? entry.data : "");
        else
            st = put(&parsed, name, slots, err);
    }
    return finish(&parsed, st, out, err);
}

/* Cuts the next word off a line; an empty view at its end. */
static struct hvd_strview cut_word(struct hvd_strview *line)
{
    struct hvd_strview word;

    *line = hvd_strview_trim(*line);
    word = (struct hvd_strview){.data = line->data, .len = 0};
    while (word.len < line->len && !strchr(" \t\r", line->data[word.len]))
        word.len++;
    line->data += word.len;
    line->len -= word.len;
    return word;
}

/* Parses one line without its comment: empty, or a host and its settings. */
static hvd_status_t parse_line(struct hvd_strview line, struct hvd_hosts *parsed,
                               struct hvd_err *err)
{
    struct hvd_strview name = cut_word(&line);
    int64_t slots = 1;

    if (name.len == 0)
        return HVD_OK;
    if (check_name(name, err) < 0)
        return HVD_ERR_INVALID;
    for (struct hvd_strview word = cut_word(&line); word.len > 0; word = cut_word(&line)) {
        struct hvd_strview value = word;
        struct hvd_strview key = hvd_strview_cut(&value, '=');

        if (!value.data ||
            (!hvd_strview_equal(key, "slots") && !hvd_strview_equal(key, "max_slots")))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "\"%.*s\" is not slots=N",
                            word.len > 64 ? 64 : (int)word.len, word.data);
        int64_t number = 0;

        if (hvd_str_parse_int64(value, slots_range, &number, err) < 0)
            return HVD_WRAP(err, HVD_ERR_INVALID, "%.*s", (int)key.len, key.data);
        if (hvd_strview_equal(key, "slots"))
            slots = number;
    }
    return put(parsed, name, slots, err);
}

hvd_status_t hvd_hosts_parse_file(struct hvd_strview text, struct hvd_hosts *out,
                                  struct hvd_err *err)
{
    struct hvd_hosts parsed = {0};
    hvd_status_t st = HVD_OK;

    for (int number = 1; text.data && st == HVD_OK; number++) {
        struct hvd_strview line = hvd_strview_cut(&text, '\n');

        st = parse_line(hvd_strview_cut(&line, '#'), &parsed, err);
        if (st < 0)
            st = HVD_WRAP(err, st, "line %d", number);
    }
    return finish(&parsed, st, out, err);
}

int64_t hvd_hosts_slots(const struct hvd_hosts *hosts)
{
    int64_t sum = 0;

    for (size_t i = 0; i < hosts->n; i++)
        sum += hosts->items[i].slots;
    return sum;
}

hvd_status_t hvd_hosts_fit(struct hvd_hosts *hosts, int64_t n_proc, struct hvd_err *err)
{
    int64_t slots = hvd_hosts_slots(hosts);
    char names[256];
    struct hvd_text text = hvd_text_in(names, sizeof(names));

    if (n_proc > slots) {
        for (size_t i = 0; i < hosts->n && i < 4; i++)
            hvd_text_add(&text, "%s%s:%" PRId64, i ? ", " : "", hosts->items[i].name,
                         hosts->items[i].slots);
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "-np %" PRId64 " is more than the %" PRId64 " slots of %zu host%s (%s%s): "
                        "lower -np or give the hosts more slots",
                        n_proc, slots, hosts->n, hosts->n == 1 ? "" : "s", names,
                        hosts->n > 4 ? ", ..." : "");
    }
    for (size_t i = 0; i < hosts->n; i++) {
        struct hvd_host *host = &hosts->items[i];

        if (host->slots > n_proc)
            host->slots = n_proc;
        n_proc -= host->slots;
    }
    while (hosts->n > 0 && hosts->items[hosts->n - 1].slots == 0)
        hvd_free(hosts->items[--hosts->n].name);
    return HVD_OK;
}

const char *hvd_hosts_of_rank(const struct hvd_hosts *hosts, int64_t rank)
{
    for (size_t i = 0; i < hosts->n && rank >= 0; i++) {
        if (rank < hosts->items[i].slots)
            return hosts->items[i].name;
        rank -= hosts->items[i].slots;
    }
    return NULL;
}

/* The number of hosts with that version. */
static size_t count_version(const struct hvd_hosts *hosts, int major)
{
    size_t n = 0;

    for (size_t i = 0; i < hosts->n; i++)
        n += hosts->items[i].mpi_major == major;
    return n;
}

hvd_status_t hvd_hosts_check_versions(const struct hvd_hosts *hosts, int this_major,
                                      struct hvd_err *err)
{
    size_t n_usual = count_version(hosts, this_major) + 1;
    int usual = this_major;
    size_t n_odd = 0;
    char names[320];
    struct hvd_text text = hvd_text_in(names, sizeof(names));

    for (size_t i = 0; i < hosts->n; i++) {
        int major = hosts->items[i].mpi_major;
        size_t n = count_version(hosts, major);

        if (major != 0 && n > n_usual) {
            n_usual = n;
            usual = major;
        }
    }
    if (usual != this_major)
        hvd_text_add(&text, "this host has Open MPI %d", this_major);
    n_odd += usual != this_major;
    for (size_t i = 0; i < hosts->n; i++) {
        const struct hvd_host *host = &hosts->items[i];

        if (host->mpi_major != 0 && host->mpi_major != usual && !host->is_local && ++n_odd <= 4)
            hvd_text_add(&text, "%s%s has Open MPI %d", n_odd > 1 ? ", " : "", host->name,
                         host->mpi_major);
    }
    if (n_odd == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_MISMATCH, 0,
                    "%s%s, but the others have Open MPI %d: install the same major version on "
                    "every host",
                    names, n_odd > 4 ? ", ..." : "", usual);
}
