#ifndef HVD_WORKER_TIMELINE_REPORT_READER_H
#define HVD_WORKER_TIMELINE_REPORT_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* The bytes of a text that the reader keeps; it cuts longer ones. */
#define HVD_TL_TEXT_MAX 1024
#define HVD_TL_NAME_MAX 256

/* One record of a timeline. Numbers that it lacks are 0. */
struct hvd_tl_event {
    char phase; /* 'B', 'E', 'X', 'i', 'M'; 0: none */
    int64_t pid;
    int64_t at_ns;
    int64_t dur_ns;
    int64_t rank;                  /* of the writer, from the first record; -1: not known */
    int64_t epoch_us;              /* when the timeline began; -1: not known */
    int64_t bytes;                 /* of the tensor; -1: not known */
    int64_t dropped;               /* how many events are missing */
    int64_t size;                  /* ranks of the job; 0: not known */
    char host[HVD_TL_NAME_MAX];    /* of the writer, or of `ranks`; empty: not known */
    char program[HVD_TL_NAME_MAX]; /* that the writer runs; empty: not known */
    char ranks[HVD_TL_TEXT_MAX];   /* the ranks of `host`: "0-3, 8"; empty: not known */
    char name[HVD_TL_TEXT_MAX];
    char text[HVD_TL_TEXT_MAX]; /* the name or text among the arguments */
};

/* Reads a timeline, as this library or Horovod writes it. */
struct hvd_tl_reader {
    struct hvd_strview rest;
    int64_t n_damaged; /* records that are no JSON, e.g. because of quotes in a tensor's name */
    bool has_end;      /* the array ends behind the last record; valid once there is no next one */
};

/* Fills *out with the next record; false at the end of the text. */
bool hvd_tl_reader_read(struct hvd_tl_reader *reader, struct hvd_tl_event *out);

#endif
