/*
 * Reads the kernel's text files about memory cgroups, versions 1 and 2. In a container the path in
 * /proc/self/cgroup may be the host's, while the mount contains only the part below it. The root
 * field of mountinfo is the prefix to cut off.
 */
#include "worker/launch/core/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Version 1 writes the largest multiple of a page for "no limit". It differs between kernels. */
#define NO_LIMIT_BYTES ((int64_t)1 << 60)

/* Whether a list separated by commas holds the word. */
static bool list_has(struct hvd_strview list, const char *word)
{
    while (list.data)
        if (hvd_strview_equal(hvd_strview_cut(&list, ','), word))
            return true;
    return false;
}

/* The path of the process in the hierarchy of that version; data is NULL when it has none. */
static struct hvd_strview find_path(const char *cgroup, int version)
{
    struct hvd_strview rest = hvd_strview_of(cgroup);

    while (rest.data) {
        struct hvd_strview path = hvd_strview_cut(&rest, '\n');
        struct hvd_strview id = hvd_strview_cut(&path, ':');
        struct hvd_strview controllers = path.data ? hvd_strview_cut(&path, ':') : path;

        if (!path.data)
            continue;
        if (version == 1 ? list_has(controllers, "memory")
                         : hvd_strview_equal(id, "0") && controllers.len == 0)
            return path;
    }
    return (struct hvd_strview){0};
}

struct mount {
    struct hvd_strview root;  /* the part of the hierarchy that the mount shows */
    struct hvd_strview point; /* where it is mounted */
};

/* Finds the mount of the hierarchy of that version. */
static bool find_mount(const char *mountinfo, int version, struct mount *out)
{
    struct hvd_strview rest = hvd_strview_of(mountinfo);

    while (rest.data) {
        struct hvd_strview line = hvd_strview_cut(&rest, '\n');
        struct hvd_strview field[5];
        struct hvd_strview type;

        for (size_t i = 0; i < 5; i++)
            field[i] = line.data ? hvd_strview_cut(&line, ' ') : line;
        while (line.data && !hvd_strview_equal(hvd_strview_cut(&line, ' '), "-"))
            ;
        if (!line.data)
            continue;
        type = hvd_strview_cut(&line, ' ');
        if (line.data)
            (void)hvd_strview_cut(&line, ' ');
        if (field[4].len == 0 || field[4].data[0] != '/')
            continue;
        if (version == 1 ? hvd_strview_equal(type, "cgroup") && list_has(line, "memory")
                         : hvd_strview_equal(type, "cgroup2")) {
            *out = (struct mount){.root = field[3], .point = field[4]};
            return true;
        }
    }
    return false;
}

/* The part of path below the mount's root; empty where path is the root or outside it. */
static struct hvd_strview below(struct hvd_strview path, struct hvd_strview root)
{
    if (hvd_strview_equal(root, "/"))
        root.len = 0;
    if (path.len < root.len || (root.len && memcmp(path.data, root.data, root.len) != 0) ||
        (path.len > root.len && path.data[root.len] != '/') ||
        (path.len >= 3 && memcmp(path.data, "/..", 3) == 0))
        return (struct hvd_strview){.data = "", .len = 0};
    path.data += root.len;
    path.len -= root.len;
    if (hvd_strview_equal(path, "/"))
        path.len = 0;
    return path;
}

static bool locate_version(const char *cgroup, const char *mountinfo, int version,
                           struct hvd_cgroup *out)
{
    struct hvd_strview path = find_path(cgroup, version);
    struct mount mount;
    int len;

    if (!path.data || !find_mount(mountinfo, version, &mount))
        return false;
    path = below(path, mount.root);
    len = snprintf(out->mount, sizeof(out->mount), "%.*s", (int)mount.point.len, mount.point.data);
    if (len < 0 || (size_t)len >= sizeof(out->mount))
        return false;
    len = snprintf(out->dir, sizeof(out->dir), "%.*s%.*s", (int)mount.point.len, mount.point.data,
                   (int)path.len, path.data);
    out->version = version;
    return len > 0 && (size_t)len < sizeof(out->dir);
}

hvd_status_t hvd_cgroup_locate(const char *cgroup, const char *mountinfo, struct hvd_cgroup *out)
{
    struct hvd_cgroup found = {0};

    if (!locate_version(cgroup, mountinfo, 1, &found) &&
        !locate_version(cgroup, mountinfo, 2, &found))
        return HVD_ERR_NOT_FOUND;
    *out = found;
    return HVD_OK;
}

hvd_status_t hvd_cgroup_oom_kills(const char *text, int64_t *out)
{
    const int64_t range[2] = {0, INT64_MAX};
    struct hvd_strview rest = hvd_strview_of(text);

    while (rest.data) {
        struct hvd_strview value = hvd_strview_cut(&rest, '\n');
        struct hvd_strview key = hvd_strview_cut(&value, ' ');

        if (value.data && hvd_strview_equal(key, "oom_kill"))
            return hvd_str_parse_int64(value, range, out, NULL);
    }
    return HVD_ERR_NOT_FOUND;
}

hvd_status_t hvd_cgroup_limit(const char *text, int64_t *out_bytes)
{
    const int64_t range[2] = {0, INT64_MAX};
    struct hvd_strview value = hvd_strview_trim(hvd_strview_of(text));
    int64_t limit = 0;

    if (hvd_strview_equal(value, "max")) {
        *out_bytes = INT64_MAX;
        return HVD_OK;
    }
    if (hvd_str_parse_int64(value, range, &limit, NULL) < 0)
        return HVD_ERR_INVALID;
    *out_bytes = limit >= NO_LIMIT_BYTES ? INT64_MAX : limit;
    return HVD_OK;
}

void hvd_cgroup_format_size(int64_t size_bytes, char *out, size_t out_size)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t unit = 0;

    while (unit + 1 < sizeof(units) / sizeof(units[0]) && size_bytes > 0 &&
           size_bytes % 1024 == 0) {
        size_bytes /= 1024;
        unit++;
    }
    (void)snprintf(out, out_size, "%" PRId64 "%s", size_bytes, units[unit]);
}
