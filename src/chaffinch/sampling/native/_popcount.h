/* Positional popcount: how many rows have a one at each place. Part of `_native.c`.
 *
 * Rows are added to vertical counters: plane p holds bit p of the sums of all places. A tree of
 * carry-save adders takes 16 rows at a time (Harley and Seal), so that most of the work is done
 * in registers and the loop is about as fast as memory can be read.
 */

#define PLANES 16       /* vertical counters: sums of up to 2**16 - 1 rows */
#define MOST_HELD ((1 << PLANES) - 1)
#define GROUP 16        /* rows that one tree of carry-save adders takes */
#define LOWER 12        /* planes that are added to first: they fit registers */
#define MOST_LOWER 4080 /* rows, in whole groups, whose sums fit the lower planes */
#define NEAR 8192       /* bytes read between two visits to one line: almost in order */
#define STRIP 64        /* words of a row worked on together */

/* A lane is two vectors that are worked on in step. Wider vectors than the processor has would
 * be kept in memory by the compiler; these stay in registers, and reading goes on in order. */
#if defined(__GNUC__)
typedef uint64_t half __attribute__((vector_size(4 * LINE)));
typedef half loose __attribute__((aligned(1), may_alias)); /* rows may start anywhere */
#define READ(from) (*(const loose *)(from))
#define WRITE(to, value) (*(loose *)(to) = (value))
#else
typedef uint64_t half;
static inline half READ(const uint8_t *from)
{
    half value;
    memcpy(&value, from, sizeof value);
    return value;
}
#define WRITE(to, value) memcpy(to, &(value), sizeof(half))
#endif
typedef struct {
    half left, right;
} lane;
#define WORDS ((Py_ssize_t)(sizeof(lane) / 8))

#define LOAD(lane, from)                                              \
    do {                                                              \
        (lane).left = READ((const uint8_t *)(from));                  \
        (lane).right = READ((const uint8_t *)(from) + sizeof(half));  \
    } while (0)

#define STORE(lane, to)                                               \
    do {                                                              \
        WRITE((uint8_t *)(to), (lane).left);                          \
        WRITE((uint8_t *)(to) + sizeof(half), (lane).right);          \
    } while (0)

#define ADD_HALF(high, low, x, y)             \
    do {                                      \
        const half sum_ = low ^ x;            \
        high = (low & x) | (sum_ & y);        \
        low = sum_ ^ y;                       \
    } while (0)

#define ADD(high, low, x, y)                                  \
    do {                                                      \
        ADD_HALF(high.left, low.left, x.left, y.left);        \
        ADD_HALF(high.right, low.right, x.right, y.right);    \
    } while (0)

/* The next two rows. */
#define PAIR(high)                            \
    do {                                      \
        lane x_, y_;                          \
        LOAD(x_, at);                         \
        LOAD(y_, at + stride);                \
        at += 2 * stride;                     \
        ADD(high, one, x_, y_);               \
    } while (0)

#define EIGHT(high)                           \
    do {                                      \
        lane two_a, two_b, four_a, four_b;    \
        PAIR(two_a);                          \
        PAIR(two_b);                          \
        ADD(four_a, two, two_a, two_b);       \
        PAIR(two_a);                          \
        PAIR(two_b);                          \
        ADD(four_b, two, two_a, two_b);       \
        ADD(high, four, four_a, four_b);      \
    } while (0)

#define CARRY(plane)                          \
    do {                                      \
        const lane old_ = plane;              \
        plane.left ^= carry.left;             \
        plane.right ^= carry.right;           \
        carry.left &= old_.left;              \
        carry.right &= old_.right;            \
    } while (0)

/* Harley-Seal: add whole groups of rows to the lower planes. */
CLONES
static void add_groups(const uint8_t *rows, Py_ssize_t stride, Py_ssize_t size,
                       Py_ssize_t width, uint64_t (*lower)[STRIP])
{
    for (Py_ssize_t i = 0; i + WORDS <= width; i += WORDS) {
        const uint8_t *at = rows + 8 * i;
        lane one, two, four, eight, p16, p32, p64, p128, p256, p512, p1024, p2048, carry;
        LOAD(one, &lower[0][i]);
        LOAD(two, &lower[1][i]);
        LOAD(four, &lower[2][i]);
        LOAD(eight, &lower[3][i]);
        LOAD(p16, &lower[4][i]);
        LOAD(p32, &lower[5][i]);
        LOAD(p64, &lower[6][i]);
        LOAD(p128, &lower[7][i]);
        LOAD(p256, &lower[8][i]);
        LOAD(p512, &lower[9][i]);
        LOAD(p1024, &lower[10][i]);
        LOAD(p2048, &lower[11][i]);
        for (Py_ssize_t row = 0; row < size; row += GROUP) {
            lane eight_a, eight_b;
            EIGHT(eight_a);
            EIGHT(eight_b);
            ADD(carry, eight, eight_a, eight_b);
            CARRY(p16);
            CARRY(p32);
            CARRY(p64);
            CARRY(p128);
            CARRY(p256);
            CARRY(p512);
            CARRY(p1024);
            CARRY(p2048);
        }
        STORE(one, &lower[0][i]);
        STORE(two, &lower[1][i]);
        STORE(four, &lower[2][i]);
        STORE(eight, &lower[3][i]);
        STORE(p16, &lower[4][i]);
        STORE(p32, &lower[5][i]);
        STORE(p64, &lower[6][i]);
        STORE(p128, &lower[7][i]);
        STORE(p256, &lower[8][i]);
        STORE(p512, &lower[9][i]);
        STORE(p1024, &lower[10][i]);
        STORE(p2048, &lower[11][i]);
    }
}

/* Move the lower planes into the full counters. Rare: while it runs, nothing is read ahead. */
CLONES
static void merge(uint64_t (*restrict lower)[STRIP], uint64_t (*restrict planes)[STRIP],
                  Py_ssize_t width)
{
    for (Py_ssize_t i = 0; i + WORDS <= width; i += WORDS) {
        const lane none = {{0}, {0}};
        lane sum, carry = none;
        for (int p = 0; p < LOWER; p++) {
            lane more, both;
            LOAD(sum, &planes[p][i]);
            LOAD(more, &lower[p][i]);
            ADD(both, sum, more, carry);
            STORE(sum, &planes[p][i]);
            STORE(none, &lower[p][i]);
            carry = both;
        }
        for (int p = LOWER; p < PLANES; p++) {
            LOAD(sum, &planes[p][i]);
            CARRY(sum);
            STORE(sum, &planes[p][i]);
        }
    }
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
    uint64_t lower[PLANES][STRIP] = {{0}}, planes[PLANES][STRIP] = {{0}};
    const Py_ssize_t close = stride < NEAR / GROUP ? NEAR / stride / GROUP * GROUP : GROUP;
    const Py_ssize_t near = width == WORDS ? MOST_LOWER : close; /* one lane: no second visit */
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
    for (; size > 0; size--, at += stride) /* at most 15 more: 4095 fit the lower planes */
        add_row(at, width, lower);
    spill(lower, width, 0, counts);
    spill(lower + 8, width, 8, counts);
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
