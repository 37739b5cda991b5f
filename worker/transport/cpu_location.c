/*
 * Asks hwloc on which cores this thread may run, and which caches they have. No other file uses
 * hwloc. The location omits processors outside the host's cpuset.
 */
#include "worker/transport/cpu_location.h"

#include <hwloc.h>
#include <stdbool.h>
#include <string.h>

void hvd_cpu_location_init(struct hvd_cpu_location *cpu_location)
{
    *cpu_location = (struct hvd_cpu_location){.package = -1, .numa = -1, .l3 = -1};
}

/* Skips devices, which take long to find and are not needed. */
static bool load(hwloc_topology_t *topology, const char *synthetic)
{
    if (hwloc_topology_init(topology) != 0)
        return false;
    if (hwloc_topology_set_io_types_filter(*topology, HWLOC_TYPE_FILTER_KEEP_NONE) == 0 &&
        (!synthetic || hwloc_topology_set_synthetic(*topology, synthetic) == 0) &&
        hwloc_topology_load(*topology) == 0)
        return true;
    hwloc_topology_destroy(*topology);
    return false;
}

/* Finds the processors in question; false where there is none. */
static bool find_processors(hwloc_topology_t topology, int processor, hwloc_bitmap_t where)
{
    hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(topology);

    if (processor >= 0)
        hwloc_bitmap_only(where, (unsigned)processor);
    else if (hwloc_get_cpubind(topology, where, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(where, allowed);
    hwloc_bitmap_and(where, where, allowed);
    return !hwloc_bitmap_iszero(where);
}

static void mark_cores(hwloc_topology_t topology, hwloc_const_bitmap_t where,
                       struct hvd_cpu_location *cpu_location)
{
    const hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;

    for (unsigned i = 0; i < HVD_CPU_LOCATION_CORES; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(topology, type, i);
        if (!core)
            return;
        if (hwloc_bitmap_intersects(core->cpuset, where))
            cpu_location->cores[i / 64] |= UINT64_C(1) << i % 64;
    }
}

/* The smallest cache of a kind that serves one of the processors; 0: no such cache. */
static uint64_t find_cache(hwloc_topology_t topology, hwloc_const_bitmap_t where,
                           hwloc_obj_type_t type)
{
    uint64_t least = 0;

    for (unsigned i = 0;; i++) {
        hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, i);
        if (!cache)
            return least;
        if (hwloc_bitmap_intersects(cache->cpuset, where) &&
            (least == 0 || cache->attr->cache.size < least))
            least = cache->attr->cache.size;
    }
}

/* The object that contains all the processors; -1: none of that type does. */
static int32_t find_around(hwloc_obj_t inner, hwloc_obj_type_t type)
{
    for (hwloc_obj_t o = inner; o; o = o->parent)
        if (o->type == type)
            return (int32_t)o->logical_index;
    return -1;
}

void hvd_cpu_location_read(const char *synthetic, int processor,
                           struct hvd_cpu_location *cpu_location)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t where = hwloc_bitmap_alloc();

    hvd_cpu_location_init(cpu_location);
    if (!where)
        return;
    if (load(&topology, synthetic)) {
        if (find_processors(topology, processor, where)) {
            hwloc_obj_t inner = hwloc_get_obj_covering_cpuset(topology, where);
            mark_cores(topology, where, cpu_location);
            cpu_location->l2_bytes = find_cache(topology, where, HWLOC_OBJ_L2CACHE);
            cpu_location->l3_bytes = find_cache(topology, where, HWLOC_OBJ_L3CACHE);
            cpu_location->package = find_around(inner, HWLOC_OBJ_PACKAGE);
            cpu_location->l3 = find_around(inner, HWLOC_OBJ_L3CACHE);
            if (inner && inner->nodeset && hwloc_bitmap_weight(inner->nodeset) == 1)
                cpu_location->numa = hwloc_bitmap_first(inner->nodeset);
        }
        hwloc_topology_destroy(topology);
    }
    hwloc_bitmap_free(where);
}
