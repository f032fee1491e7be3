/* Writes down every call that changes what is below a folder, in the order in which it was done.
 *
 * Loaded in front of the C library (LD_PRELOAD), so SQLite and Python are both heard. One lock is
 * held over a call and its record: what is written down first was done first. A record is
 *
 *     u8 what, u64 file, i64 number, u32 length, u32 length, first text, second text
 *
 * A file is its inode. What failed is not written down.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char root[PATH_MAX];
static size_t root_length;
static dev_t device;
static int out = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define HELD(kind, call, record)             \
    do {                                     \
        pthread_mutex_lock(&lock);           \
        kind done = (call);                  \
        if (done >= 0) { record; }           \
        pthread_mutex_unlock(&lock);         \
        return done;                         \
    } while (0)

static void record(char what, uint64_t file, int64_t number, const void *a, uint32_t a_length,
                   const void *b, uint32_t b_length) {
    char head[25];
    memcpy(head, &what, 1);
    memcpy(head + 1, &file, 8);
    memcpy(head + 9, &number, 8);
    memcpy(head + 17, &a_length, 4);
    memcpy(head + 21, &b_length, 4);
    struct iovec parts[3] = {{head, 25}, {(void *)a, a_length}, {(void *)b, b_length}};
    if (syscall(SYS_writev, out, parts, 3) != 25 + (long)a_length + (long)b_length) abort();
}

/* The full path of a name, if it is below the folder. */
static int inside(int at, const char *name, char *path) {
    char start[PATH_MAX] = "";
    if (out < 0 || name == NULL) return 0;
    if (name[0] != '/') {
        if (at == AT_FDCWD) {
            if (syscall(SYS_getcwd, start, sizeof start) < 0) return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t length = readlink(link, start, sizeof start - 1);
            if (length < 0) return 0;
            start[length] = 0;
        }
    }
    if (snprintf(path, PATH_MAX, "%s%s%s", start, start[0] ? "/" : "", name) >= PATH_MAX) abort();
    return strncmp(path, root, root_length) == 0;
}

/* The inode of an open file or folder of the same disk; 0 for anything else. */
static uint64_t file_of(int number) {
    struct stat found;
    if (out < 0 || fstat(number, &found) != 0 || found.st_dev != device) return 0;
    return S_ISREG(found.st_mode) || S_ISDIR(found.st_mode) ? found.st_ino : 0;
}

static uint64_t named(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0 ? found.st_ino : 0;
}

void calls_start(const char *log, const char *folder) {
    struct stat found;
    if (stat(folder, &found) != 0) abort();
    device = found.st_dev;
    root_length = snprintf(root, sizeof root, "%s/", folder);
    out = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600);
    if (out < 0) abort();
}

void calls_stop(void) {
    pthread_mutex_lock(&lock);
    close(out);
    out = -1;
    pthread_mutex_unlock(&lock);
}

void calls_note(const char *text, uint32_t length) {
    pthread_mutex_lock(&lock);
    if (out >= 0) record('n', 0, 0, text, length, NULL, 0);
    pthread_mutex_unlock(&lock);
}

#define TEXT(path) path, strlen(path)
#define NONE NULL, 0

static int opened(int number, const char *path, int flags) {
    if (flags & (O_CREAT | O_TRUNC) && (flags & O_TMPFILE) != O_TMPFILE)
        record('o', file_of(number), flags & O_TRUNC ? 1 : 0, TEXT(path), NONE);
    return number;
}

#define OPENED(call)                                     \
    char path[PATH_MAX];                                 \
    mode_t mode = 0;                                     \
    if (flags & (O_CREAT | O_TMPFILE)) {                 \
        va_list more;                                    \
        va_start(more, flags);                           \
        mode = va_arg(more, mode_t);                     \
        va_end(more);                                    \
    }                                                    \
    if (!inside(at, name, path)) return call;            \
    HELD(int, call, opened(done, path, flags))

int open(const char *name, int flags, ...) { int at = AT_FDCWD; OPENED(REAL(open)(name, flags, mode)); }
int open64(const char *name, int flags, ...) { int at = AT_FDCWD; OPENED(REAL(open64)(name, flags, mode)); }
int openat(int at, const char *name, int flags, ...) { OPENED(REAL(openat)(at, name, flags, mode)); }
int openat64(int at, const char *name, int flags, ...) { OPENED(REAL(openat64)(at, name, flags, mode)); }

static void written(uint64_t file, int number, ssize_t size, const void *data, int64_t place) {
    if (size > 0)
        record('w', file, place < 0 ? lseek(number, 0, SEEK_CUR) - size : place, data, size, NONE);
}

static void gathered(uint64_t file, int number, ssize_t size, const struct iovec *parts, int count) {
    char *all = malloc(size ? size : 1), *next = all;
    ssize_t left = size;
    for (int i = 0; i < count && left > 0; i++) {
        ssize_t take = (ssize_t)parts[i].iov_len < left ? (ssize_t)parts[i].iov_len : left;
        memcpy(next, parts[i].iov_base, take);
        next += take;
        left -= take;
    }
    written(file, number, size, all, -1);
    free(all);
}

#define TO_FILE(kind, call, more)                        \
    uint64_t file = file_of(number);                     \
    if (!file) return call;                              \
    HELD(kind, call, more)

ssize_t write(int number, const void *data, size_t size) {
    TO_FILE(ssize_t, REAL(write)(number, data, size), written(file, number, done, data, -1));
}
ssize_t pwrite(int number, const void *data, size_t size, off_t place) {
    TO_FILE(ssize_t, REAL(pwrite)(number, data, size, place), written(file, number, done, data, place));
}
ssize_t pwrite64(int number, const void *data, size_t size, off64_t place) {
    TO_FILE(ssize_t, REAL(pwrite64)(number, data, size, place), written(file, number, done, data, place));
}
ssize_t writev(int number, const struct iovec *parts, int count) {
    TO_FILE(ssize_t, REAL(writev)(number, parts, count), gathered(file, number, done, parts, count));
}
int ftruncate(int number, off_t size) {
    TO_FILE(int, REAL(ftruncate)(number, size), record('t', file, size, NONE, NONE));
}
int ftruncate64(int number, off64_t size) {
    TO_FILE(int, REAL(ftruncate64)(number, size), record('t', file, size, NONE, NONE));
}
int fsync(int number) { TO_FILE(int, REAL(fsync)(number), record('s', file, 0, NONE, NONE)); }
int fdatasync(int number) { TO_FILE(int, REAL(fdatasync)(number), record('s', file, 0, NONE, NONE)); }

#define ONE_NAME(at, name, what, call)                   \
    char path[PATH_MAX];                                 \
    if (!inside(at, name, path)) return call;            \
    HELD(int, call, record(what, named(path), 0, TEXT(path), NONE))

int unlink(const char *name) { ONE_NAME(AT_FDCWD, name, 'u', REAL(unlink)(name)); }
int rmdir(const char *name) { ONE_NAME(AT_FDCWD, name, 'u', REAL(rmdir)(name)); }
int unlinkat(int at, const char *name, int flags) { ONE_NAME(at, name, 'u', REAL(unlinkat)(at, name, flags)); }
int mkdir(const char *name, mode_t mode) { ONE_NAME(AT_FDCWD, name, 'm', REAL(mkdir)(name, mode)); }
int mkdirat(int at, const char *name, mode_t mode) { ONE_NAME(at, name, 'm', REAL(mkdirat)(at, name, mode)); }

#define TWO_NAMES(at_a, a, at_b, b, what, call)          \
    char from[PATH_MAX], to[PATH_MAX];                   \
    if (!inside(at_a, a, from) || !inside(at_b, b, to)) return call; \
    HELD(int, call, record(what, 0, 0, TEXT(from), TEXT(to)))

int rename(const char *a, const char *b) { TWO_NAMES(AT_FDCWD, a, AT_FDCWD, b, 'r', REAL(rename)(a, b)); }
int renameat(int at, const char *a, int to_at, const char *b) { TWO_NAMES(at, a, to_at, b, 'r', REAL(renameat)(at, a, to_at, b)); }
int link(const char *a, const char *b) { TWO_NAMES(AT_FDCWD, a, AT_FDCWD, b, 'l', REAL(link)(a, b)); }
int linkat(int at, const char *a, int to_at, const char *b, int flags) { TWO_NAMES(at, a, to_at, b, 'l', REAL(linkat)(at, a, to_at, b, flags)); }
