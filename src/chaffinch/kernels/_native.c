/* The hot loops in C. `plain.py` says what each does; the results are identical.
 *
 * Stable ABI from Python 3.11 on. Every length is checked here against every other one, so
 * a wrong call raises and never reads or writes outside a buffer. Loops run without the GIL.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* One binary for every processor: the loader picks the widest clone that it can run. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) \
    && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#define LINE 16          /* 64-bit words in two cache lines: the unit of vector loops */
#define GUIDE 4096       /* entries of a guide: the highest 12 bits of a word */
#define LONGEST ((int64_t)1 << 50)
#define LARGEST_DIGIT ((int64_t)1 << 12)

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

/* ------------------------------------------------------------------ dense flips */

CLONES
static void compare_tile(const uint64_t *restrict planes, const uint8_t *restrict digits,
                         Py_ssize_t depth, Py_ssize_t size, uint64_t *restrict below,
                         uint64_t *restrict undecided)
{
    Py_ssize_t i = 0;
    for (; i + LINE <= size; i += LINE) {
        uint64_t less[LINE] = {0}, open[LINE];
        for (int k = 0; k < LINE; k++)
            open[k] = ~(uint64_t)0;
        for (Py_ssize_t d = 0; d < depth; d++) {
            const uint64_t *plane = planes + d * size + i;
            const uint64_t digit = digits[d] ? ~(uint64_t)0 : 0;
            for (int k = 0; k < LINE; k++) {
                less[k] |= open[k] & ~plane[k] & digit;
                open[k] &= ~(plane[k] ^ digit);
            }
        }
        for (int k = 0; k < LINE; k++) {
            below[i + k] = less[k];
            undecided[i + k] = open[k];
        }
    }
    for (; i < size; i++) {
        uint64_t less = 0, open = ~(uint64_t)0;
        for (Py_ssize_t d = 0; d < depth; d++) {
            const uint64_t plane = planes[d * size + i];
            const uint64_t digit = digits[d] ? ~(uint64_t)0 : 0;
            less |= open & ~plane & digit;
            open &= ~(plane ^ digit);
        }
        below[i] = less;
        undecided[i] = open;
    }
}

static PyObject *compare_planes(PyObject *self, PyObject *args)
{
    Py_buffer b[4];
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*w*w*", &b[0], &b[1], &b[2], &b[3]))
        return NULL;
    const Py_ssize_t planes = items(&b[0], 8), depth = b[1].len, size = items(&b[2], 8);
    if (planes < 0 || size < 0 || items(&b[3], 8) != size || depth > 64
        || (depth && planes / depth != size) || planes != depth * size)
        return refuse(b, 4);
    Py_BEGIN_ALLOW_THREADS
    compare_tile(b[0].buf, b[1].buf, depth, size, b[2].buf, b[3].buf);
    Py_END_ALLOW_THREADS
    release(b, 4);
    Py_RETURN_NONE;
}

static PyObject *collect_open(PyObject *self, PyObject *args)
{
    Py_buffer b[2];
    Py_ssize_t kept = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*w*", &b[0], &b[1]))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8);
    if (size < 0 || items(&b[1], 8) < size)
        return refuse(b, 2);
    Py_BEGIN_ALLOW_THREADS
    const uint64_t *undecided = b[0].buf;
    int64_t *lanes = b[1].buf;
    for (Py_ssize_t i = 0; i < size; i++) {
        lanes[kept] = i; /* kept <= i < size */
        kept += undecided[i] != 0;
    }
    Py_END_ALLOW_THREADS
    release(b, 2);
    return PyLong_FromSsize_t(kept);
}

static PyObject *refine(PyObject *self, PyObject *args)
{
    Py_buffer b[4];
    int digit;
    Py_ssize_t kept = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*iw*w*w*", &b[0], &digit, &b[1], &b[2], &b[3]))
        return NULL;
    const Py_ssize_t open = items(&b[0], 8), size = items(&b[1], 8);
    if (open < 0 || size < 0 || items(&b[2], 8) != size || items(&b[3], 8) < open)
        return refuse(b, 4);
    Py_BEGIN_ALLOW_THREADS
    const uint64_t *plane = b[0].buf;
    uint64_t *below = b[1].buf, *undecided = b[2].buf;
    int64_t *lanes = b[3].buf;
    const uint64_t mask = digit ? ~(uint64_t)0 : 0;
    for (Py_ssize_t i = 0; i < open; i++) {
        const int64_t lane = lanes[i];
        if (lane < 0 || lane >= size) {
            kept = -1;
            break;
        }
        const uint64_t still = undecided[lane];
        below[lane] |= still & ~plane[i] & mask;
        undecided[lane] = still & ~(plane[i] ^ mask);
        lanes[kept] = lane;
        kept += undecided[lane] != 0;
    }
    Py_END_ALLOW_THREADS
    if (kept < 0)
        return refuse(b, 4);
    release(b, 4);
    return PyLong_FromSsize_t(kept);
}

/* ------------------------------------------------------------------ sparse flips */

static Py_ssize_t search(const uint64_t *restrict drawn, Py_ssize_t size,
                         const uint64_t *restrict thresholds, const uint16_t *restrict guide,
                         int64_t *restrict counts)
{
    Py_ssize_t ties = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        const uint64_t word = drawn[i];
        Py_ssize_t j = guide[word >> 52];
        /* Most words need at most two steps, taken without a branch. The 0 at the end of
         * the thresholds is above no word, so no step leaves them. */
        j += word < thresholds[j];
        j += word < thresholds[j];
        while (word < thresholds[j])
            j++;
        const int tie = word == thresholds[j];
        ties += tie;
        counts[i] = tie ? -1 : (int64_t)j;
    }
    return ties;
}

CLONES
static unsigned largest(const uint16_t *guide)
{
    uint16_t most = 0;
    for (int i = 0; i < GUIDE; i++)
        most = guide[i] > most ? guide[i] : most;
    return most;
}

static PyObject *lookup(PyObject *self, PyObject *args)
{
    Py_buffer b[4];
    Py_ssize_t ties;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*w*", &b[0], &b[1], &b[2], &b[3]))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8), length = items(&b[1], 8);
    if (size < 0 || length < 1 || items(&b[2], 2) != GUIDE || items(&b[3], 8) != size
        || ((const uint64_t *)b[1].buf)[length - 1] != 0
        || (Py_ssize_t)largest(b[2].buf) >= length)
        return refuse(b, 4);
    Py_BEGIN_ALLOW_THREADS
    ties = search(b[0].buf, size, b[1].buf, b[2].buf, b[3].buf);
    Py_END_ALLOW_THREADS
    release(b, 4);
    return PyLong_FromSsize_t(ties);
}

static int64_t least(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

/* Both return how many positions were written, or -1 for a digit out of range. No sum can
 * wrap: digits are at most 2**12, weights and the end at most 2**50. */

/* Far from the end nothing needs to be cut off. */
static inline Py_ssize_t stride(const int64_t *restrict counts,
                                const int64_t *restrict weights,
                                Py_ssize_t levels, Py_ssize_t size, int64_t escape,
                                int64_t *at, int64_t *restrict found)
{
    const int64_t *top = counts + (levels - 1) * size;
    const int64_t top_weight = weights[levels - 1];
    int64_t here = *at, wrong = 0;
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        int64_t gap = top[i] * top_weight;
        wrong |= top[i] | (escape - top[i]);
        for (Py_ssize_t l = 0; l + 1 < levels; l++) {
            const int64_t digit = counts[l * size + i];
            wrong |= digit | (LARGEST_DIGIT - digit);
            gap += top[i] < escape ? digit * weights[l] : 0;
        }
        here += gap;
        found[kept] = here;
        kept += top[i] < escape;
        here += top[i] < escape;
    }
    *at = here;
    return wrong < 0 ? -1 : kept;
}

static Py_ssize_t step(const int64_t *restrict counts, const int64_t *restrict weights,
                       Py_ssize_t levels, Py_ssize_t size, int64_t escape, int64_t *at,
                       int64_t end, int64_t *restrict found)
{
    const int64_t *top = counts + (levels - 1) * size;
    const int64_t top_weight = weights[levels - 1];
    int64_t here = *at;
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        if (top[i] < 0 || top[i] > escape)
            return -1;
        int64_t gap = least(top[i] * top_weight, end);
        if (top[i] < escape) {
            for (Py_ssize_t l = 0; l + 1 < levels; l++) {
                const int64_t digit = counts[l * size + i];
                if (digit < 0 || digit > LARGEST_DIGIT)
                    return -1;
                gap = least(gap + digit * weights[l], end);
            }
            here = least(here + gap, end); /* the success itself */
            found[kept] = here;
            kept += here < end;
            here++;
        } else {
            here = least(here + gap, end + 1);
        }
    }
    *at = least(here, end + 1);
    return kept;
}

/* The longest gap and its success, or more than any end. */
static int64_t longest_step(const int64_t *weights, Py_ssize_t levels, int64_t escape)
{
    int64_t sum = least(escape * weights[levels - 1], LONGEST) + 1;
    for (Py_ssize_t l = 0; l + 1 < levels; l++)
        sum = least(sum + LARGEST_DIGIT * weights[l], LONGEST + 1);
    return sum;
}

static PyObject *walk(PyObject *self, PyObject *args)
{
    Py_buffer b[3];
    long long escape, start, end;
    Py_ssize_t kept = -1;
    int64_t at;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*L(LL)w*", &b[0], &b[1], &escape, &start, &end, &b[2]))
        return NULL;
    const Py_ssize_t total = items(&b[0], 8), levels = items(&b[1], 8);
    const int64_t *weights = b[1].buf;
    int good = total >= 0 && levels >= 1 && total % levels == 0
        && items(&b[2], 8) >= total / levels && escape >= 0 && escape <= LARGEST_DIGIT
        && start >= 0 && start <= end && end <= LONGEST;
    for (Py_ssize_t l = 0; good && l < levels; l++)
        good = weights[l] >= 0 && weights[l] <= LONGEST;
    if (!good)
        return refuse(b, 3);
    at = start;
    Py_BEGIN_ALLOW_THREADS
    const Py_ssize_t size = total / levels;
    const int far = size <= (end - start) / longest_step(weights, levels, escape);
    if (far && levels == 1) /* a constant here makes a tight loop there */
        kept = stride(b[0].buf, weights, 1, size, escape, &at, b[2].buf);
    else if (far)
        kept = stride(b[0].buf, weights, levels, size, escape, &at, b[2].buf);
    else
        kept = step(b[0].buf, weights, levels, size, escape, &at, end, b[2].buf);
    Py_END_ALLOW_THREADS
    if (kept < 0)
        return refuse(b, 3);
    release(b, 3);
    return Py_BuildValue("nL", kept, (long long)at);
}

/* Look up and walk at once, far from the end, where a gap is one digit. */
static Py_ssize_t stride_looked_up(const uint64_t *restrict drawn, Py_ssize_t size,
                                   const uint64_t *restrict thresholds,
                                   const uint16_t *restrict guide, int64_t escape, int64_t *at,
                                   int64_t *restrict found)
{
    int64_t here = *at;
    Py_ssize_t kept = 0, ties = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        const uint64_t word = drawn[i];
        int64_t j = guide[word >> 52];
        j += word < thresholds[j];
        while (word < thresholds[j])
            j++;
        ties += word == thresholds[j];
        here += j;
        found[kept] = here;
        kept += j < escape;
        here += j < escape;
    }
    *at = here;
    return ties ? -1 : kept;
}

static PyObject *leap(PyObject *self, PyObject *args)
{
    Py_buffer b[4];
    long long start, end;
    Py_ssize_t kept = -1;
    int64_t at;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*(LL)w*", &b[0], &b[1], &b[2], &start, &end, &b[3]))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8), length = items(&b[1], 8);
    if (size < 0 || length < 1 || length > LARGEST_DIGIT + 1 || items(&b[2], 2) != GUIDE
        || items(&b[3], 8) < size || ((const uint64_t *)b[1].buf)[length - 1] != 0
        || (Py_ssize_t)largest(b[2].buf) >= length || start < 0 || start > end || end > LONGEST)
        return refuse(b, 4);
    at = start;
    if (size <= (end - start) / length) { /* a gap and its success are at most that long */
        Py_BEGIN_ALLOW_THREADS
        kept = stride_looked_up(b[0].buf, size, b[1].buf, b[2].buf, length - 1, &at, b[3].buf);
        Py_END_ALLOW_THREADS
    }
    release(b, 4);
    return Py_BuildValue("nL", kept, (long long)at);
}

static PyObject *xor_positions(PyObject *self, PyObject *args)
{
    Py_buffer b[2];
    int good = 1;
    (void)self;
    if (!PyArg_ParseTuple(args, "w*y*", &b[0], &b[1]))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8), count = items(&b[1], 8);
    if (size < 0 || count < 0)
        return refuse(b, 2);
    Py_BEGIN_ALLOW_THREADS
    uint64_t *bits = b[0].buf;
    const int64_t *positions = b[1].buf;
    for (Py_ssize_t i = 0; i < count; i++) {
        const uint64_t position = (uint64_t)positions[i]; /* negative: very large */
        if (position / 64 >= (uint64_t)size) {
            good = 0;
            break;
        }
        bits[position / 64] ^= (uint64_t)1 << position % 64;
    }
    Py_END_ALLOW_THREADS
    if (!good)
        return refuse(b, 2);
    release(b, 2);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ one-hot records */

/* Close columns until one ends after ``position``; returns it, or -1 for bounds that are not
 * those of so many records. A record's own bit takes its slot in the order of the codes. */
static Py_ssize_t close_columns(int64_t position, const int64_t *bounds, const uint8_t *hidden,
                                uint32_t *used, int64_t *sent, Py_ssize_t column,
                                Py_ssize_t values, Py_ssize_t records, uint32_t slots)
{
    for (; column < values && position >= bounds[column + 1]; column++) {
        const int64_t first = records * (int64_t)column - bounds[column];
        const int64_t stop = records * (int64_t)(column + 1) - bounds[column + 1];
        int64_t kept = 0;
        if (first < 0 || stop < first || stop > records)
            return -1;
        for (int64_t record = first; record < stop; record++) {
            const uint32_t before = used[record];
            const int keep = !hidden[record] && before < slots;
            used[record] = before + (uint32_t)keep;
            kept += keep;
        }
        sent[column] += kept;
    }
    return column;
}

/* Take the positions from ``start`` on, as long as they are less than ``width`` further;
 * returns the first that is not, or is before the start. */
static inline Py_ssize_t place_run(const int64_t *restrict positions, Py_ssize_t i,
                                   Py_ssize_t size, int64_t start, int64_t width,
                                   uint32_t *restrict used, uint32_t slots, Py_ssize_t *lost)
{
    Py_ssize_t over = 0;
    for (; i < size; i++) {
        const uint64_t at = (uint64_t)(positions[i] - start);
        if (at >= (uint64_t)width)
            break;
        const uint32_t before = used[at];
        used[at] = before + (before < slots);
        over += before >= slots;
    }
    *lost += over;
    return i;
}

/* Returns the column reached, or -1 for a position or bounds out of order. */
static Py_ssize_t place_all(const int64_t *restrict positions, Py_ssize_t size,
                            const int64_t *restrict bounds, const uint8_t *restrict hidden,
                            uint32_t *restrict used, int64_t *restrict sent, Py_ssize_t column,
                            Py_ssize_t values, Py_ssize_t records, uint32_t slots)
{
    for (Py_ssize_t i = 0; i < size;) {
        column = close_columns(positions[i], bounds, hidden, used, sent, column, values, records,
                               slots);
        if (column < 0 || column == values)
            return column;
        const int64_t start = bounds[column], end = bounds[column + 1];
        const int64_t own = records * (int64_t)column - start, width = records - (end - start);
        if (positions[i] < start || own < 0 || width < 0 || own > records - width)
            return -1;
        /* The zeros before the records that hold this code, and those after them. */
        const Py_ssize_t first = i;
        Py_ssize_t lost = 0;
        i = place_run(positions, i, size, start, own, used, slots, &lost);
        i = place_run(positions, i, size, start + own, end - start - own, used + own + width,
                      slots, &lost);
        sent[column] += i - first - lost;
    }
    return column;
}

static PyObject *place(PyObject *self, PyObject *args)
{
    Py_buffer b[5];
    Py_ssize_t column;
    unsigned int slots;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*(y*w*w*)nI", &b[0], &b[1], &b[2], &b[3], &b[4], &column,
                          &slots))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8), values = items(&b[4], 8), records = b[2].len;
    if (size < 0 || values < 1 || items(&b[1], 8) != values + 1 || items(&b[3], 4) != records
        || column < 0 || column > values || records > LONGEST / (values + 1))
        return refuse(b, 5);
    Py_BEGIN_ALLOW_THREADS
    column = place_all(b[0].buf, size, b[1].buf, b[2].buf, b[3].buf, b[4].buf, column, values,
                       records, slots);
    Py_END_ALLOW_THREADS
    if (column < 0)
        return refuse(b, 5);
    release(b, 5);
    return PyLong_FromSsize_t(column);
}

/* Sums of bits, of pairs, of fours, of bytes: no processor is without these. */
static inline uint64_t ones(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return word * UINT64_C(0x0101010101010101) >> 56;
}

CLONES
static void count_rows(const uint64_t *restrict words, Py_ssize_t rows, Py_ssize_t width,
                       int64_t *restrict counts)
{
    for (Py_ssize_t row = 0; row < rows; row++) {
        uint64_t sum = 0;
        for (Py_ssize_t i = 0; i < width; i++)
            sum += ones(words[row * width + i]);
        counts[row] = (int64_t)sum;
    }
}

static PyObject *row_ones(PyObject *self, PyObject *args)
{
    Py_buffer b[2];
    (void)self;
    if (!PyArg_ParseTuple(args, "y*w*", &b[0], &b[1]))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8), rows = items(&b[1], 8);
    if (size < 0 || rows < 0 || (rows ? size % rows : size))
        return refuse(b, 2);
    Py_BEGIN_ALLOW_THREADS
    count_rows(b[0].buf, rows, rows ? size / rows : 0, b[1].buf);
    Py_END_ALLOW_THREADS
    release(b, 2);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ histogram */

#define SMALL 2048      /* bins that are counted four times over, to break chains of stores */
#define MOST_CODES ((Py_ssize_t)1 << 30) /* codes before 32-bit counts are added to the rest */

/* Each code is read once, checked and counted: another thread that writes to the codes can
 * spoil the counts and nothing else. Both return how many codes they took before a bad one. */

static Py_ssize_t count_large(const uint32_t *codes, Py_ssize_t size, int64_t *counts,
                              Py_ssize_t bins, int64_t by)
{
    for (Py_ssize_t i = 0; i < size; i++) {
        const uint64_t code = codes[i];
        if (code >= (uint64_t)bins)
            return i;
        counts[code] += by;
    }
    return size;
}

static Py_ssize_t count_small(const uint32_t *codes, Py_ssize_t size, int64_t *counts,
                              Py_ssize_t bins)
{
    uint32_t parts[4][SMALL] = {{0}};
    Py_ssize_t i = 0;
    for (; i + 4 <= size; i += 4) {
        const uint32_t a = codes[i], b = codes[i + 1], c = codes[i + 2], d = codes[i + 3];
        const uint32_t most = (uint32_t)bins;
        if (a >= most || b >= most || c >= most || d >= most)
            break;
        parts[0][a]++;
        parts[1][b]++;
        parts[2][c]++;
        parts[3][d]++;
    }
    for (Py_ssize_t bin = 0; bin < bins; bin++)
        for (int part = 0; part < 4; part++)
            counts[bin] += parts[part][bin];
    return i + count_large(codes + i, size - i < 4 ? size - i : 4, counts, bins, 1);
}

/* Returns 1 for a code that is too large, with the counts as they were. */
static int count(const uint32_t *codes, Py_ssize_t size, int64_t *counts, Py_ssize_t bins)
{
    for (Py_ssize_t at = 0; at < size;) {
        const Py_ssize_t length = size - at < MOST_CODES ? size - at : MOST_CODES;
        const Py_ssize_t taken = bins > SMALL ? count_large(codes + at, length, counts, bins, 1)
                                              : count_small(codes + at, length, counts, bins);
        at += taken;
        if (taken < length) {
            count_large(codes, at, counts, bins, -1);
            return 1;
        }
    }
    return 0;
}

static PyObject *histogram(PyObject *self, PyObject *args)
{
    Py_buffer b[2];
    int bad = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*w*", &b[0], &b[1]))
        return NULL;
    const Py_ssize_t size = items(&b[0], 4), bins = items(&b[1], 8);
    if (size < 0 || bins < 1)
        return refuse(b, 2);
    Py_BEGIN_ALLOW_THREADS
    bad = count(b[0].buf, size, b[1].buf, bins);
    Py_END_ALLOW_THREADS
    release(b, 2);
    return PyLong_FromLong(bad);
}

/* ------------------------------------------------------------------ positional popcount */

#define PLANES 16       /* vertical counters: sums of up to 2**16 - 1 rows */
#define MOST_HELD ((1 << PLANES) - 1)
#define GROUP 16        /* rows that one tree of carry-save adders takes */
#define LOWER 8         /* planes that are added to first: they fit registers */
#define MOST_LOWER 240  /* rows, in whole groups, whose sums fit the lower planes */
#define NEAR 8192       /* bytes read between two visits to one line: almost in order */
#define STRIP 64        /* words of a row worked on together */

#if defined(__GNUC__)
typedef uint64_t lane __attribute__((vector_size(8 * LINE)));
#else
typedef uint64_t lane;
#endif
#define WORDS ((Py_ssize_t)(sizeof(lane) / 8))

/* Rows of bytes may start anywhere. */
#define LOAD(to, row) memcpy(&(to), at + (row) * stride, sizeof(to))

#define ADD(high, low, x, y)                  \
    do {                                      \
        const lane sum_ = low ^ (x);          \
        high = (low & (x)) | (sum_ & (y));    \
        low = sum_ ^ (y);                     \
    } while (0)

#define PAIR(high, row)                       \
    do {                                      \
        lane x_, y_;                          \
        LOAD(x_, row);                        \
        LOAD(y_, (row) + 1);                  \
        ADD(high, one, x_, y_);               \
    } while (0)

#define EIGHT(high, row)                      \
    do {                                      \
        lane two_a, two_b, four_a, four_b;    \
        PAIR(two_a, row);                     \
        PAIR(two_b, (row) + 2);               \
        ADD(four_a, two, two_a, two_b);       \
        PAIR(two_a, (row) + 4);               \
        PAIR(two_b, (row) + 6);               \
        ADD(four_b, two, two_a, two_b);       \
        ADD(high, four, four_a, four_b);      \
    } while (0)

#define CARRY(plane)                          \
    do {                                      \
        const lane both_ = plane & carry;     \
        plane ^= carry;                       \
        carry = both_;                        \
    } while (0)

/* Harley-Seal: add whole groups of rows to the lower planes. */
CLONES
static void add_groups(const uint8_t *rows, Py_ssize_t stride, Py_ssize_t size,
                       Py_ssize_t width, uint64_t (*lower)[STRIP])
{
    for (Py_ssize_t i = 0; i + WORDS <= width; i += WORDS) {
        const uint8_t *at = rows + 8 * i;
        lane one, two, four, eight, p16, p32, p64, p128, carry;
        memcpy(&one, &lower[0][i], sizeof carry);
        memcpy(&two, &lower[1][i], sizeof carry);
        memcpy(&four, &lower[2][i], sizeof carry);
        memcpy(&eight, &lower[3][i], sizeof carry);
        memcpy(&p16, &lower[4][i], sizeof carry);
        memcpy(&p32, &lower[5][i], sizeof carry);
        memcpy(&p64, &lower[6][i], sizeof carry);
        memcpy(&p128, &lower[7][i], sizeof carry);
        for (Py_ssize_t row = 0; row < size; row += GROUP, at += GROUP * stride) {
            lane eight_a, eight_b;
            EIGHT(eight_a, 0);
            EIGHT(eight_b, 8);
            ADD(carry, eight, eight_a, eight_b);
            CARRY(p16);
            CARRY(p32);
            CARRY(p64);
            CARRY(p128);
        }
        memcpy(&lower[0][i], &one, sizeof carry);
        memcpy(&lower[1][i], &two, sizeof carry);
        memcpy(&lower[2][i], &four, sizeof carry);
        memcpy(&lower[3][i], &eight, sizeof carry);
        memcpy(&lower[4][i], &p16, sizeof carry);
        memcpy(&lower[5][i], &p32, sizeof carry);
        memcpy(&lower[6][i], &p64, sizeof carry);
        memcpy(&lower[7][i], &p128, sizeof carry);
    }
}

/* Move the lower planes into the full counters. */
CLONES
static void merge(uint64_t (*restrict lower)[STRIP], uint64_t (*restrict planes)[STRIP],
                  Py_ssize_t width)
{
    for (Py_ssize_t i = 0; i < width; i++) {
        uint64_t carry = 0;
        for (int p = 0; p < PLANES; p++) {
            const uint64_t left = planes[p][i], right = p < LOWER ? lower[p][i] : 0;
            planes[p][i] = left ^ right ^ carry;
            carry = (left & right) | ((left ^ right) & carry);
        }
    }
    memset(lower, 0, LOWER * sizeof lower[0]);
}

static void add_row(const uint8_t *row, Py_ssize_t width, uint64_t (*lower)[STRIP])
{
    for (Py_ssize_t i = 0; i < width; i++) {
        uint64_t carry;
        memcpy(&carry, row + 8 * i, sizeof carry);
        for (int p = 0; p < LOWER && carry; p++) {
            const uint64_t before = lower[p][i];
            lower[p][i] = before ^ carry;
            carry &= before;
        }
    }
}

/* Add eight planes, the lowest worth ``1 << shift``, to the counts, and clear them. Bit b of
 * byte k counts for position 8 k + b; a shift brings bit b of all bytes to their bottoms. */
CLONES
static void spill(uint64_t (*restrict planes)[STRIP], Py_ssize_t width, int shift,
                  int64_t *restrict counts)
{
    const uint64_t bottoms = UINT64_C(0x0101010101010101);
    for (Py_ssize_t i = 0; i < width; i++) {
        uint8_t sums[8][8];
        for (int b = 0; b < 8; b++) {
            uint64_t sum = 0;
            for (int p = 0; p < 8; p++)
                sum |= (planes[p][i] >> b & bottoms) << p;
            memcpy(sums[b], &sum, 8);
        }
        for (int k = 0; k < 8; k++)
            for (int b = 0; b < 8; b++)
                counts[64 * i + 8 * k + b] += (int64_t)sums[b][k] << shift;
    }
    memset(planes, 0, 8 * sizeof planes[0]);
}

static void count_strip(const uint8_t *at, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t width,
                        int64_t *counts)
{
    uint64_t lower[LOWER][STRIP] = {{0}}, planes[PLANES][STRIP] = {{0}};
    const Py_ssize_t near = stride < NEAR / GROUP ? NEAR / stride / GROUP * GROUP : GROUP;
    Py_ssize_t in_lower = 0, in_planes = 0;
    while (size >= GROUP) {
        Py_ssize_t taken = size < near ? size / GROUP * GROUP : near;
        taken = taken < MOST_LOWER - in_lower ? taken : MOST_LOWER - in_lower;
        add_groups(at, stride, taken, width, lower);
        at += taken * stride;
        size -= taken;
        in_lower += taken;
        if (in_lower == MOST_LOWER && size > 0) {
            if (in_planes + MOST_LOWER > MOST_HELD) {
                spill(planes, width, 0, counts);
                spill(planes + 8, width, 8, counts);
                in_planes = 0;
            }
            merge(lower, planes, width);
            in_planes += MOST_LOWER;
            in_lower = 0;
        }
    }
    for (; size > 0; size--, at += stride) /* at most 15 more: 255 fit the lower planes */
        add_row(at, width, lower);
    spill(lower, width, 0, counts);
    if (in_planes) {
        spill(planes, width, 0, counts);
        spill(planes + 8, width, 8, counts);
    }
}

static void count_bits(const uint8_t *rows, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t width,
                       int64_t *counts)
{
    for (Py_ssize_t left = 0; left < width; left += STRIP) {
        const Py_ssize_t strip = width - left < STRIP ? width - left : STRIP;
        count_strip(rows + 8 * left, stride, size, strip, counts + 64 * left);
    }
}

static PyObject *popcount(PyObject *self, PyObject *args)
{
    Py_buffer b[2];
    Py_ssize_t stride;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nw*", &b[0], &stride, &b[1]))
        return NULL;
    const Py_ssize_t bits = items(&b[1], 8), width = bits / 64;
    if (bits < 0 || bits % (64 * LINE) || stride < 1 || stride / 8 < width || b[0].len % stride)
        return refuse(b, 2);
    Py_BEGIN_ALLOW_THREADS
    count_bits(b[0].buf, stride, b[0].len / stride, width, b[1].buf);
    Py_END_ALLOW_THREADS
    release(b, 2);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ module */

static PyMethodDef methods[] = {
    {"compare_planes", compare_planes, METH_VARARGS, "Compare digit planes with digits."},
    {"collect_open", collect_open, METH_VARARGS, "List the words with an open lane."},
    {"refine", refine, METH_VARARGS, "Compare one more digit of the open words."},
    {"lookup", lookup, METH_VARARGS, "Count the thresholds above each word."},
    {"walk", walk, METH_VARARGS, "Turn gaps into positions."},
    {"leap", leap, METH_VARARGS, "Turn words into positions, far from the end."},
    {"xor_positions", xor_positions, METH_VARARGS, "Flip the bits at positions."},
    {"place", place, METH_VARARGS, "Give flipped zeros of one-hot records their slots."},
    {"row_ones", row_ones, METH_VARARGS, "Count the ones in each row."},
    {"histogram", histogram, METH_VARARGS, "Count codes."},
    {"popcount", popcount, METH_VARARGS, "Count ones per bit position."},
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
    PyModuleDef_HEAD_INIT, "_native", "The hot loops in C; see plain.py.", 0, methods,
    slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&module);
}
