#ifndef HVD_TESTS_UNIT_FAKE_GPU_GPU_H
#define HVD_TESTS_UNIT_FAKE_GPU_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/fake/gpu/control.h"
#include "tests/fake/gpu/driver.h"

/* What tests of the doubles share. Every failure ends the test. */

/* Ends the test unless the call succeeded. */
#define GPU_OK(call) assert_int_equal((int)(call), HVD_CU_SUCCESS)

/* Initialises the driver with so many devices, once in a process, makes the first device's context
 * current, and forgets what was found before. Findings are counted, not fatal. */
void gpu_begin(int n_devices);

/* Waits for all streams, and ends the test if anything is left over or findings are unread. */
void gpu_end(void);

/* The context of a device, retained by gpu_begin. */
struct CUctx_st *gpu_context(int device);

/* A stream that does not synchronise with the legacy one. */
struct CUstream_st *gpu_stream(void);

/* An event without times. */
struct CUevent_st *gpu_event(void);

/* Device memory that holds so many times the float. */
hvd_cu_ptr_t gpu_floats(size_t n, float value);

/* Reads one float, in no order with any stream. */
float gpu_float_at(hvd_cu_ptr_t at, size_t index);

/* The module of the kernels below, loaded for the current context. */
struct CUmod_st *gpu_module(void);

/* One of its kernels, loaded: gpu_add (p, n, value) adds to n floats; gpu_sum (to, from, n). */
struct CUfunc_st *gpu_kernel(struct CUmod_st *module, const char *name);

/* Launches gpu_add. */
hvd_cu_result_t gpu_launch_add(struct CUfunc_st *kernel, struct CUstream_st *stream,
                               hvd_cu_ptr_t at, unsigned n, float value);

/* Ends the test unless there was exactly one finding and it is of the kind; forgets it. Returns its
 * text, valid until the next call. */
const char *gpu_expect(enum fake_gpu_finding finding);

/* A kernel that spins until gpu_let_go: a stand-in for a collective that waits for a peer. */
void gpu_hold(struct CUstream_st *stream);

/* Ends all such kernels. */
void gpu_let_go(void);

#endif
