/* Preloaded into a process, counts its fsync and fdatasync calls. */
#define _GNU_SOURCE
#include <dlfcn.h>

static int calls;

int sync_calls(void) { return __atomic_load_n(&calls, __ATOMIC_SEQ_CST); }

int fsync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    return real(descriptor);
}

int fdatasync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    return real(descriptor);
}
