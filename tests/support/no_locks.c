// A file system without locks, as NFS without a lock daemon: every lock answers NOLOCK_ERRNO.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

static int refused(void) {
    errno = atoi(getenv("NOLOCK_ERRNO"));
    return -1;
}

int flock(int fd, int operation) {
    return refused();
}

int lockf(int fd, int command, off_t length) {
    return refused();
}

static int passed(const char *name, int fd, int command, void *argument) {
    if (command == F_SETLK || command == F_SETLKW) return refused();
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    return real(fd, command, argument);
}

int fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return passed("fcntl", fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return passed("fcntl64", fd, command, argument);
}
