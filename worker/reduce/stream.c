/*
 * Stores that bypass the caches: a large output that no thread reads soon neither evicts data in
 * use nor is first read from memory. x86-64 only; elsewhere a plain copy, which AArch64 processors
 * recognise by themselves as streaming. Any thread; no state. Such stores are weakly ordered: a
 * fence follows the last one before another thread may read them.
 */
#include "worker/reduce/reduce_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LINE_BYTES 64

void hvd_reduce_stream(void *out, const void *in, size_t size_bytes)
{
    char *to = out;
    const char *from = in;
    size_t head = -(uintptr_t)to % LINE_BYTES;

    head = head < size_bytes ? head : size_bytes;
    memcpy(to, from, head);
    to += head;
    from += head;
    size_bytes -= head;
    for (; size_bytes >= LINE_BYTES; size_bytes -= LINE_BYTES) {
        for (int i = 0; i < LINE_BYTES; i += 16)
            _mm_stream_si128((__m128i *)(void *)(to + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
        to += LINE_BYTES;
        from += LINE_BYTES;
    }
    memcpy(to, from, size_bytes);
}

void hvd_reduce_stream_end(void)
{
    _mm_sfence();
}

#else

void hvd_reduce_stream(void *out, const void *in, size_t size_bytes)
{
    memcpy(out, in, size_bytes);
}

void hvd_reduce_stream_end(void)
{
}
#endif

void hvd_reduce_copy_stream(void *out, const void *in, size_t size_bytes)
{
    hvd_reduce_stream(out, in, size_bytes);
    hvd_reduce_stream_end();
}
