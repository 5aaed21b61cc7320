/* Makes each sync of a process take SYNC_MILLISECONDS more, so that ratios do not depend on this machine's disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

#ifndef SYNC_MILLISECONDS
#define SYNC_MILLISECONDS 2
#endif

static int slowly(const char *name, int descriptor) {
    struct timespec rest = {0, SYNC_MILLISECONDS * 1000000L};
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    nanosleep(&rest, 0);
    return real(descriptor);
}

int fsync(int descriptor) { return slowly("fsync", descriptor); }
int fdatasync(int descriptor) { return slowly("fdatasync", descriptor); }
