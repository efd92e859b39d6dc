/* A file system that refuses calls, for LD_PRELOAD: REFUSE is "CALL,CALL ERRNO FOLDER". The calls fail
   with that number for paths and open files in the folder, and work everywhere else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a call about a path, relative to an open folder, is refused; it sets errno. */
static int at(const char *call, int folder, const char *path) {
    char names[64], wanted[64], listed[80], within[PATH_MAX], whole[2 * PATH_MAX], link[64];
    int number;
    const char *rule = getenv("REFUSE");
    if (!rule || !path || sscanf(rule, "%63s %d %4095s", names, &number, within) != 3) return 0;
    snprintf(wanted, sizeof wanted, ",%s,", call);
    snprintf(listed, sizeof listed, ",%s,", names);
    if (!strstr(listed, wanted)) return 0;
    if (path[0] == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(link, whole, PATH_MAX - 1);
        if (size < 0) return 0;
        snprintf(whole + size, sizeof whole - size, "/%s", path);
    }
    if (strncmp(whole, within, strlen(within))) return 0;
    errno = number;
    return 1;
}

static int of(const char *call, int file) { return file >= 0 && at(call, file, ""); }

/* "rename-folder" refuses to rename a folder. */
static int renamed(int folder, const char *path) {
    struct stat found;
    int is_folder = !fstatat(folder, path, &found, 0) && S_ISDIR(found.st_mode);
    return at("rename", folder, path) || (is_folder && at("rename-folder", folder, path));
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
#define CALL(type, name, refused, parameters, arguments) \
    type name parameters { return (refused) ? (type)-1 : REAL(name) arguments; }

CALL(int, chmod, at("chmod", AT_FDCWD, a), (const char *a, mode_t b), (a, b))
CALL(int, fchmod, of("chmod", a), (int a, mode_t b), (a, b))
CALL(int, fchmodat, at("chmod", a, b), (int a, const char *b, mode_t c, int d), (a, b, c, d))
CALL(int, fsync, of("fsync", a), (int a), (a))
CALL(int, fdatasync, of("fsync", a), (int a), (a))
CALL(int, flock, of("flock", a), (int a, int b), (a, b))
CALL(int, utimensat, at("utime", a, b), (int a, const char *b, const struct timespec c[2], int d), (a, b, c, d))
CALL(int, futimens, of("utime", a), (int a, const struct timespec b[2]), (a, b))
CALL(int, mkdir, at("mkdir", AT_FDCWD, a), (const char *a, mode_t b), (a, b))
CALL(int, mkdirat, at("mkdir", a, b), (int a, const char *b, mode_t c), (a, b, c))
CALL(int, rename, renamed(AT_FDCWD, a), (const char *a, const char *b), (a, b))
CALL(int, renameat, renamed(a, b), (int a, const char *b, int c, const char *d), (a, b, c, d))
CALL(int, link, at("link", AT_FDCWD, b), (const char *a, const char *b), (a, b))
CALL(int, linkat, at("link", c, d), (int a, const char *b, int c, const char *d, int e), (a, b, c, d, e))
CALL(int, symlink, at("link", AT_FDCWD, b), (const char *a, const char *b), (a, b))
CALL(int, symlinkat, at("link", b, c), (const char *a, int b, const char *c), (a, b, c))
CALL(int, unlink, at("unlink", AT_FDCWD, a), (const char *a), (a))
CALL(int, unlinkat, at(c & AT_REMOVEDIR ? "rmdir" : "unlink", a, b), (int a, const char *b, int c), (a, b, c))
CALL(int, rmdir, at("rmdir", AT_FDCWD, a), (const char *a), (a))
CALL(int, ftruncate, of("truncate", a), (int a, off_t b), (a, b))
CALL(int, ftruncate64, of("truncate", a), (int a, off64_t b), (a, b))
CALL(ssize_t, read, of("read", a), (int a, void *b, size_t c), (a, b, c))
CALL(ssize_t, write, of("write", a), (int a, const void *b, size_t c), (a, b, c))
CALL(void *, mmap, of("mmap", e), (void *a, size_t b, int c, int d, int e, off_t f), (a, b, c, d, e, f))
CALL(void *, mmap64, of("mmap", e), (void *a, size_t b, int c, int d, int e, off64_t f), (a, b, c, d, e, f))

/* "append" refuses to open a file to append to it. */
static int opened(int folder, const char *path, int flags) {
    return at("open", folder, path) || (flags & O_APPEND && at("append", folder, path));
}

#define MODE mode_t mode; va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more);
int open(const char *path, int flags, ...) {
    MODE return opened(AT_FDCWD, path, flags) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE return opened(AT_FDCWD, path, flags) ? -1 : REAL(open64)(path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
    MODE return opened(folder, path, flags) ? -1 : REAL(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
    MODE return opened(folder, path, flags) ? -1 : REAL(openat64)(folder, path, flags, mode);
}
