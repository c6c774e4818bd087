/* A slow disk for one program (LD_PRELOAD): while the file SLOW_DISK_FLAG exists, each write to a regular file and each
   fsync takes SLOW_DISK_MS longer. Sockets are not delayed. Built by chaos_fleet.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void delay(int fd)
{
    const char *flag = getenv("SLOW_DISK_FLAG"), *ms = getenv("SLOW_DISK_MS");
    struct stat found;
    if (!flag || !ms || access(flag, F_OK) || fstat(fd, &found) || !S_ISREG(found.st_mode))
        return;
    struct timespec pause = {atol(ms) / 1000, (atol(ms) % 1000) * 1000000L};
    nanosleep(&pause, NULL);
}

ssize_t write(int fd, const void *data, size_t size)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "write");
    delay(fd);
    return next(fd, data, size);
}

int fsync(int fd)
{
    static int (*next)(int);
    if (!next)
        next = dlsym(RTLD_NEXT, "fsync");
    delay(fd);
    return next(fd);
}

int fdatasync(int fd)
{
    static int (*next)(int);
    if (!next)
        next = dlsym(RTLD_NEXT, "fdatasync");
    delay(fd);
    return next(fd);
}
