/*
 * The copies between tensors and one buffer; kernels.h has their parameters. Compiled twice: by
 * nvcc for devices (script/kernels), and as C for tests, where tests/fake/gpu/device_c.h defines
 * what CUDA adds to C. Hence no shared memory and no synchronisation: every thread computes alone,
 * so that the C version runs one after the other.
 *
 * A warp copies a tile. If one piece fills the tile, the lanes take every 32nd word of 16 bytes,
 * several at once. Otherwise every lane looks up the piece of its words, so that a tile of many
 * small pieces is as parallel as the others. Words of 16 bytes need aligned addresses on both
 * sides; else units are narrower, down to an element, and to a byte where nothing is computed or
 * elements are not aligned for their type.
 *
 * Pointers come from a table, so the compiler cannot derive that they are global: LOAD and STORE
 * name the address space.
 */
#ifdef __CUDACC__
#include "worker/device/cuda/kernels.h"

#define GLOBAL(NAME)                                                                               \
    extern "C" __global__ void __launch_bounds__(HVD_CUDA_BLOCK, 4) NAME(struct hvd_cuda_args args)
#define INLINE static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#define LOAD(TYPE, ADDRESS) (*(const TYPE *)__cvta_global_to_generic(ADDRESS))
#define STORE(TYPE, ADDRESS, VALUE) (*(TYPE *)__cvta_global_to_generic(ADDRESS) = (VALUE))

/* A word of 16 bytes. */
struct __align__(16) word {
    uint64_t half[2];
};

INLINE struct word load_word(uint64_t address)
{
    return LOAD(struct word, address);
}

INLINE void store_word(uint64_t address, struct word x)
{
    STORE(struct word, address, x);
}

INLINE float float_of(uint32_t bits)
{
    return __uint_as_float(bits);
}

INLINE uint32_t float_bits(float x)
{
    return __float_as_uint(x);
}

INLINE double double_of(uint64_t bits)
{
    return __longlong_as_double((long long)bits);
}

INLINE uint64_t double_bits(double x)
{
    return (uint64_t)__double_as_longlong(x);
}

INLINE float float16_widen(uint16_t half)
{
    float x;

    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

INLINE uint16_t float16_narrow(float x)
{
    uint16_t half;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}
#endif

#define WORD_BYTES 16u
#define WORDS (HVD_CUDA_TILE_BYTES / WORD_BYTES / HVD_CUDA_WARP) /* of a lane in a tile */
#define MOST_AT_ONCE 8

/* --- Arithmetic: what worker/reduce/scale.c computes ------------------------------------------ */

/*
 * What a kernel does. All functions are inlined, so the compiler knows step and at_once of each
 * kernel, apart from the step of the kernel for integers.
 */
struct task {
    const struct hvd_cuda_args *args;
    int step;
    uint32_t at_once; /* words that a lane holds at once; 1: one element, no words */
};

/* The bytes of an element; 1 where nothing is computed. */
INLINE uint32_t width_of(int step)
{
    switch (step) {
    case HVD_CUDA_SCALE_UINT16:
    case HVD_CUDA_SCALE_INT16:
    case HVD_CUDA_SCALE_FLOAT16:
    case HVD_CUDA_SCALE_BFLOAT16:
    case HVD_CUDA_DIVIDE_UINT16:
    case HVD_CUDA_DIVIDE_INT16:
        return 2;
    case HVD_CUDA_SCALE_UINT32:
    case HVD_CUDA_SCALE_INT32:
    case HVD_CUDA_SCALE_FLOAT32:
    case HVD_CUDA_DIVIDE_UINT32:
    case HVD_CUDA_DIVIDE_INT32:
        return 4;
    case HVD_CUDA_SCALE_UINT64:
    case HVD_CUDA_SCALE_INT64:
    case HVD_CUDA_SCALE_FLOAT64:
    case HVD_CUDA_DIVIDE_UINT64:
    case HVD_CUDA_DIVIDE_INT64:
        return 8;
    default:
        return 1;
    }
}

/* A NaN always becomes the same one. */
INLINE uint64_t times64(uint64_t bits, double factor)
{
    double x = __dmul_rn(double_of(bits), factor);

    return x == x ? double_bits(x) : 0x7ff8000000000000u;
}

INLINE uint32_t times32(uint32_t bits, double factor)
{
    float x = __fmul_rn(float_of(bits), (float)factor);

    return x == x ? float_bits(x) : 0x7fc00000u;
}

INLINE uint16_t times_float16(uint16_t half, double factor)
{
    float x = __fmul_rn(float16_widen(half), (float)factor);

    return (uint16_t)(x == x ? float16_narrow(x) : 0x7e00u);
}

INLINE uint16_t times_bfloat16(uint16_t half, double factor)
{
    float x = __fmul_rn(float_of((uint32_t)half << 16), (float)factor);
    uint32_t bits = float_bits(x);

    return (uint16_t)(x == x ? (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16 : 0x7fc0u);
}

/* A product out of range becomes the limit, and a NaN 0. `limit` is the largest value + 1. */
INLINE uint64_t times_unsigned(uint64_t x, double factor, uint64_t most, double limit)
{
    double exact = __dmul_rn((double)x, factor);

    return exact >= limit ? most : exact > 0 ? (uint64_t)exact : 0;
}

INLINE int64_t times_signed(int64_t x, double factor, int64_t most, double limit)
{
    double exact = __dmul_rn((double)x, factor);
    int64_t least = -most - 1;

    if (exact >= limit)
        return most;
    if (exact <= -limit)
        return least;
    return exact == exact ? (int64_t)exact : 0;
}

/* The result for one element, whose bits are the last of `bits`; so are those of the result. */
INLINE uint64_t multiply(int step, uint64_t bits, double factor)
{
    switch (step) {
    case HVD_CUDA_SCALE_UINT8:
        return times_unsigned((uint8_t)bits, factor, 0xff, 0x1p8);
    case HVD_CUDA_SCALE_INT8:
        return (uint8_t)times_signed((int8_t)bits, factor, 0x7f, 0x1p7);
    case HVD_CUDA_SCALE_UINT16:
        return times_unsigned((uint16_t)bits, factor, 0xffff, 0x1p16);
    case HVD_CUDA_SCALE_INT16:
        return (uint16_t)times_signed((int16_t)bits, factor, 0x7fff, 0x1p15);
    case HVD_CUDA_SCALE_UINT32:
        return times_unsigned((uint32_t)bits, factor, 0xffffffffu, 0x1p32);
    case HVD_CUDA_SCALE_INT32:
        return (uint32_t)times_signed((int32_t)bits, factor, 0x7fffffff, 0x1p31);
    case HVD_CUDA_SCALE_UINT64:
        return times_unsigned(bits, factor, 0xffffffffffffffffu, 0x1p64);
    case HVD_CUDA_SCALE_INT64:
        return (uint64_t)times_signed((int64_t)bits, factor, 0x7fffffffffffffff, 0x1p63);
    case HVD_CUDA_SCALE_FLOAT16:
        return times_float16((uint16_t)bits, factor);
    case HVD_CUDA_SCALE_BFLOAT16:
        return times_bfloat16((uint16_t)bits, factor);
    case HVD_CUDA_SCALE_FLOAT32:
        return times32((uint32_t)bits, factor);
    default:
        return times64(bits, factor);
    }
}

INLINE uint64_t divide(int step, uint64_t bits, int32_t divisor)
{
    switch (step) {
    case HVD_CUDA_DIVIDE_UINT8:
        return (uint32_t)(uint8_t)bits / (uint32_t)divisor;
    case HVD_CUDA_DIVIDE_INT8:
        return (uint8_t)((int8_t)bits / divisor);
    case HVD_CUDA_DIVIDE_UINT16:
        return (uint32_t)(uint16_t)bits / (uint32_t)divisor;
    case HVD_CUDA_DIVIDE_INT16:
        return (uint16_t)((int16_t)bits / divisor);
    case HVD_CUDA_DIVIDE_UINT32:
        return (uint32_t)bits / (uint32_t)divisor;
    case HVD_CUDA_DIVIDE_INT32:
        return (uint32_t)((int32_t)bits / divisor);
    case HVD_CUDA_DIVIDE_UINT64:
        return bits / (uint64_t)divisor;
    default:
        return (uint64_t)((int64_t)bits / divisor);
    }
}

INLINE uint64_t apply(const struct task *t, uint64_t bits)
{
    if (t->step == HVD_CUDA_COPY)
        return bits;
    if (t->step >= HVD_CUDA_DIVIDE_UINT8)
        return divide(t->step, bits, t->args->divisor);
    return multiply(t->step, bits, t->args->factor);
}

/* The results for all elements of a word. */
INLINE struct word apply_word(const struct task *t, struct word x)
{
    const uint32_t bits = 8 * width_of(t->step);

    if (t->step == HVD_CUDA_COPY)
        return x;
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t result = 0;

        UNROLL
        for (uint32_t at = 0; at < 64; at += bits)
            result |= apply(t, x.half[i] >> at) << at;
        x.half[i] = result;
    }
    return x;
}

/* --- Copies by the lanes of a warp ------------------------------------------------------------ */

/* A stretch of a tile that belongs to one piece. */
struct stretch {
    uint64_t from; /* 0: zeros are written */
    uint64_t to;   /* 0: nothing is written */
    uint64_t bytes;
};

/* The stretch from `low` to `high`, both offsets in the buffer, of a piece. */
INLINE struct stretch stretch_of(const struct hvd_cuda_args *args, uint32_t i, uint64_t low,
                                 uint64_t high)
{
    const uint64_t piece = args->table + i * sizeof(struct hvd_cuda_piece);
    const uint64_t offset = LOAD(uint64_t, piece);
    const uint64_t end = offset + LOAD(uint64_t, piece + 8);
    const uint64_t address = LOAD(uint64_t, args->addresses + i * sizeof(uint64_t));
    struct stretch s;
    uint64_t tensor;

    low = low > offset ? low : offset;
    high = high < end ? high : end;
    tensor = address ? address + (low - offset) : 0;
    s.from = args->is_unpack ? args->buffer + low : tensor;
    s.to = args->is_unpack ? tensor : args->buffer + low;
    s.bytes = high > low ? high - low : 0;
    return s;
}

INLINE uint64_t load_unit(uint32_t width, uint64_t address)
{
    switch (width) {
    case 8:
        return LOAD(uint64_t, address);
    case 4:
        return LOAD(uint32_t, address);
    case 2:
        return LOAD(uint16_t, address);
    default:
        return LOAD(uint8_t, address);
    }
}

INLINE void store_unit(uint32_t width, uint64_t address, uint64_t bits)
{
    switch (width) {
    case 8:
        STORE(uint64_t, address, bits);
        break;
    case 4:
        STORE(uint32_t, address, (uint32_t)bits);
        break;
    case 2:
        STORE(uint16_t, address, (uint16_t)bits);
        break;
    default:
        STORE(uint8_t, address, (uint8_t)bits);
        break;
    }
}

/* Copies units `first`, first + step, ... of the stretch, 4 at once at most. All units are elements,
 * or the task computes nothing. */
INLINE void copy_units(const struct task *t, const struct stretch *s, uint32_t width,
                       uint32_t first, uint32_t step)
{
    const uint32_t n = (uint32_t)s->bytes / width;
    const uint32_t at_once = t->at_once < 4 ? t->at_once : 4;

    NO_UNROLL
    for (; first < n; first += at_once * step) {
        uint64_t units[4];

        UNROLL
        for (uint32_t j = 0; j < at_once; j++)
            units[j] = first + j * step < n
                           ? load_unit(width, s->from + (first + j * step) * width)
                           : 0;
        UNROLL
        for (uint32_t j = 0; j < at_once; j++)
            if (first + j * step < n)
                store_unit(width, s->to + (first + j * step) * width, apply(t, units[j]));
    }
}

/* Copies elements `first`, first + step, ... of the stretch. Byte by byte where they are not aligned
 * for their type. */
INLINE void copy_elements(const struct task *t, const struct stretch *s, uint32_t first,
                          uint32_t step)
{
    const uint32_t width = width_of(t->step);
    const uint32_t unit = (s->from | s->to) % width == 0 ? width : 1;

    if (t->at_once > 1 && unit == width) {
        copy_units(t, s, width, first, step);
        return;
    }
    NO_UNROLL
    for (; first < (uint32_t)s->bytes / width; first += step) {
        uint64_t bits = 0;

        NO_UNROLL
        for (uint32_t i = 0; i < width; i += unit)
            bits |= load_unit(unit, s->from + first * width + i) << 8 * i;
        bits = apply(t, bits);
        NO_UNROLL
        for (uint32_t i = 0; i < width; i += unit)
            store_unit(unit, s->to + first * width + i, bits >> 8 * i);
    }
}

/* Copies the words of a stretch that is aligned on both sides, without the bytes behind them. */
INLINE void copy_words(const struct task *t, const struct stretch *s, uint32_t lane)
{
    const struct word none = {{0, 0}};
    const uint32_t n = (uint32_t)s->bytes / WORD_BYTES;

    NO_UNROLL
    for (uint32_t first = lane; first < n; first += t->at_once * HVD_CUDA_WARP) {
        struct word words[MOST_AT_ONCE];

        UNROLL
        for (uint32_t j = 0; j < t->at_once; j++) {
            const uint32_t i = first + j * HVD_CUDA_WARP;
            words[j] = i < n ? load_word(s->from + i * WORD_BYTES) : none;
        }
        UNROLL
        for (uint32_t j = 0; j < t->at_once; j++) {
            const uint32_t i = first + j * HVD_CUDA_WARP;
            if (i < n)
                store_word(s->to + i * WORD_BYTES, apply_word(t, words[j]));
        }
    }
}

/* Writes zeros by units, as copy_units does. */
INLINE void fill_units(const struct stretch *s, uint32_t first, uint32_t step)
{
    const uint32_t width = (s->to | s->bytes) % 4 == 0 ? 4 : 1;
    const uint32_t n = (uint32_t)s->bytes / width;

    NO_UNROLL
    for (; first < n; first += step) {
        if (width == 4)
            STORE(uint32_t, s->to + first * 4, 0);
        else
            STORE(uint8_t, s->to + first, 0);
    }
}

/* Copies a stretch with all lanes, in the widest units that the addresses allow. */
INLINE void copy_stretch(const struct task *t, struct stretch s, uint32_t lane)
{
    const struct task last = {t->args, t->step, 1};
    const uint32_t low = (uint32_t)(s.from | s.to);
    uint32_t width;

    if (t->at_once > 1 && low % WORD_BYTES == 0) {
        copy_words(t, &s, lane);
        width = WORD_BYTES;
    } else if (t->step == HVD_CUDA_COPY && low % 8 == 0) {
        copy_units(t, &s, 8, lane, HVD_CUDA_WARP);
        width = 8;
    } else if (t->step == HVD_CUDA_COPY && low % 4 == 0) {
        copy_units(t, &s, 4, lane, HVD_CUDA_WARP);
        width = 4;
    } else if (t->step == HVD_CUDA_COPY && low % 2 == 0) {
        copy_units(t, &s, 2, lane, HVD_CUDA_WARP);
        width = 2;
    } else {
        copy_elements(t, &s, lane, HVD_CUDA_WARP);
        return;
    }
    /* The elements behind the last unit: less than 16. */
    s.from += s.bytes / width * width;
    s.to += s.bytes / width * width;
    s.bytes %= width;
    copy_units(&last, &s, width_of(t->step), lane, HVD_CUDA_WARP);
}

/* --- Tiles of several pieces ------------------------------------------------------------------ */

/* The pieces of a tile. */
struct pieces {
    uint64_t begin; /* of the tile in the buffer */
    uint32_t first;
    uint32_t last; /* may begin right behind the tile */
};

INLINE uint64_t offset_of(const struct hvd_cuda_args *args, uint32_t i)
{
    return LOAD(uint64_t, args->table + i * sizeof(struct hvd_cuda_piece));
}

/* The last piece that begins at an offset or before. */
INLINE uint32_t piece_at(const struct hvd_cuda_args *args, const struct pieces *p, uint64_t offset)
{
    uint32_t low = p->first;
    uint32_t high = p->last;

    while (low < high) {
        const uint32_t middle = high - (high - low) / 2;
        if (offset_of(args, middle) <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Copies a word that several pieces share, or that is not aligned on both sides. One lane. */
INLINE void copy_parts(const struct task *t, const struct pieces *p, uint64_t offset)
{
    NO_UNROLL
    for (uint32_t i = piece_at(t->args, p, offset);
         i <= p->last && offset_of(t->args, i) < offset + WORD_BYTES; i++) {
        const struct stretch s = stretch_of(t->args, i, offset, offset + WORD_BYTES);

        if (!s.from)
            fill_units(&s, 0, 1);
        else if (s.to && t->step == HVD_CUDA_COPY && (s.from | s.to | s.bytes) % 4 == 0)
            copy_units(t, &s, 4, 0, 1);
        else if (s.to)
            copy_elements(t, &s, 0, 1);
    }
}

INLINE void copy_mixed(const struct task *t, const struct pieces *p, uint32_t lane)
{
    const uint32_t at_once = t->at_once < 4 ? t->at_once : 4;
    uint32_t whole = 0; /* a bit for each word that one piece fills */

    NO_UNROLL
    for (uint32_t k = 0; at_once > 1 && k < WORDS; k += at_once) {
        struct word words[4];
        uint64_t to[4];

        UNROLL
        for (uint32_t j = 0; j < at_once; j++) {
            const uint64_t offset = p->begin + ((k + j) * HVD_CUDA_WARP + lane) * WORD_BYTES;
            const struct stretch s =
                stretch_of(t->args, piece_at(t->args, p, offset), offset, offset + WORD_BYTES);

            to[j] = 0;
            if (s.bytes == WORD_BYTES && s.from && s.to && (s.from | s.to) % WORD_BYTES == 0) {
                words[j] = load_word(s.from);
                to[j] = s.to;
                whole |= 1u << (k + j);
            }
        }
        UNROLL
        for (uint32_t j = 0; j < at_once; j++)
            if (to[j])
                store_word(to[j], apply_word(t, words[j]));
    }
    NO_UNROLL
    for (uint32_t k = 0; k < WORDS; k++)
        if (!(whole >> k & 1u))
            copy_parts(t, p, p->begin + (k * HVD_CUDA_WARP + lane) * WORD_BYTES);
}

/* --- Kernels ---------------------------------------------------------------------------------- */

/* As many as registers allow. Integers are rarely scaled: their code stays small, without words. */
INLINE uint32_t words_at_once(int kernel)
{
    if (kernel == HVD_CUDA_KERNEL_COPY)
        return MOST_AT_ONCE;
    return kernel == HVD_CUDA_KERNEL_INTEGERS ? 1 : 4;
}

INLINE void copy_tile(const struct hvd_cuda_args *args, int step, uint32_t at_once)
{
    const struct task t = {args, step, at_once};
    const uint32_t lane = threadIdx.x % HVD_CUDA_WARP;
    const uint32_t tile = blockIdx.x * HVD_CUDA_TILES_PER_BLOCK + threadIdx.x / HVD_CUDA_WARP;
    const uint64_t entry =
        args->table + args->n_pieces * sizeof(struct hvd_cuda_piece) + tile * sizeof(uint32_t);
    struct stretch s;
    struct pieces p;

    if (tile >= args->n_tiles)
        return;
    p.begin = (uint64_t)tile * HVD_CUDA_TILE_BYTES;
    p.first = LOAD(uint32_t, entry);
    p.last = LOAD(uint32_t, entry + sizeof(uint32_t));
    s = stretch_of(args, p.first, p.begin, p.begin + HVD_CUDA_TILE_BYTES);
    if (s.bytes < HVD_CUDA_TILE_BYTES && p.first < p.last)
        copy_mixed(&t, &p, lane);
    else if (!s.from)
        fill_units(&s, lane, HVD_CUDA_WARP);
    else if (s.to)
        copy_stretch(&t, s, lane);
}

#define KERNEL(ENUMERATOR, NAME, STEP)                                                             \
    GLOBAL(NAME)                                                                                   \
    {                                                                                              \
        copy_tile(&args, STEP, words_at_once(ENUMERATOR));                                         \
    }

HVD_CUDA_KERNELS(KERNEL)
