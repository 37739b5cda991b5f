#ifndef HVD_OPERATOR_APP_SPECS_H
#define HVD_OPERATOR_APP_SPECS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Within the store only (store.h has when): which texts of specs stay in memory, and which are
 * dropped because there are too many. One thread.
 */

struct hvd_store;
struct hvd_entry;

#define HVD_SPECS_MAX ((size_t)16 << 20) /* bytes of all texts that no pass is about to need */
/* The bound including texts that were read for a pass. There are as many of those as plans under
 * way, unless many wait for a permit. */
#define HVD_SPECS_PINNED_MAX (2 * HVD_SPECS_MAX)
#define HVD_SPECS_CLASSES 12 /* of sizes, the last without an upper end */

/* The place of an entry's text. */
struct hvd_spec_place {
    struct hvd_entry *older; /* in the list of its class, or of pinned texts */
    struct hvd_entry *newer;
    uint32_t size;  /* including the end */
    bool is_pinned; /* read for a pass that is still to come */
};

struct hvd_specs_list {
    struct hvd_entry *oldest;
    struct hvd_entry *newest;
};

/* Zeroed: no texts. */
struct hvd_specs {
    struct hvd_specs_list lists[HVD_SPECS_CLASSES];
    struct hvd_specs_list pinned;
    size_t bytes; /* of all texts in memory */
};

/*
 * Stores a copy of the text of the spec of the entry's job, in place of another one. Not for a job
 * at rest, unless it is pinned, which lasts until hvd_specs_planned. Drops other texts for it, or
 * the text itself. HVD_ERR_NOMEM leaves the old text.
 */
hvd_status_t hvd_specs_hold(struct hvd_store *store, struct hvd_entry *entry, const char *text,
                            bool is_pinned);

/* Drops the text of the entry's job, if it is in memory. */
void hvd_specs_drop(struct hvd_store *store, struct hvd_entry *entry);

/* Moves the text to a page with others if that saves memory. */
void hvd_specs_tidy(struct hvd_store *store, struct hvd_entry *entry);

#endif
