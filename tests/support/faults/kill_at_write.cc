// Stands before the C library (LD_PRELOAD) and ends the process with SIGKILL at its n-th change of
// files whose path holds a given text: before, in the middle of, or right after that change.
//
// fault_every_write.py arms it, by arm() in a process that it forked or by the environment in one
// of several ranks.  Every change adds a letter to a log: w data, o others that are made whole.

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<long> changes{0};
long last = -1;     // the change to strike at; none below 0
char moment = 'b';  // b before, m in the middle, a after
char watched[256];  // text that paths hold; nothing is watched while it is empty
int log_file = -1;

void arm_from_environment() __attribute__((constructor));

template <typename Function>
Function *real(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

[[noreturn]] void strike() {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

bool is_watched(const char *path) {
    return watched[0] && path && strstr(path, watched);
}

bool is_watched(int fd) {
    if (!watched[0] || fd == log_file) return false;
    char link[64] = "/proc/self/fd/", path[PATH_MAX];
    char digits[16];
    int n = 0, at = static_cast<int>(strlen(link));
    for (int rest = fd; n == 0 || rest; rest /= 10)
        digits[n++] = static_cast<char>('0' + rest % 10);
    while (n) link[at++] = digits[--n];
    link[at] = 0;
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return false;
    path[length] = 0;
    return is_watched(path);
}

// Counts a change; whether to strike in it.
bool counted(char kind) {
    const long number = changes++;
    if (log_file >= 0) syscall(SYS_write, log_file, &kind, 1);
    return number == last;
}

// A change that is made whole or not at all.
template <typename Call>
auto whole(bool seen, Call call) {
    const bool now = seen && counted('o');
    if (now && moment != 'a') strike();
    const auto result = call();
    if (now) strike();
    return result;
}

// Data: `call` writes so many of the bytes.
template <typename Call>
ssize_t data(int fd, size_t bytes, Call call) {
    const bool now = is_watched(fd) && counted('w');
    if (now && moment == 'b') strike();
    const ssize_t result = call(now && moment == 'm' ? bytes / 2 : bytes);
    if (now) strike();
    return result;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void arm(const char *text, long number, char when,
                                                const char *log) {
    strncpy(watched, text, sizeof watched - 1);
    last = number;
    moment = when;
    changes = 0;
    if (log && *log) {
        log_file = static_cast<int>(
            syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    }
}

ssize_t write(int fd, const void *from, size_t bytes) {
    static auto *next = real<ssize_t(int, const void *, size_t)>("write");
    return data(fd, bytes, [&](size_t n) { return next(fd, from, n); });
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at) {
    static auto *next = real<ssize_t(int, const void *, size_t, off_t)>("pwrite");
    return data(fd, bytes, [&](size_t n) { return next(fd, from, n, at); });
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at) {
    static auto *next = real<ssize_t(int, const void *, size_t, off64_t)>("pwrite64");
    return data(fd, bytes, [&](size_t n) { return next(fd, from, n, at); });
}

// The middle of a list of pieces is its first piece.
ssize_t writev(int fd, const iovec *pieces, int count) {
    static auto *next = real<ssize_t(int, const iovec *, int)>("writev");
    return data(fd, 2, [&](size_t n) { return next(fd, pieces, n == 1 ? 1 : count); });
}

ssize_t sendfile(int to, int from, off_t *at, size_t bytes) {
    static auto *next = real<ssize_t(int, int, off_t *, size_t)>("sendfile");
    return data(to, bytes, [&](size_t n) { return next(to, from, at, n); });
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t bytes) {
    static auto *next = real<ssize_t(int, int, off64_t *, size_t)>("sendfile64");
    return data(to, bytes, [&](size_t n) { return next(to, from, at, n); });
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t bytes,
                        unsigned flags) {
    static auto *next =
        real<ssize_t(int, off64_t *, int, off64_t *, size_t, unsigned)>("copy_file_range");
    return data(to, bytes, [&](size_t n) { return next(from, at, to, there, n, flags); });
}

int ftruncate(int fd, off_t length) {
    static auto *next = real<int(int, off_t)>("ftruncate");
    return whole(is_watched(fd), [&] { return next(fd, length); });
}

int ftruncate64(int fd, off64_t length) {
    static auto *next = real<int(int, off64_t)>("ftruncate64");
    return whole(is_watched(fd), [&] { return next(fd, length); });
}

int rename(const char *from, const char *to) {
    static auto *next = real<int(const char *, const char *)>("rename");
    return whole(is_watched(to), [&] { return next(from, to); });
}

int link(const char *from, const char *to) {
    static auto *next = real<int(const char *, const char *)>("link");
    return whole(is_watched(to), [&] { return next(from, to); });
}

int unlink(const char *path) {
    static auto *next = real<int(const char *)>("unlink");
    return whole(is_watched(path), [&] { return next(path); });
}

int mkdir(const char *path, mode_t mode) {
    static auto *next = real<int(const char *, mode_t)>("mkdir");
    return whole(is_watched(path), [&] { return next(path, mode); });
}

int rmdir(const char *path) {
    static auto *next = real<int(const char *)>("rmdir");
    return whole(is_watched(path), [&] { return next(path); });
}

int renameat(int from_at, const char *from, int to_at, const char *to) {
    static auto *next = real<int(int, const char *, int, const char *)>("renameat");
    return whole(is_watched(to), [&] { return next(from_at, from, to_at, to); });
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    static auto *next = real<int(int, const char *, int, const char *, int)>("linkat");
    return whole(is_watched(to), [&] { return next(from_at, from, to_at, to, flags); });
}

// Relative to a folder that is open, as a tree is removed.
int unlinkat(int at, const char *path, int flags) {
    static auto *next = real<int(int, const char *, int)>("unlinkat");
    const bool seen = is_watched(path) || (at != AT_FDCWD && is_watched(at));
    return whole(seen, [&] { return next(at, path, flags); });
}

static mode_t mode_of(int flags, va_list more) {
    return flags & O_CREAT ? static_cast<mode_t>(va_arg(more, int)) : 0;
}

static bool changes_what_is_there(const char *path, int flags) {
    return is_watched(path) &&
           ((flags & O_TRUNC) || ((flags & O_CREAT) && syscall(SYS_access, path, F_OK) != 0));
}

int open(const char *path, int flags, ...) {
    static auto *next = real<int(const char *, int, ...)>("open");
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return whole(changes_what_is_there(path, flags), [&] { return next(path, flags, mode); });
}

int open64(const char *path, int flags, ...) {
    static auto *next = real<int(const char *, int, ...)>("open64");
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return whole(changes_what_is_there(path, flags), [&] { return next(path, flags, mode); });
}

}  // extern "C"

namespace {

void arm_from_environment() {
    const char *rank = getenv("PMI_RANK");
    if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *victim = getenv("TAUSLAB_KILL_RANK"), *text = getenv("TAUSLAB_KILL_PATH");
    if (!rank || !victim || !text || strcmp(rank, victim) != 0) return;
    const char *number = getenv("TAUSLAB_KILL_AT"), *when = getenv("TAUSLAB_KILL_WHEN");
    arm(text, number ? atol(number) : -1, when ? *when : 'b', getenv("TAUSLAB_KILL_LOG"));
    unsetenv("TAUSLAB_KILL_RANK");  // programs that this one starts are left alone
}

}  // namespace
