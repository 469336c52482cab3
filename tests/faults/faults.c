/* Makes one call to the file system fail, or ends the process before it: preloaded into a command by harness.py.

   Counted are the calls whose file lies below FAULT_ROOT, in the process and in all that it starts: the counter is in
   the file FAULT_STATE, which they share. From the environment:

     FAULT_ROOT   a folder, absolute and without links; without it nothing is counted
     FAULT_STATE  a file of at least sizeof(struct state) bytes
     FAULT_LOG    a file to which each counted call is written as "number process name path"
     FAULT_AT     the number of the call that fails, from 1
     FAULT_COUNT  so many calls fail from there on, 0: all of them; 1 unless given
     FAULT_ERROR  an errno, or "short": half of the bytes are read or written, or "kill": SIGKILL before the call

   What the C library calls inside itself (the reads below fread, for example) is not seen. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct state {
    uint64_t calls;  /* counted so far, in all processes */
    uint64_t failed; /* of them disturbed */
};
enum answer { PASS, FAIL, SHORT };

static struct state *state;
static const char *root, *journal;
static size_t root_length;
static uint64_t first, count = 1;
static int fault_errno, is_short, is_kill, is_ready;

/* Reads the environment; called before main, or by the first call of another library's constructor. */
__attribute__((constructor)) static void prepare(void) {
    if (is_ready) return;
    is_ready = 1;
    const char *file = getenv("FAULT_STATE"), *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERROR");
    const char *some = getenv("FAULT_COUNT");
    journal = getenv("FAULT_LOG");
    if (at) first = strtoull(at, NULL, 10);
    if (some) count = strtoull(some, NULL, 10);
    if (error) {
        is_short = !strcmp(error, "short");
        is_kill = !strcmp(error, "kill");
        fault_errno = atoi(error);
    }
    if (!file) return;
    int opened = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
    if (opened < 0) return;
    long at_address = syscall(SYS_mmap, NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    syscall(SYS_close, opened);
    if (at_address == -1) return;
    state = (struct state *)at_address;
    root = getenv("FAULT_ROOT");
    root_length = root ? strlen(root) : 0;
}

/* For a process that was forked and has another environment now: reads it again. */
void faults_prepare_again(void) {
    first = 0;
    count = 1;
    fault_errno = is_short = is_kill = is_ready = 0;
    prepare();
}

static int is_below_root(const char *path) {
    return path && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static void note(uint64_t number, const char *name, const char *path) {
    char line[PATH_MAX + 128];
    int size = snprintf(line, sizeof line, "%llu %d %s %s\n", (unsigned long long)number, (int)getpid(), name,
                        path + root_length);
    long opened = syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (opened < 0) return;
    syscall(SYS_write, opened, line, size);
    syscall(SYS_close, opened);
}

/* Counts a call of `name` on the file `path`; sets errno where it is to fail. */
static enum answer ask(const char *name, const char *path) {
    int before = errno;
    uint64_t number = __atomic_add_fetch(&state->calls, 1, __ATOMIC_SEQ_CST);
    if (journal) note(number, name, path);
    errno = before;
    if (!first || number < first || (count && number >= first + count)) return PASS;
    __atomic_add_fetch(&state->failed, 1, __ATOMIC_SEQ_CST);
    if (is_kill) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) pause();
    }
    if (is_short) return SHORT;
    errno = fault_errno;
    return FAIL;
}

static int is_off(void) {
    if (!is_ready) prepare();
    return !root;
}

/* The path of an open file; an empty text where it has none. */
static void path_of(int file, char *path) {
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[size < 0 ? 0 : size] = 0;
    errno = before;
}

/* `path` in the folder that is open as `folder`, without "." and ".." at its joints being resolved. */
static void absolute(int folder, const char *path, char *whole) {
    if (!path) {
        *whole = 0;
    } else if (*path == '/') {
        snprintf(whole, PATH_MAX, "%s", path);
    } else if (folder == AT_FDCWD) {
        int before = errno;
        if (syscall(SYS_getcwd, whole, PATH_MAX) < 0) *whole = 0;
        errno = before;
    } else {
        path_of(folder, whole);
    }
    if (path && *path != '/' && *path && strcmp(path, ".")) {
        size_t used = strlen(whole);
        snprintf(whole + used, PATH_MAX - used, "/%s", path);
    }
}

static enum answer ask_file(const char *name, int file) {
    char path[PATH_MAX];
    if (is_off() || file < 0) return PASS;
    path_of(file, path);
    return is_below_root(path) ? ask(name, path) : PASS;
}

static enum answer ask_path(const char *name, int folder, const char *path) {
    char whole[PATH_MAX];
    if (is_off()) return PASS;
    absolute(folder, path, whole);
    return is_below_root(whole) ? ask(name, whole) : PASS;
}

/* Of two paths the one that is below the root counts, the second where both are: the name that is made. */
static enum answer ask_paths(const char *name, int folder, const char *path, int to_folder, const char *to) {
    char whole[PATH_MAX];
    if (is_off()) return PASS;
    absolute(to_folder, to, whole);
    if (!is_below_root(whole)) absolute(folder, path, whole);
    return is_below_root(whole) ? ask(name, whole) : PASS;
}

static void *original(void **kept, const char *name) {
    void *found = __atomic_load_n(kept, __ATOMIC_ACQUIRE);
    if (found) return found;
    int before = errno;
    found = dlsym(RTLD_NEXT, name);
    errno = before;
    if (!found) abort();
    __atomic_store_n(kept, found, __ATOMIC_RELEASE);
    return found;
}

#define ORIGINAL(name) ((__typeof__(&name))original(&kept_##name, #name))
/* A function of the C library that fails where `question` says so; what it is called with is `passed`. */
#define WRAP(result, name, given, passed, question, failure) \
    static void *kept_##name;                                \
    result name given {                                      \
        if ((question) == FAIL) return failure;              \
        return ORIGINAL(name) passed;                        \
    }
#define WRAP_BOTH(result, name, given, passed, question, failure) \
    WRAP(result, name, given, passed, question, failure)          \
    WRAP(result, name##64, given, passed, question, failure)

/* Opening: the mode stands only where a file may be made. */
#define MODE(last)                                                     \
    mode_t mode = 0;                                                   \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {       \
        va_list more;                                                  \
        va_start(more, last);                                          \
        mode = (mode_t)va_arg(more, int);                              \
        va_end(more);                                                  \
    }
#define WRAP_OPEN(name)                                                       \
    static void *kept_##name;                                                 \
    int name(const char *path, int flags, ...) {                              \
        MODE(flags)                                                           \
        if (ask_path("open", AT_FDCWD, path) == FAIL) return -1;              \
        return ORIGINAL(name)(path, flags, mode);                             \
    }
#define WRAP_OPENAT(name)                                                     \
    static void *kept_##name;                                                 \
    int name(int folder, const char *path, int flags, ...) {                  \
        MODE(flags)                                                           \
        if (ask_path("open", folder, path) == FAIL) return -1;                \
        return ORIGINAL(name)(folder, path, flags, mode);                     \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)
WRAP_BOTH(FILE *, fopen, (const char *path, const char *how), (path, how), ask_path("open", AT_FDCWD, path), NULL)
WRAP(int, creat, (const char *path, mode_t mode), (path, mode), ask_path("open", AT_FDCWD, path), -1)
WRAP(int, creat64, (const char *path, mode_t mode), (path, mode), ask_path("open", AT_FDCWD, path), -1)

/* Closing: the file is closed all the same, as Linux does. */
static void *kept_close;
int close(int file) {
    enum answer answer = ask_file("close", file);
    int error = errno, result = ORIGINAL(close)(file);
    if (answer != FAIL) return result;
    errno = error;
    return -1;
}

/* Bytes. */
static size_t some(enum answer answer, size_t size) { return answer == SHORT && size > 1 ? size / 2 : size; }
#define WRAP_BYTES(name, shown, given, passed)                   \
    static void *kept_##name;                                    \
    ssize_t name given {                                         \
        enum answer answer = ask_file(shown, file);              \
        if (answer == FAIL) return -1;                           \
        size = some(answer, size);                               \
        return ORIGINAL(name) passed;                            \
    }
WRAP_BYTES(read, "read", (int file, void *bytes, size_t size), (file, bytes, size))
WRAP_BYTES(write, "write", (int file, const void *bytes, size_t size), (file, bytes, size))
WRAP_BYTES(pread, "pread", (int file, void *bytes, size_t size, off_t at), (file, bytes, size, at))
WRAP_BYTES(pread64, "pread", (int file, void *bytes, size_t size, off64_t at), (file, bytes, size, at))
WRAP_BYTES(pwrite, "pwrite", (int file, const void *bytes, size_t size, off_t at), (file, bytes, size, at))
WRAP_BYTES(pwrite64, "pwrite", (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at))
#define WRAP_VECTOR(name, shown)                                             \
    static void *kept_##name;                                                \
    ssize_t name(int file, const struct iovec *parts, int number) {          \
        enum answer answer = ask_file(shown, file);                          \
        if (answer == FAIL) return -1;                                       \
        if (answer == SHORT && number > 1) number = 1;                       \
        return ORIGINAL(name)(file, parts, number);                          \
    }
WRAP_VECTOR(readv, "read")
WRAP_VECTOR(writev, "write")
#define WRAP_SENDFILE(name, offset)                                          \
    static void *kept_##name;                                                \
    ssize_t name(int file, int from, offset *at, size_t size) {              \
        enum answer answer = ask_file("write", file);                        \
        if (answer == PASS) answer = ask_file("read", from);                 \
        if (answer == FAIL) return -1;                                       \
        return ORIGINAL(name)(file, from, at, some(answer, size));           \
    }
WRAP_SENDFILE(sendfile, off_t)
WRAP_SENDFILE(sendfile64, off64_t)
static void *kept_copy_file_range;
ssize_t copy_file_range(int from, off64_t *start, int file, off64_t *at, size_t size, unsigned flags) {
    enum answer answer = ask_file("write", file);
    if (answer == PASS) answer = ask_file("read", from);
    if (answer == FAIL) return -1;
    return ORIGINAL(copy_file_range)(from, start, file, at, some(answer, size), flags);
}
WRAP(int, fsync, (int file), (file), ask_file("fsync", file), -1)
WRAP(int, fdatasync, (int file), (file), ask_file("fsync", file), -1)
WRAP(int, syncfs, (int file), (file), ask_file("fsync", file), -1)
WRAP_BOTH(int, ftruncate, (int file, off_t size), (file, size), ask_file("truncate", file), -1)
WRAP_BOTH(int, truncate, (const char *path, off_t size), (path, size), ask_path("truncate", AT_FDCWD, path), -1)
static void *kept_posix_fallocate, *kept_posix_fallocate64;
int posix_fallocate(int file, off_t at, off_t size) { /* its result is the errno */
    int before = errno, failed = ask_file("fallocate", file) == FAIL, error = errno;
    errno = before;
    return failed ? error : ORIGINAL(posix_fallocate)(file, at, size);
}
int posix_fallocate64(int file, off64_t at, off64_t size) {
    int before = errno, failed = ask_file("fallocate", file) == FAIL, error = errno;
    errno = before;
    return failed ? error : ORIGINAL(posix_fallocate64)(file, at, size);
}
WRAP_BOTH(void *, mmap, (void *where, size_t size, int guard, int flags, int file, off_t at),
          (where, size, guard, flags, file, at), ask_file("mmap", file), MAP_FAILED)

/* Names. */
WRAP(int, rename, (const char *path, const char *to), (path, to), ask_paths("rename", AT_FDCWD, path, AT_FDCWD, to), -1)
WRAP(int, renameat, (int folder, const char *path, int to_folder, const char *to), (folder, path, to_folder, to),
     ask_paths("rename", folder, path, to_folder, to), -1)
WRAP(int, renameat2, (int folder, const char *path, int to_folder, const char *to, unsigned flags),
     (folder, path, to_folder, to, flags), ask_paths("rename", folder, path, to_folder, to), -1)
WRAP(int, link, (const char *path, const char *to), (path, to), ask_paths("link", AT_FDCWD, path, AT_FDCWD, to), -1)
WRAP(int, linkat, (int folder, const char *path, int to_folder, const char *to, int flags),
     (folder, path, to_folder, to, flags), ask_paths("link", folder, path, to_folder, to), -1)
WRAP(int, symlink, (const char *target, const char *path), (target, path), ask_path("symlink", AT_FDCWD, path), -1)
WRAP(int, symlinkat, (const char *target, int folder, const char *path), (target, folder, path),
     ask_path("symlink", folder, path), -1)
WRAP(int, unlink, (const char *path), (path), ask_path("unlink", AT_FDCWD, path), -1)
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags),
     ask_path(flags & AT_REMOVEDIR ? "rmdir" : "unlink", folder, path), -1)
WRAP(int, remove, (const char *path), (path), ask_path("unlink", AT_FDCWD, path), -1)
WRAP(int, rmdir, (const char *path), (path), ask_path("rmdir", AT_FDCWD, path), -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), ask_path("mkdir", AT_FDCWD, path), -1)
WRAP(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode), ask_path("mkdir", folder, path),
     -1)
WRAP(ssize_t, readlink, (const char *path, char *target, size_t size), (path, target, size),
     ask_path("readlink", AT_FDCWD, path), -1)
WRAP(ssize_t, readlinkat, (int folder, const char *path, char *target, size_t size), (folder, path, target, size),
     ask_path("readlink", folder, path), -1)

/* Folders. */
WRAP(DIR *, opendir, (const char *path), (path), ask_path("opendir", AT_FDCWD, path), NULL)
WRAP(DIR *, fdopendir, (int file), (file), ask_file("opendir", file), NULL)
WRAP(struct dirent *, readdir, (DIR * folder), (folder), ask_file("readdir", dirfd(folder)), NULL)
WRAP(struct dirent64 *, readdir64, (DIR * folder), (folder), ask_file("readdir", dirfd(folder)), NULL)

/* What is known of files. */
WRAP(int, stat, (const char *path, struct stat *about), (path, about), ask_path("stat", AT_FDCWD, path), -1)
WRAP(int, stat64, (const char *path, struct stat64 *about), (path, about), ask_path("stat", AT_FDCWD, path), -1)
WRAP(int, lstat, (const char *path, struct stat *about), (path, about), ask_path("stat", AT_FDCWD, path), -1)
WRAP(int, lstat64, (const char *path, struct stat64 *about), (path, about), ask_path("stat", AT_FDCWD, path), -1)
WRAP(int, fstat, (int file, struct stat *about), (file, about), ask_file("stat", file), -1)
WRAP(int, fstat64, (int file, struct stat64 *about), (file, about), ask_file("stat", file), -1)
static enum answer ask_at(int folder, const char *path) {
    return path && !*path ? ask_file("stat", folder) : ask_path("stat", folder, path); /* "": the open file itself */
}
WRAP(int, fstatat, (int folder, const char *path, struct stat *about, int flags), (folder, path, about, flags),
     ask_at(folder, path), -1)
WRAP(int, fstatat64, (int folder, const char *path, struct stat64 *about, int flags), (folder, path, about, flags),
     ask_at(folder, path), -1)
WRAP(int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *about),
     (folder, path, flags, mask, about), ask_at(folder, path), -1)
/* The names that programs built with an older C library call. */
int __xstat(int version, const char *path, struct stat *about) { return (void)version, stat(path, about); }
int __lxstat(int version, const char *path, struct stat *about) { return (void)version, lstat(path, about); }
int __fxstat(int version, int file, struct stat *about) { return (void)version, fstat(file, about); }
int __xstat64(int version, const char *path, struct stat64 *about) { return (void)version, stat64(path, about); }
int __lxstat64(int version, const char *path, struct stat64 *about) { return (void)version, lstat64(path, about); }
int __fxstat64(int version, int file, struct stat64 *about) { return (void)version, fstat64(file, about); }
int __fxstatat(int version, int folder, const char *path, struct stat *about, int flags) {
    return (void)version, fstatat(folder, path, about, flags);
}
int __fxstatat64(int version, int folder, const char *path, struct stat64 *about, int flags) {
    return (void)version, fstatat64(folder, path, about, flags);
}
WRAP(int, access, (const char *path, int how), (path, how), ask_path("access", AT_FDCWD, path), -1)
WRAP(int, faccessat, (int folder, const char *path, int how, int flags), (folder, path, how, flags),
     ask_path("access", folder, path), -1)
WRAP(int, statvfs, (const char *path, struct statvfs *about), (path, about), ask_path("statvfs", AT_FDCWD, path), -1)
WRAP(int, statvfs64, (const char *path, struct statvfs64 *about), (path, about), ask_path("statvfs", AT_FDCWD, path),
     -1)
WRAP(int, fstatvfs, (int file, struct statvfs *about), (file, about), ask_file("statvfs", file), -1)
WRAP(int, fstatvfs64, (int file, struct statvfs64 *about), (file, about), ask_file("statvfs", file), -1)
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode), ask_path("chmod", AT_FDCWD, path), -1)
WRAP(int, fchmod, (int file, mode_t mode), (file, mode), ask_file("chmod", file), -1)
WRAP(int, fchmodat, (int folder, const char *path, mode_t mode, int flags), (folder, path, mode, flags),
     ask_path("chmod", folder, path), -1)
WRAP(int, chown, (const char *path, uid_t user, gid_t group), (path, user, group), ask_path("chown", AT_FDCWD, path),
     -1)
WRAP(int, lchown, (const char *path, uid_t user, gid_t group), (path, user, group), ask_path("chown", AT_FDCWD, path),
     -1)
WRAP(int, fchown, (int file, uid_t user, gid_t group), (file, user, group), ask_file("chown", file), -1)
WRAP(int, fchownat, (int folder, const char *path, uid_t user, gid_t group, int flags),
     (folder, path, user, group, flags), ask_path("chown", folder, path), -1)
WRAP(int, utimensat, (int folder, const char *path, const struct timespec times[2], int flags),
     (folder, path, times, flags), ask_path("utime", folder, path), -1)
WRAP(int, futimens, (int file, const struct timespec times[2]), (file, times), ask_file("utime", file), -1)

/* Locks. */
WRAP(int, flock, (int file, int how), (file, how), ask_file("lock", file), -1)
static void *kept_fcntl, *kept_fcntl64;
static int is_lock(int what) {
    return what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW;
}
#define WRAP_FCNTL(name)                                                         \
    int name(int file, int what, ...) {                                          \
        va_list more;                                                            \
        va_start(more, what);                                                    \
        void *value = va_arg(more, void *);                                      \
        va_end(more);                                                            \
        if (is_lock(what) && ask_file("lock", file) == FAIL) return -1;          \
        return ORIGINAL(name)(file, what, value);                                \
    }
WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)
