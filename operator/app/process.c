/*
 * Kernel data about the operator itself: memory and processor time for /metrics, and an identity
 * for the Lease. The identity differs after each start, so that a restarted process never mistakes
 * its predecessor's Lease for its own.
 */
#include "operator/app/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

struct hvd_process_usage hvd_process_usage(void)
{
    struct hvd_process_usage usage = {0};
    struct timespec cpu = {0};
    unsigned long size = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "re");

    if (statm && fscanf(statm, "%lu %lu", &size, &resident) == 2)
        usage.resident_bytes = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
    if (statm)
        (void)fclose(statm);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    usage.cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
    return usage;
}

int64_t hvd_process_waited_us(void)
{
    FILE *schedstat = fopen("/proc/thread-self/schedstat", "re");
    long long ran_ns = 0, waited_ns = 0;

    if (schedstat && fscanf(schedstat, "%lld %lld", &ran_ns, &waited_ns) != 2)
        waited_ns = 0;
    if (schedstat)
        (void)fclose(schedstat);
    return waited_ns / 1000;
}

void hvd_process_identity(char *out, size_t size)
{
    char host[128] = "";
    unsigned char bytes[8];
    unsigned long long number = 0;

    if (gethostname(host, sizeof(host) - 1) != 0)
        (void)snprintf(host, sizeof(host), "horovod-operator");
    if (getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes))
        memcpy(&number, bytes, sizeof(number));
    else
        number = (unsigned long long)getpid();
    (void)snprintf(out, size, "%s_%016llx", host, number);
}
