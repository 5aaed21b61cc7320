/* Preloaded into a process, sits between SQLite and the disk: counts syncs, makes writes and syncs fail,
   and keeps a log of all that would have to reach the disk. Driven through ctypes; see disk.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE = 0, SYNC = 1 };

static long calls[2];
static int failing = -1, failure, persistent;
static long fail_at;
static int log_descriptor = -1;

long disk_calls(int which) { return calls[which]; }
int sync_calls(void) { return (int)calls[SYNC]; }

void disk_fail(int which, long at, int error, int from_then_on) {
    calls[WRITE] = calls[SYNC] = 0;
    failing = which;
    fail_at = at;
    failure = error;
    persistent = from_then_on;
}

void disk_log(const char *path) { log_descriptor = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600); }

static void put(const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (real(log_descriptor, data, size) != (ssize_t)size) _exit(97);
}

static void record(char kind, const char *path, int64_t offset, const void *data, int64_t size) {
    if (log_descriptor < 0) return;
    char head[64];
    int length = snprintf(head, sizeof head, "%c %d %lld %lld\n", kind, (int)strlen(path), (long long)offset,
                          (long long)size);
    put(head, (size_t)length);
    put(path, strlen(path));
    if (size) put(data, (size_t)size);
}

static void record_descriptor(char kind, int descriptor, int64_t offset, const void *data, int64_t size) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    record(kind, path, offset, data, size);
}

void disk_mark(const char *text) { record('m', text, 0, 0, 0); }

static int fails(int which) {
    long now = __atomic_add_fetch(&calls[which], 1, __ATOMIC_SEQ_CST);
    if (failing != which || now < fail_at || (now > fail_at && !persistent)) return 0;
    errno = failure;
    return 1;
}

static ssize_t write_at(ssize_t (*real)(int, const void *, size_t, off64_t), int descriptor, const void *data,
                        size_t size, off64_t offset) {
    if (fails(WRITE)) return -1;
    ssize_t written = real(descriptor, data, size, offset);
    if (written > 0) record_descriptor('w', descriptor, offset, data, written);
    return written;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    return write_at(dlsym(RTLD_NEXT, "pwrite64"), descriptor, data, size, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
    return write_at(dlsym(RTLD_NEXT, "pwrite64"), descriptor, data, size, offset);
}

static int sync_with(const char *name, int descriptor) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    if (fails(SYNC)) return -1;
    int result = real(descriptor);
    if (result == 0) record_descriptor('s', descriptor, 0, 0, 0);
    return result;
}

int fsync(int descriptor) { return sync_with("fsync", descriptor); }
int fdatasync(int descriptor) { return sync_with("fdatasync", descriptor); }

static int truncate_to(const char *name, int descriptor, off64_t size) {
    int (*real)(int, off64_t) = dlsym(RTLD_NEXT, name);
    int result = real(descriptor, size);
    if (result == 0) record_descriptor('t', descriptor, size, 0, 0);
    return result;
}

int ftruncate(int descriptor, off_t size) { return truncate_to("ftruncate", descriptor, size); }
int ftruncate64(int descriptor, off64_t size) { return truncate_to("ftruncate64", descriptor, size); }

int unlink(const char *path) {
    int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
    int result = real(path);
    if (result == 0) record('u', path, 0, 0, 0);
    return result;
}
