#ifndef HVD_WORKER_TELEMETRY_CORE_PROGRAM_H
#define HVD_WORKER_TELEMETRY_CORE_PROGRAM_H

#include <stddef.h>

#include "base/str.h"

/*
 * Writes the name of the program that a process runs, cut at size bytes. That is the file name of
 * its executable, and for Python that of the script, or the module behind -m. Never an argument,
 * because arguments may hold secrets. exe: the path of the executable; cmdline: the arguments, the
 * first one included, each ended by a zero byte. An argument without a zero byte behind it is
 * ignored. Empty when neither is known.
 */
void hvd_program_name(const char *exe, struct hvd_strview cmdline, char *out, size_t size);

#endif
