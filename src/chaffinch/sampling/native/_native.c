/* The hot loops in C. `plain.py` says what each does; the results are identical.
 *
 * Stable ABI from Python 3.11 on. Every length is checked here against every other one, so
 * a wrong call raises and never reads or writes outside a buffer. Loops over numbers run without
 * the GIL.
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
#define FAR (2 * LONGEST) /* added to a gap to end a loop */
#define SHORT 65536      /* entries of a table of short words */
#define PIECES 4         /* short words in a word */
#define UNDECIDED 0x8000 /* added to an entry whose short word does not decide a gap */

#if defined(__GNUC__)
#define UNLIKELY(condition) __builtin_expect(condition, 0)
#define SLOW __attribute__((noinline, cold))
#else
#define SLOW
#define UNLIKELY(condition) (condition)
#endif

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
            /* Open lanes: below where the number has the 0, still open where both agree. */
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
    uint16_t guide[GUIDE];
    Py_ssize_t ties;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*w*", &b[0], &b[1], &b[2], &b[3]))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8), length = items(&b[1], 8);
    if (size < 0 || length < 1 || items(&b[2], 2) != GUIDE || items(&b[3], 8) != size
        || ((const uint64_t *)b[1].buf)[length - 1] != 0)
        return refuse(b, 4);
    /* Read once: another thread may write to the buffer between the check and the search. */
    memcpy(guide, b[2].buf, sizeof guide);
    if ((Py_ssize_t)largest(guide) >= length)
        return refuse(b, 4);
    Py_BEGIN_ALLOW_THREADS
    ties = search(b[0].buf, size, b[1].buf, guide, b[3].buf);
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
        /* A digit below 0 or above its limit sets the sign bit: one test for all, at the end. */
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
    if (far)
        kept = stride(b[0].buf, weights, levels, size, escape, &at, b[2].buf);
    else
        kept = step(b[0].buf, weights, levels, size, escape, &at, end, b[2].buf);
    Py_END_ALLOW_THREADS
    if (kept < 0)
        return refuse(b, 3);
    release(b, 3);
    return Py_BuildValue("nL", kept, (long long)at);
}

/* Short words: 16 bits are a whole gap, unless they do not decide it. Then three more complete
 * a word, and its threshold is looked up. No piece is read unless all four are there. */
typedef struct {
    const uint16_t *pieces, *table;
    const uint64_t *thresholds;
    int64_t escape;
    Py_ssize_t last, at; /* the last piece that may be read first, and the next one */
    enum { FLOWING, DRY, WRONG } state;
} stream;

/* Checks all but the table's entries, which are checked when they are used. */
static int open_stream(stream *from, const Py_buffer *b)
{
    const Py_ssize_t size = items(&b[0], 2), length = items(&b[2], 8);
    if (size < 0 || items(&b[1], 2) != SHORT || length < 1 || length > LARGEST_DIGIT + 1
        || ((const uint64_t *)b[2].buf)[length - 1] != 0)
        return 0;
    *from = (stream){b[0].buf, b[1].buf, b[2].buf, length - 1, size - PIECES, 0, FLOWING};
    return 1;
}

/* The next gap, however many pieces it takes. Dry when they run out, and before a word that
 * equals a threshold, which only more bits can decide: then the failures so far, and so many
 * more that every loop ends. */
static SLOW int64_t settle(stream *from)
{
    int64_t failures = 0;
    while (from->at <= from->last) {
        const uint16_t *piece = from->pieces + from->at;
        int64_t gap = from->table[*piece];
        if (gap < UNDECIDED) {
            from->at++;
            return failures + gap;
        }
        const uint64_t word = (uint64_t)piece[0] << 48 | (uint64_t)piece[1] << 32
            | (uint64_t)piece[2] << 16 | piece[3];
        gap -= UNDECIDED;
        if (gap > from->escape) {
            from->state = WRONG;
            return FAR;
        }
        gap += word < from->thresholds[gap]; /* mostly one step: no branch to guess wrong */
        while (word < from->thresholds[gap])
            gap++;
        if (word == from->thresholds[gap])
            break;
        from->at += PIECES;
        failures += gap;
        if (gap < from->escape)
            return failures;
    }
    from->state = DRY;
    return failures + FAR;
}

/* Nearly always one look into the table. The place in the stream is the caller's own variable,
 * so that it lives in a register; only the rare case writes it to memory. */
static inline int64_t next_gap(stream *from, const uint16_t *pieces, const uint16_t *table,
                               Py_ssize_t last, Py_ssize_t *at)
{
    if (!UNLIKELY(*at > last)) {
        const int64_t gap = table[pieces[*at]];
        if (!UNLIKELY(gap >= UNDECIDED)) {
            ++*at;
            return gap;
        }
    }
    from->at = *at;
    const int64_t gap = settle(from);
    *at = from->at;
    return gap;
}
#define NEXT_GAP() next_gap(from, pieces, table, last, &i)

/* Returns the place reached. At the end every piece counts as taken. */
static int64_t close_stream(stream *from, Py_ssize_t at, int64_t here, int64_t end)
{
    here = least(from->state == FLOWING ? here : here - FAR, end);
    from->at = here < end ? at : from->last + PIECES;
    return here;
}

static Py_ssize_t leap_all(stream *from, int64_t *at, int64_t end, int64_t *restrict found)
{
    const uint16_t *pieces = from->pieces, *table = from->table;
    const Py_ssize_t last = from->last;
    Py_ssize_t i = 0, kept = 0;
    int64_t here = *at;
    while (here < end) {
        here += NEXT_GAP();
        if (here >= end)
            break;
        found[kept++] = here++;
    }
    *at = close_stream(from, i, here, end);
    return kept;
}

static PyObject *leap(PyObject *self, PyObject *args)
{
    Py_buffer b[4];
    long long start, end;
    int64_t here;
    Py_ssize_t kept;
    stream from;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*(LL)w*", &b[0], &b[1], &b[2], &start, &end, &b[3]))
        return NULL;
    if (!open_stream(&from, b) || items(&b[3], 8) <= from.last || start < 0 || start > end
        || end > LONGEST)
        return refuse(b, 4);
    Py_BEGIN_ALLOW_THREADS
    here = start;
    kept = leap_all(&from, &here, end, b[3].buf);
    Py_END_ALLOW_THREADS
    if (from.state == WRONG)
        return refuse(b, 4);
    release(b, 4);
    return Py_BuildValue("nLn", kept, (long long)here, from.at);
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

/* What records and columns have sent so far. A record's count is a byte where that is enough. */
typedef struct {
    const int64_t *bounds; /* the zeros of column c are numbered from bounds[c] on */
    const uint8_t *hidden;
    void *used;
    int64_t *sent;
    Py_ssize_t values, records;
    uint32_t slots;
    int wide;
} crowd;

static int open_crowd(crowd *all, const Py_buffer *b, Py_ssize_t column, unsigned int slots)
{
    const Py_ssize_t values = items(&b[3], 8), records = b[1].len;
    const int wide = b[2].len != records || slots > UINT8_MAX;
    *all = (crowd){b[0].buf, b[1].buf, b[2].buf, b[3].buf, values, records, slots, wide};
    return values >= 1 && items(&b[0], 8) == values + 1
        && (!wide || items(&b[2], 4) == records)
        && column >= 0 && column <= values && records <= LONGEST / (values + 1);
}

/* Give a flip its slot, if there is one left: as slots are chosen, nearly always. */
static inline Py_ssize_t take_slot(void *used, int64_t record, uint32_t slots, int wide)
{
    uint8_t *byte = (uint8_t *)used + record;
    uint32_t *number = (uint32_t *)used + record;
    if (UNLIKELY((wide ? *number : *byte) >= slots))
        return 0;
    if (wide)
        ++*number;
    else
        ++*byte;
    return 1;
}

/* Give records their own bits, unless those are hidden; returns how many had a slot left. */
CLONES
static int64_t show_own(const crowd *all, int64_t first, int64_t stop)
{
    const uint8_t *restrict hidden = all->hidden;
    int64_t kept = 0;
    if (all->wide) {
        for (int64_t record = first; record < stop; record++)
            kept += !hidden[record] && take_slot(all->used, record, all->slots, 1);
        return kept;
    }
    uint8_t *restrict used = all->used;
    const uint8_t slots = (uint8_t)all->slots;
    for (int64_t record = first; record < stop; record++) {
        const uint8_t before = used[record], keep = (hidden[record] == 0) & (before < slots);
        used[record] = before + keep;
        kept += keep;
    }
    return kept;
}

/* Close columns until one ends after ``position``; returns it, or -1 for bounds that are not
 * those of so many records. A record's own bit takes its slot in the order of the codes. */
static Py_ssize_t close_columns(const crowd *all, int64_t position, Py_ssize_t column)
{
    for (; column < all->values && position >= all->bounds[column + 1]; column++) {
        const int64_t first = all->records * (int64_t)column - all->bounds[column];
        const int64_t stop = all->records * (int64_t)(column + 1) - all->bounds[column + 1];
        if (first < 0 || stop < first || stop > all->records)
            return -1;
        all->sent[column] += show_own(all, first, stop);
    }
    return column;
}

/* Zeros of one column that follow one another, of records that do. */
typedef struct {
    int64_t start, width, record;
} run;

/* The zeros before the records that hold a code, and those after them. Returns 0 for bounds
 * that are not those of so many records, or that start after ``position``. */
static int runs_of(const crowd *all, Py_ssize_t column, int64_t position, run *runs)
{
    const int64_t start = all->bounds[column], end = all->bounds[column + 1];
    const int64_t own = all->records * (int64_t)column - start;
    const int64_t width = all->records - (end - start);
    if (position < start || own < 0 || width < 0 || own > all->records - width)
        return 0;
    runs[0] = (run){start, own, 0};
    runs[1] = (run){start + own, end - start - own, own + width};
    return 1;
}

/* Returns the column reached, or -1 for a position or bounds out of order. */
static Py_ssize_t place_all(const crowd *all, const int64_t *positions, Py_ssize_t size,
                            Py_ssize_t column)
{
    for (Py_ssize_t i = 0; i < size;) {
        run runs[2];
        Py_ssize_t kept = 0;
        column = close_columns(all, positions[i], column);
        if (column < 0 || column == all->values)
            return column;
        if (!runs_of(all, column, positions[i], runs))
            return -1;
        for (int part = 0; part < 2; part++)
            for (; i < size; i++) {
                const uint64_t at = (uint64_t)(positions[i] - runs[part].start);
                if (at >= (uint64_t)runs[part].width)
                    break;
                kept += take_slot(all->used, runs[part].record + (int64_t)at, all->slots,
                                  all->wide);
            }
        all->sent[column] += kept;
    }
    return column;
}

/* Place flips as they are drawn: what leap and place do one after the other. */
static inline Py_ssize_t scatter_all(const crowd *all, stream *from, int64_t *at,
                                     Py_ssize_t column, int wide)
{
    const uint16_t *pieces = from->pieces, *table = from->table;
    const Py_ssize_t last = from->last;
    const int64_t end = all->bounds[all->values];
    const uint32_t slots = all->slots;
    void *used = all->used;
    Py_ssize_t i = 0;
    int64_t here = *at;
    if (here < end)
        here += NEXT_GAP();
    while (here < end) {
        run runs[2];
        Py_ssize_t kept = 0;
        column = close_columns(all, here, column);
        if (column < 0 || column == all->values || !runs_of(all, column, here, runs))
            return -1;
        for (int part = 0; part < 2; part++) {
            const int64_t shift = runs[part].record - runs[part].start;
            const int64_t stop = runs[part].start + runs[part].width;
            while (here < stop) {
                kept += take_slot(used, here + shift, slots, wide);
                here += 1 + NEXT_GAP();
            }
        }
        all->sent[column] += kept;
    }
    here = *at = close_stream(from, i, here, end);
    return here < end ? column : close_columns(all, end, column);
}

static PyObject *scatter(PyObject *self, PyObject *args)
{
    Py_buffer b[7];
    long long start;
    int64_t at;
    Py_ssize_t column;
    unsigned int slots;
    crowd all;
    stream from;
    (void)self;
    if (!PyArg_ParseTuple(args, "(y*y*y*)y*(y*w*w*)(Ln)I", &b[0], &b[1], &b[2], &b[3], &b[4],
                          &b[5], &b[6], &start, &column, &slots))
        return NULL;
    if (!open_stream(&from, b) || !open_crowd(&all, b + 3, column, slots)
        || start < 0 || start > all.bounds[all.values] || all.bounds[all.values] > LONGEST)
        return refuse(b, 7);
    at = start;
    Py_BEGIN_ALLOW_THREADS
    column = all.wide ? scatter_all(&all, &from, &at, column, 1)
                      : scatter_all(&all, &from, &at, column, 0);
    Py_END_ALLOW_THREADS
    if (column < 0 || from.state == WRONG)
        return refuse(b, 7);
    release(b, 7);
    return Py_BuildValue("Lnn", (long long)at, column, from.at);
}

static PyObject *place(PyObject *self, PyObject *args)
{
    Py_buffer b[5];
    Py_ssize_t column;
    unsigned int slots;
    crowd all;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*(y*w*w*)nI", &b[0], &b[1], &b[2], &b[3], &b[4], &column,
                          &slots))
        return NULL;
    const Py_ssize_t size = items(&b[0], 8);
    if (size < 0 || !open_crowd(&all, b + 1, column, slots))
        return refuse(b, 5);
    Py_BEGIN_ALLOW_THREADS
    column = place_all(&all, b[0].buf, size, column);
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
#define RUN 64           /* codes that are looked at together, to see if they are one */
#define MOST_CODES ((Py_ssize_t)1 << 30) /* codes before 32-bit counts are added to the rest */

/* Each code is read once, checked and counted: another thread that writes to the codes can
 * spoil the counts and nothing else. Both return how many codes they took before a bad one. */

/* Messages often come in the order of their codes: then many are counted at once. */
static inline int all_same(const uint32_t *codes, uint32_t first)
{
    uint32_t differences = 0;
    for (int k = 0; k < RUN; k++)
        differences |= codes[k] ^ first;
    return !differences;
}

/* Count runs of one code; returns how many codes that were. */
CLONES
static Py_ssize_t count_runs(const uint32_t *codes, Py_ssize_t size, int64_t *counts,
                             Py_ssize_t bins)
{
    Py_ssize_t i = 0;
    for (; i + RUN <= size; i += RUN) {
        const uint32_t code = codes[i];
        if (code >= (uint64_t)bins || !all_same(codes + i, code))
            break;
        counts[code] += RUN;
    }
    return i;
}

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
    const uint32_t most = (uint32_t)bins;
    Py_ssize_t i = 0, stop = 0;
    while (i == stop && i + 4 <= size) {
        if (i + RUN <= size && codes[i] == codes[i + RUN - 1])
            i += count_runs(codes + i, size - i, counts, bins);
        for (stop = i + (size - i < RUN ? (size - i) / 4 * 4 : RUN); i < stop; i += 4) {
            const uint32_t a = codes[i], b = codes[i + 1], c = codes[i + 2], d = codes[i + 3];
            if (a >= most || b >= most || c >= most || d >= most)
                break;
            parts[0][a]++;
            parts[1][b]++;
            parts[2][c]++;
            parts[3][d]++;
        }
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

#include "_popcount.h"

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

/* ------------------------------------------------------------------ texts */

#define RECENT 256       /* texts whose places are remembered by their addresses */

/* The place of a text in a dictionary of them, where a new one is put last; -1 on an error. */
static Py_ssize_t place_of(PyObject *text, PyObject *places)
{
    PyObject *known = PyDict_GetItemWithError(places, text);
    if (known != NULL)
        return PyLong_AsSsize_t(known);
    if (PyErr_Occurred())
        return -1;
    const Py_ssize_t next = PyDict_Size(places);
    known = PyLong_FromSsize_t(next);
    if (known == NULL)
        return -1;
    const int failed = PyDict_SetItem(places, text, known);
    Py_DECREF(known);
    return failed ? -1 : next;
}

/* Python's own texts only: neither hashing nor comparing them runs any other code, so the list
 * and everything that was seen in it stay as they are until the end. */
static PyObject *index_texts(PyObject *self, PyObject *args)
{
    PyObject *texts, *places;
    Py_ssize_t most, i = 0;
    Py_buffer out;
    struct { PyObject *text; int32_t place; } recent[RECENT] = {{NULL, 0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!nw*", &PyList_Type, &texts, &PyDict_Type, &places, &most, &out))
        return NULL;
    const Py_ssize_t size = PyList_Size(texts);
    if (items(&out, 4) != size || most < 0 || most > INT32_MAX)
        return refuse(&out, 1);
    int32_t *found = out.buf;
    for (; i < size; i++) {
        PyObject *text = PyList_GetItem(texts, i);
        const size_t at = ((uintptr_t)text >> 4) % RECENT;
        if (recent[at].text != text) {
            if (!PyUnicode_CheckExact(text))
                break;
            const Py_ssize_t place = place_of(text, places);
            if (place < 0 || place >= most)
                break;
            recent[at].text = text;
            recent[at].place = (int32_t)place;
        }
        found[i] = recent[at].place;
    }
    release(&out, 1);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(i);
}

/* ------------------------------------------------------------------ module */

static PyMethodDef methods[] = {
    {"compare_planes", compare_planes, METH_VARARGS, "Compare digit planes with digits."},
    {"collect_open", collect_open, METH_VARARGS, "List the words with an open lane."},
    {"refine", refine, METH_VARARGS, "Compare one more digit of the open words."},
    {"lookup", lookup, METH_VARARGS, "Count the thresholds above each word."},
    {"walk", walk, METH_VARARGS, "Turn gaps into positions."},
    {"leap", leap, METH_VARARGS, "Turn short words into positions."},
    {"xor_positions", xor_positions, METH_VARARGS, "Flip the bits at positions."},
    {"place", place, METH_VARARGS, "Give flipped zeros of one-hot records their slots."},
    {"scatter", scatter, METH_VARARGS, "Leap and place at once."},
    {"row_ones", row_ones, METH_VARARGS, "Count the ones in each row."},
    {"histogram", histogram, METH_VARARGS, "Count codes."},
    {"popcount", popcount, METH_VARARGS, "Count ones per bit position."},
    {"index_texts", index_texts, METH_VARARGS, "Number the different texts of a list."},
    {NULL, NULL, 0, NULL},
};

/* Raised whenever a loop is added or means something else: an old build is then not used. */
#define EDITION 3

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
