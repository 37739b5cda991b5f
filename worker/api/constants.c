/*
 * Exports the errors of process sets as data, as Horovod does, for callers that read symbols and no
 * header (ctypes). Does not include the public header, which defines an enumeration of the same
 * names.
 */
#define EXPORT __attribute__((visibility("default")))

/* The values of the public header's horovod_process_set_error_t. */
extern EXPORT const int HOROVOD_PROCESS_SET_ERROR_INIT;
extern EXPORT const int HOROVOD_PROCESS_SET_ERROR_DYNAMIC;
extern EXPORT const int HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;
extern EXPORT const int HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET;
extern EXPORT const int HOROVOD_PROCESS_SET_ERROR_SHUTDOWN;
extern EXPORT const int HOROVOD_PROCESS_SET_ERROR_EXISTING_SET;

const int HOROVOD_PROCESS_SET_ERROR_INIT = -1;
const int HOROVOD_PROCESS_SET_ERROR_DYNAMIC = -2;
const int HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET = -3;
const int HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET = -4;
const int HOROVOD_PROCESS_SET_ERROR_SHUTDOWN = -5;
const int HOROVOD_PROCESS_SET_ERROR_EXISTING_SET = -6;
