/* A disk that a test can break, preloaded into the server. Acts on files below the directory
 * DISK_ROOT; the test sets what is wrong in the file DISK_CONTROL, as numbers of four bytes:
 *   [0] the error of each write      [1] the error of each sync      (0: none)
 *   [2] bytes that fit onto the disk, in KiB (0: any number)         [3] the error of a full disk
 *   [4] counts the syncs             [5] the error of each read      (0: none)
 * What is synced is copied to the directory DISK_SYNCED: the bytes of a file, the names of a
 * directory. That is what a power cut leaves. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_ERROR, SYNC_ERROR, CAPACITY_KIB, FULL_ERROR, SYNCS, READ_ERROR, FIELDS };

static volatile int32_t *control;
static const char *root, *synced;
static pthread_mutex_t copying = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
    root = getenv("DISK_ROOT");
    synced = getenv("DISK_SYNCED");
    const char *file = getenv("DISK_CONTROL");
    int fd = file ? open(file, O_RDWR) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, FIELDS * sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(fd);
}

/* The path of an open file below the root, relative to it; 0 if it is elsewhere. */
static int below_root(int fd, char *relative) {
    char link[64], path[PATH_MAX];
    if (!control || !root) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    size_t prefix = strlen(root);
    if (strncmp(path, root, prefix) != 0 || (path[prefix] != '/' && path[prefix] != 0)) return 0;
    strcpy(relative, path[prefix] ? path + prefix + 1 : "");
    return 1;
}

/* The bytes of all files of the directory that has this file. */
static int64_t used(const char *relative) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, relative);
    *strrchr(path, '/') = 0;
    DIR *dir = opendir(path);
    int64_t sum = 0;
    struct dirent *entry;
    struct stat stat;
    while (dir && (entry = readdir(dir)))
        if (fstatat(dirfd(dir), entry->d_name, &stat, 0) == 0 && S_ISREG(stat.st_mode))
            sum += stat.st_size;
    if (dir) closedir(dir);
    return sum;
}

/* The error of a write that ends at this offset (-1: at the end of what is there, and so many more). */
static int write_error(int fd, int64_t end, int64_t more) {
    char relative[PATH_MAX];
    struct stat stat;
    if (!below_root(fd, relative) || fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode)) return 0;
    int error = control[WRITE_ERROR];
    if (!error && control[CAPACITY_KIB]) {
        if (end < 0) end = (fcntl(fd, F_GETFL) & O_APPEND ? stat.st_size : lseek(fd, 0, SEEK_CUR)) + more;
        int64_t growth = end - stat.st_size;
        if (growth > 0 && used(relative) + growth > (int64_t)control[CAPACITY_KIB] * 1024)
            error = control[FULL_ERROR];
    }
    return error;
}

static int read_error(int fd) {
    char relative[PATH_MAX];
    struct stat stat;
    if (!control || !control[READ_ERROR] || !below_root(fd, relative)) return 0;
    return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) ? control[READ_ERROR] : 0;
}

#define REFUSE(error) do { int e = (error); if (e) { errno = e; return -1; } } while (0)

ssize_t read(int fd, void *bytes, size_t count) {
    REFUSE(read_error(fd));
    return REAL(read)(fd, bytes, count);
}
ssize_t pread64(int fd, void *bytes, size_t count, off64_t at) {
    REFUSE(read_error(fd));
    return REAL(pread64)(fd, bytes, count, at);
}
ssize_t write(int fd, const void *bytes, size_t count) {
    REFUSE(write_error(fd, -1, count));
    return REAL(write)(fd, bytes, count);
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    REFUSE(write_error(fd, at + count, 0));
    return REAL(pwrite)(fd, bytes, count, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    REFUSE(write_error(fd, at + count, 0));
    return REAL(pwrite64)(fd, bytes, count, at);
}
int ftruncate(int fd, off_t size) {
    REFUSE(write_error(fd, size, 0));
    return REAL(ftruncate)(fd, size);
}
int ftruncate64(int fd, off64_t size) {
    REFUSE(write_error(fd, size, 0));
    return REAL(ftruncate64)(fd, size);
}

/* A place for the copy: its path with % for /, then `suffix`. */
static FILE *copy_of(const char *relative, const char *suffix, char *path, char *made) {
    char name[PATH_MAX];
    strcpy(name, relative);
    for (char *c = name; *c; c++) if (*c == '/') *c = '%';
    snprintf(path, 2 * PATH_MAX, "%s/%s%s", synced, name, suffix);
    snprintf(made, 3 * PATH_MAX, "%s.new", path);
    return fopen(made, "w");
}

static void keep(int fd, const char *relative) {
    char path[2 * PATH_MAX], made[3 * PATH_MAX], buffer[65536];
    struct stat stat;
    if (fstat(fd, &stat) < 0) return;
    int is_dir = S_ISDIR(stat.st_mode);
    FILE *copy = copy_of(relative, is_dir ? "%names" : "", path, made);
    if (!copy) return;
    if (is_dir) {
        DIR *dir = fdopendir(openat(fd, ".", O_RDONLY));
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
            if (entry->d_name[0] != '.') fprintf(copy, "%c%s\n", entry->d_type == DT_DIR ? 'd' : 'f', entry->d_name);
        if (dir) closedir(dir);
    } else {
        ssize_t length;
        for (off_t at = 0; (length = pread(fd, buffer, sizeof buffer, at)) > 0; at += length)
            fwrite(buffer, 1, length, copy);
    }
    fclose(copy);
    rename(made, path);
}

static int sync_with(int (*sync)(int), int fd) {
    char relative[PATH_MAX];
    if (!below_root(fd, relative)) return sync(fd);
    if (control[SYNC_ERROR]) {
        errno = control[SYNC_ERROR];
        return -1;
    }
    int done = sync(fd);
    if (done == 0) {
        pthread_mutex_lock(&copying);
        if (synced) keep(fd, relative);
        pthread_mutex_unlock(&copying);
        __sync_fetch_and_add(&control[SYNCS], 1);
    }
    return done;
}
int fsync(int fd) { return sync_with(REAL(fsync), fd); }
int fdatasync(int fd) { return sync_with(REAL(fdatasync), fd); }
