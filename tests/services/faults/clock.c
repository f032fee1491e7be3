/* Puts the wall clock of a process off by CLOCK_OFF_BY seconds.
 *
 * Loaded in front of the C library (LD_PRELOAD). The monotonic clock is left alone, as it is when
 * somebody sets the wall clock of a machine; so are the times of files, which the system writes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t off_by(void) {
    const char *text = getenv("CLOCK_OFF_BY");
    return text == NULL ? 0 : (time_t)atoll(text);
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    int done = ((__typeof__(&clock_gettime))dlsym(RTLD_NEXT, "clock_gettime"))(clock, found);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        found->tv_sec += off_by();
    return done;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found != NULL) *found = now.tv_sec;
    return now.tv_sec;
}
