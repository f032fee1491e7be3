/* The loops of filters in C. `filters_plain.py` says what each does; the results are identical.
 *
 * Stable ABI from Python 3.11 on. Every length is checked here against every other one, so
 * a wrong call raises and never reads or writes outside a buffer. Loops run without the GIL.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One binary for every processor: the loader picks the widest clone that it can run. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) \
    && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

/* What a clone calls must become part of it, or it runs as for the oldest processor. */
#if defined(__GNUC__)
#define INSIDE static inline __attribute__((always_inline))
#else
#define INSIDE static inline
#endif

#define MOST_BITS ((long long)1 << 32)

/* ------------------------------------------------------------------ buffers */

/* How many items a buffer holds, or -1 when it does not hold whole, aligned ones. */
static Py_ssize_t items(const Py_buffer *buffer, Py_ssize_t size)
{
    const int good = buffer->len % size == 0 && (uintptr_t)buffer->buf % (uintptr_t)size == 0;
    return good ? buffer->len / size : -1;
}

static void release(Py_buffer *buffers, int count)
{
    for (int i = 0; i < count; i++)
        PyBuffer_Release(&buffers[i]);
}

static PyObject *refuse(Py_buffer *buffers, int count)
{
    release(buffers, count);
    PyErr_SetString(PyExc_ValueError, "The buffers must fit one another.");
    return NULL;
}

/* ------------------------------------------------------------------ SipHash-2-4 */

/* Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). The round is a macro, so
 * that it works on one id and on a vector of ids alike. */

#define TURN(x, by) ((x) << (by) | (x) >> (64 - (by)))

#define ROUND(a, b, c, d)                              \
    do {                                               \
        a += b, c += d;                                \
        b = TURN(b, 13), d = TURN(d, 16);              \
        b ^= a, d ^= c;                                \
        a = TURN(a, 32);                               \
        c += b, a += d;                                \
        b = TURN(b, 17), d = TURN(d, 21);              \
        b ^= c, d ^= a;                                \
        c = TURN(c, 32);                               \
    } while (0)

/* ``zero`` gives the type: a scalar is spread over all lanes of a vector. */
#define START(a, b, c, d, key, zero)                              \
    do {                                                          \
        a = (zero) ^ ((key)[0] ^ UINT64_C(0x736f6d6570736575));   \
        b = (zero) ^ ((key)[1] ^ UINT64_C(0x646f72616e646f6d));   \
        c = (zero) ^ ((key)[0] ^ UINT64_C(0x6c7967656e657261));   \
        d = (zero) ^ ((key)[1] ^ UINT64_C(0x7465646279746573));   \
    } while (0)

#define ABSORB(a, b, c, d, word)                       \
    do {                                               \
        d ^= word;                                     \
        ROUND(a, b, c, d);                             \
        ROUND(a, b, c, d);                             \
        a ^= word;                                     \
    } while (0)

#define FINISH(a, b, c, d)                             \
    do {                                               \
        c ^= 0xff;                                     \
        ROUND(a, b, c, d);                             \
        ROUND(a, b, c, d);                             \
        ROUND(a, b, c, d);                             \
        ROUND(a, b, c, d);                             \
        a ^= b ^ c ^ d;                                \
    } while (0)

/* Ids that are hashed side by side; one where the compiler has no vectors. */
#if defined(__GNUC__)
typedef uint64_t lane __attribute__((vector_size(64)));
#else
typedef uint64_t lane;
#endif
#define LANES ((int)(sizeof(lane) / 8))
#define UNEVEN 8 /* words that ids side by side may differ by: the short ones wait */

/* Swap the bytes where the highest comes first. */
INSIDE uint64_t little(uint64_t word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

INSIDE uint64_t load(const void *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return little(word);
}

/* The bytes after the whole words, and the length in the highest byte. */
INSIDE uint64_t last_word(const uint8_t *at, int64_t size)
{
    const int rest = (int)(size % 8);
    uint64_t word = 0;
    if (size >= 8) {
        /* Two shifts: with no rest they push out all 64 bits, which one may not. */
        word = load(at + size - 8) >> (56 - 8 * rest) >> 8;
    } else {
        for (int i = 0; i < rest; i++)
            word |= (uint64_t)at[i] << 8 * i;
    }
    return word | (uint64_t)size << 56;
}

INSIDE uint64_t hash_one(const uint8_t *at, int64_t size, const uint64_t *key)
{
    uint64_t a, b, c, d;
    START(a, b, c, d, key, (uint64_t)0);
    for (int64_t w = 0; w < size / 8; w++) {
        const uint64_t word = load(at + 8 * w);
        ABSORB(a, b, c, d, word);
    }
    const uint64_t last = last_word(at, size);
    ABSORB(a, b, c, d, last);
    FINISH(a, b, c, d);
    return a;
}

/* Ids side by side. They have ``fewest`` to ``most`` words, the last one included; an id that
 * has ended keeps its state. */
INSIDE void hash_several(const uint8_t *data, const int64_t *edges, int64_t fewest,
                         int64_t most, const uint64_t *key, uint64_t *out)
{
    const lane zero = {0};
    uint64_t last[LANES], words[LANES], going[LANES];
    lane a, b, c, d, word;
    START(a, b, c, d, key, zero);
    for (int k = 0; k < LANES; k++)
        last[k] = last_word(data + edges[k], edges[k + 1] - edges[k]);
    for (int64_t w = 0; w + 1 < fewest; w++) {
        for (int k = 0; k < LANES; k++)
            words[k] = load(data + edges[k] + 8 * w);
        memcpy(&word, words, sizeof word);
        ABSORB(a, b, c, d, word);
    }
    if (fewest == most) {
        memcpy(&word, last, sizeof word);
        ABSORB(a, b, c, d, word);
    } else {
        for (int k = 0; k < LANES; k++)
            last[k] = little(last[k]); /* back to bytes, to be loaded like the others */
        for (int64_t w = fewest - 1; w < most; w++) {
            lane on, a_ = a, b_ = b, c_ = c, d_ = d;
            for (int k = 0; k < LANES; k++) { /* choosing addresses needs no branch */
                const int64_t end = (edges[k + 1] - edges[k]) / 8;
                const uint8_t *in = data + edges[k] + (w < end ? 8 * w : 0);
                const void *at = w < end ? (const void *)in : (const void *)&last[k];
                words[k] = load(at);
                going[k] = (uint64_t)0 - (uint64_t)(w <= end);
            }
            memcpy(&word, words, sizeof word);
            memcpy(&on, going, sizeof on);
            ABSORB(a_, b_, c_, d_, word);
            a ^= (a ^ a_) & on;
            b ^= (b ^ b_) & on;
            c ^= (c ^ c_) & on;
            d ^= (d ^ d_) & on;
        }
    }
    FINISH(a, b, c, d);
    memcpy(out, &a, sizeof a);
}

/* Returns 0 for offsets that fall or leave the data. Each is read once: another thread that
 * writes to them can spoil the digests and nothing else. */
CLONES
static int hash_ids(const uint8_t *data, int64_t length, const int64_t *offsets,
                    Py_ssize_t count, const uint64_t *key, uint64_t *out)
{
    if (offsets[0] < 0 || offsets[0] > length) /* also when there are no ids */
        return 0;
    for (Py_ssize_t i = 0; i < count; i += LANES) {
        const int size = count - i < LANES ? (int)(count - i) : LANES;
        int64_t edges[LANES + 1], fewest = INT64_MAX, most = 0;
        memcpy(edges, offsets + i, (size_t)(size + 1) * sizeof edges[0]);
        if (edges[0] < 0 || edges[size] > length)
            return 0;
        for (int k = 0; k < size; k++) {
            if (edges[k + 1] < edges[k])
                return 0;
            const int64_t bytes = edges[k + 1] - edges[k];
            fewest = bytes / 8 + 1 < fewest ? bytes / 8 + 1 : fewest;
            most = bytes / 8 + 1 > most ? bytes / 8 + 1 : most;
        }
        if (size == LANES && most - fewest <= UNEVEN)
            hash_several(data, edges, fewest, most, key, out + i);
        else
            for (int k = 0; k < size; k++)
                out[i + k] = hash_one(data + edges[k], edges[k + 1] - edges[k], key);
    }
    return 1;
}

static PyObject *siphash(PyObject *self, PyObject *args)
{
    Py_buffer b[4];
    int good;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*w*", &b[0], &b[1], &b[2], &b[3]))
        return NULL;
    const Py_ssize_t count = items(&b[3], 8);
    if (count < 0 || items(&b[1], 8) != count + 1 || b[2].len != 16)
        return refuse(b, 4);
    const uint64_t key[2] = {load(b[2].buf), load((const uint8_t *)b[2].buf + 8)};
    Py_BEGIN_ALLOW_THREADS
    good = hash_ids(b[0].buf, b[0].len, b[1].buf, count, key, b[3].buf);
    Py_END_ALLOW_THREADS
    if (!good)
        return refuse(b, 4);
    release(b, 4);
    Py_RETURN_NONE;
}

CLONES
static void hash_words(const uint64_t *digests, Py_ssize_t count, const uint64_t *key,
                       uint64_t *out)
{
    const lane zero = {0}, length = zero ^ (uint64_t)8 << 56;
    for (Py_ssize_t i = 0; i < count; i += LANES) {
        const size_t size = 8 * (size_t)(count - i < LANES ? count - i : LANES);
        lane a, b, c, d, word = zero;
        memcpy(&word, digests + i, size);
        START(a, b, c, d, key, zero);
        ABSORB(a, b, c, d, word);
        ABSORB(a, b, c, d, length);
        FINISH(a, b, c, d);
        memcpy(out + i, &a, size);
    }
}

static PyObject *siphash_words(PyObject *self, PyObject *args)
{
    Py_buffer b[3];
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*w*", &b[0], &b[1], &b[2]))
        return NULL;
    const Py_ssize_t count = items(&b[0], 8);
    if (count < 0 || b[1].len != 16 || items(&b[2], 8) != count)
        return refuse(b, 3);
    const uint64_t key[2] = {load(b[1].buf), load((const uint8_t *)b[1].buf + 8)};
    Py_BEGIN_ALLOW_THREADS
    hash_words(b[0].buf, count, key, b[2].buf);
    Py_END_ALLOW_THREADS
    release(b, 3);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ bits of a filter */

#define AHEAD 64 /* columns that are asked for before the first is needed */

#if defined(__GNUC__)
#define EXPECT(word) __builtin_prefetch(word, 1)
#else
#define EXPECT(word) ((void)(word))
#endif

/* Memory is slow only for those who wait for it: ask for several words, then write to them. */
static void set_all(uint64_t *packed, const uint64_t *digests, Py_ssize_t count, uint64_t width)
{
    for (Py_ssize_t i = 0; i < count; i += AHEAD) {
        const int size = count - i < AHEAD ? (int)(count - i) : AHEAD;
        uint64_t columns[AHEAD];
        for (int k = 0; k < size; k++) {
            /* The high half of a product of 64 and 33 bits, from two that do not overflow:
             * it is below ``width`` for every digest. */
            const uint64_t digest = digests[i + k], low = (digest & UINT32_MAX) * width >> 32;
            columns[k] = ((digest >> 32) * width + low) >> 32;
            EXPECT(&packed[columns[k] / 64]);
        }
        for (int k = 0; k < size; k++)
            packed[columns[k] / 64] |= (uint64_t)1 << columns[k] % 64;
    }
}

static PyObject *set_bits(PyObject *self, PyObject *args)
{
    Py_buffer b[2];
    long long bits;
    (void)self;
    if (!PyArg_ParseTuple(args, "w*y*L", &b[0], &b[1], &bits))
        return NULL;
    const Py_ssize_t words = items(&b[0], 8), count = items(&b[1], 8);
    if (bits < 1 || bits > MOST_BITS || words != (bits + 63) / 64 || count < 0)
        return refuse(b, 2);
    Py_BEGIN_ALLOW_THREADS
    set_all(b[0].buf, b[1].buf, count, (uint64_t)bits);
    Py_END_ALLOW_THREADS
    release(b, 2);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ logos */

#define MOST_ROWS 20
#define TILE 32          /* words of a row worked on together: 2048 columns */
#define FEW 5            /* rows whose intersections are counted, instead of codes */
#define SPREAD 12        /* rows whose codes are counted in several tables */
#define GROUPS 3         /* groups of eight rows */

/* Sums of ones in four fields of 16 bits: they hold those of 4095 words. */
INSIDE uint64_t quarter_ones(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (word & UINT64_C(0x00ff00ff00ff00ff)) + (word >> 8 & UINT64_C(0x00ff00ff00ff00ff));
}

/* Add how many columns have ones in all rows of each set of rows; set s has row r for bit r. */
CLONES
static void count_meets(uint64_t (*restrict rows)[TILE], int count, int64_t *restrict sums)
{
    uint64_t meets[1 << FEW][TILE];
    for (int r = 0; r < count; r++)
        for (int s = 0; s < 1 << r; s++) {
            uint64_t *restrict both = meets[1 << r | s];
            const uint64_t *one = s ? meets[s] : rows[r];
            uint64_t sum = 0;
            for (int i = 0; i < TILE; i++) {
                both[i] = one[i] & rows[r][i];
                sum += quarter_ones(both[i]);
            }
            /* The product adds the four fields in the highest one: 2048 columns at most. */
            sums[1 << r | s] += (int64_t)(sum * UINT64_C(0x0001000100010001) >> 48);
        }
}

/* From sets of rows that all have ones to exact logos: those with row r set are taken away. */
static void settle(int64_t *sums, int count, int64_t *counts)
{
    for (int r = 0; r < count; r++)
        for (int s = 0; s < 1 << count; s++)
            if (!(s >> r & 1))
                sums[s] -= sums[s | 1 << r];
    for (int s = 0; s < 1 << count; s++)
        counts[s] += sums[s];
}

/* Swap the bits of x under ``mask << by`` with those of y under ``mask``. */
#define EXCHANGE(x, y, by, mask)                            \
    do {                                                    \
        const uint64_t other_ = ((x) >> (by) ^ (y)) & mask; \
        y ^= other_;                                        \
        x ^= other_ << (by);                                \
    } while (0)

#define ONES UINT64_C(0x5555555555555555)
#define TWOS UINT64_C(0x3333333333333333)
#define FOURS UINT64_C(0x0f0f0f0f0f0f0f0f)

/* Turn eight rows of bits into bytes: bit r of byte j of row k becomes bit 8 j + k of row r.
 * Columns leave their order, alike in all groups of rows; for counting that is as good. */
CLONES
static void gather(uint64_t (*rows)[TILE])
{
    for (int i = 0; i < TILE; i++) {
        uint64_t a = rows[0][i], b = rows[1][i], c = rows[2][i], d = rows[3][i];
        uint64_t e = rows[4][i], f = rows[5][i], g = rows[6][i], h = rows[7][i];
        EXCHANGE(a, b, 1, ONES);
        EXCHANGE(c, d, 1, ONES);
        EXCHANGE(e, f, 1, ONES);
        EXCHANGE(g, h, 1, ONES);
        EXCHANGE(a, c, 2, TWOS);
        EXCHANGE(b, d, 2, TWOS);
        EXCHANGE(e, g, 2, TWOS);
        EXCHANGE(f, h, 2, TWOS);
        EXCHANGE(a, e, 4, FOURS);
        EXCHANGE(b, f, 4, FOURS);
        EXCHANGE(c, g, 4, FOURS);
        EXCHANGE(d, h, 4, FOURS);
        rows[0][i] = a, rows[1][i] = b, rows[2][i] = c, rows[3][i] = d;
        rows[4][i] = e, rows[5][i] = f, rows[6][i] = g, rows[7][i] = h;
    }
}

#define BYTES (8 * TILE) /* words of a gathered group */

/* Codes of 16 bits from two groups of bytes, or of 32 bits from three. */
CLONES
static void join_two(const uint64_t *restrict low, const uint64_t *restrict high,
                     uint64_t *restrict codes)
{
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    for (int i = 0; i < BYTES; i++) {
        codes[i] = (low[i] & even) | (high[i] & even) << 8;
        codes[BYTES + i] = (low[i] >> 8 & even) | (high[i] & ~even);
    }
}

CLONES
static void join_three(const uint64_t *restrict low, const uint64_t *restrict high,
                       const uint64_t *restrict top, uint64_t *restrict codes)
{
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff), half = UINT64_C(0x0000ffff0000ffff);
    for (int i = 0; i < BYTES; i++) {
        const uint64_t left = (low[i] & even) | (high[i] & even) << 8, more = top[i] & even;
        const uint64_t right = (low[i] >> 8 & even) | (high[i] & ~even), rest = top[i] >> 8 & even;
        codes[i] = (left & half) | (more & half) << 16;
        codes[BYTES + i] = (left >> 16 & half) | (more & ~half);
        codes[2 * BYTES + i] = (right & half) | (rest & half) << 16;
        codes[3 * BYTES + i] = (right >> 16 & half) | (rest & ~half);
    }
}

/* Neighbours in a word are counted in tables of their own: equal ones need not wait. */
static void count_8(const uint64_t *codes, uint32_t *tables, size_t size)
{
    for (int i = 0; i < BYTES; i++)
        for (int k = 0; k < 8; k++)
            tables[(size_t)k * size + (codes[i] >> 8 * k & 0xff)]++;
}

static void count_16(const uint64_t *codes, uint32_t *tables, size_t size)
{
    for (int i = 0; i < 2 * BYTES; i++)
        for (int k = 0; k < 4; k++)
            tables[(size_t)k * size + (codes[i] >> 16 * k & 0xffff)]++;
}

static void count_16_once(const uint64_t *codes, int64_t *counts)
{
    for (int i = 0; i < 2 * BYTES; i++)
        for (int k = 0; k < 4; k++)
            counts[codes[i] >> 16 * k & 0xffff]++;
}

static void count_32(const uint64_t *codes, int64_t *counts)
{
    for (int i = 0; i < 4 * BYTES; i++) {
        counts[codes[i] & UINT32_MAX]++;
        counts[codes[i] >> 32]++;
    }
}

/* Copy the words of all rows from ``at`` on; what is beyond the last column becomes 0. */
static void fetch(const Py_buffer *rows, int count, int64_t at, int64_t bits,
                  uint64_t (*tile)[TILE])
{
    const int64_t words = (bits + 63) / 64 - at;
    for (int r = 0; r < count; r++) {
        const uint64_t *row = (const uint64_t *)rows[r].buf + at;
        if (words >= TILE) {
            memcpy(tile[r], row, sizeof tile[r]);
        } else {
            memset(tile[r], 0, sizeof tile[r]);
            memcpy(tile[r], row, (size_t)words * 8);
        }
        if (words <= TILE && bits % 64)
            tile[r][words - 1] &= ((uint64_t)1 << bits % 64) - 1;
    }
}

/* Returns 0 when there is no memory for the tables. */
static int count_all(const Py_buffer *rows, int count, int64_t bits, int64_t *counts)
{
    uint64_t tile[8 * GROUPS][TILE] = {{0}}, codes[4 * BYTES];
    int64_t sums[1 << FEW] = {0}, at = 0;
    /* Not a power of two: processors confuse addresses that are 4096 bytes apart. */
    const size_t size = (count <= 8 ? 256 : (size_t)1 << count) + 16, copies = count <= 8 ? 8 : 4;
    uint32_t *tables = NULL;
    if (count > FEW && count <= SPREAD) {
        /* At most 2**32 columns, spread evenly: 32 bits are enough for each table. */
        tables = calloc(copies * size, sizeof *tables);
        if (!tables)
            return 0;
    }
    for (; at < (bits + 63) / 64; at += TILE) {
        fetch(rows, count, at, bits, tile);
        if (count <= FEW) {
            count_meets(tile, count, sums);
            continue;
        }
        for (int r = 0; r < count; r += 8)
            gather(tile + r);
        if (count <= 8) {
            count_8((const uint64_t *)tile, tables, size);
        } else if (count <= 16) {
            join_two((const uint64_t *)tile, (const uint64_t *)(tile + 8), codes);
            if (tables)
                count_16(codes, tables, size);
            else
                count_16_once(codes, counts);
        } else {
            join_three((const uint64_t *)tile, (const uint64_t *)(tile + 8),
                       (const uint64_t *)(tile + 16), codes);
            count_32(codes, counts);
        }
        for (int r = count; r < 8 * GROUPS; r++) /* gathering has filled the empty rows */
            memset(tile[r], 0, sizeof tile[r]);
    }
    if (count <= FEW) {
        sums[0] = bits;
        settle(sums, count, counts);
        return 1;
    }
    if (tables)
        for (size_t copy = 0; copy < copies; copy++)
            for (size_t code = 0; code < (size_t)1 << count; code++)
                counts[code] += tables[copy * size + code];
    free(tables);
    counts[0] -= 64 * at - bits; /* the columns that were made up to fill the last tile */
    return 1;
}

static PyObject *count_logos(PyObject *self, PyObject *args)
{
    Py_buffer rows[MOST_ROWS + 1]; /* and the counts */
    PyObject *given;
    long long bits;
    int good;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!Lw*", &PyTuple_Type, &given, &bits, &rows[0]))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(given);
    if (count < 1 || count > MOST_ROWS || bits < 0 || bits > MOST_BITS
        || items(&rows[0], 8) != (Py_ssize_t)1 << count)
        return refuse(rows, 1);
    for (int r = 0; r < (int)count; r++) {
        if (PyObject_GetBuffer(PyTuple_GetItem(given, r), &rows[1 + r], PyBUF_SIMPLE) < 0) {
            release(rows, 1 + r);
            return NULL;
        }
        if (items(&rows[1 + r], 8) != (bits + 63) / 64)
            return refuse(rows, 2 + r);
    }
    Py_BEGIN_ALLOW_THREADS
    good = count_all(rows + 1, (int)count, bits, rows[0].buf);
    Py_END_ALLOW_THREADS
    release(rows, 1 + (int)count);
    if (!good)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ module */

static PyMethodDef methods[] = {
    {"siphash", siphash, METH_VARARGS, "Hash the ids in a column."},
    {"siphash_words", siphash_words, METH_VARARGS, "Hash digests again."},
    {"set_bits", set_bits, METH_VARARGS, "Set the bit of each digest's column."},
    {"count_logos", count_logos, METH_VARARGS, "Count the logos of stacked rows."},
    {NULL, NULL, 0, NULL},
};

/* Raised whenever a loop is added or means something else: an old build is then not used. */
#define EDITION 1

static int tell_edition(PyObject *self)
{
    return PyModule_AddIntConstant(self, "EDITION", EDITION);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, tell_edition},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_filters", "The loops of filters in C; see filters_plain.py.", 0,
    methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__filters(void)
{
    return PyModuleDef_Init(&module);
}
