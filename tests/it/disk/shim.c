/* A disk that tests can break, preloaded into the server. Acts on files below the directory DISK_ROOT; the test
 * sets the faults in the file DISK_CONTROL, as numbers of four bytes:
 *   [0] the error of each write      [1] the error of each sync      (0: none)
 *   [2] bytes that fit onto the disk, in KiB (0: any number)         [3] the error of a full disk
 *   [4] counts the syncs             [5] the error of each read      (0: none)
 *   [6] counts the changes: writes, truncations, syncs, changes of names
 *   [7] kills the process at the change of this number               (0: never)
 *   [8] 0: before that change; 1: when half of its bytes are written, or after it if it writes none
 *   [9] seconds by which the monotonic clock is ahead
 *   [10] 1: kills the process after its next sync; the shim then sets 0
 *   [11] additional milliseconds of each sync
 *   [12] counts the syncs of regular files by fsync, which also writes the inode
 * Each sync copies to the directory DISK_SYNCED the bytes of a file or the names of a directory:
 * a power cut leaves these copies. `%gone` marks a copied file whose name was removed since: a later
 * file of the same name is a different file. With DISK_LENGTHS, each sync stores only the length of a file in
 * that directory, named by its inode. This is enough for files that only grow. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    WRITE_ERROR, SYNC_ERROR, CAPACITY_KIB, FULL_ERROR, SYNCS, READ_ERROR,
    CHANGES, CRASH_AT, CRASH_WITHIN, AHEAD, CRASH_SYNCED, SYNC_MILLIS, INODE_SYNCS, FIELDS
};

static volatile int32_t *control;
static const char *root, *synced, *lengths;
static pthread_mutex_t copying = PTHREAD_MUTEX_INITIALIZER;

/* Range written to a file since its last sync. */
static struct written { ino_t file; int64_t from, to; } writes[256];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Returns a copy, since a program that sets its title, as Redis does, overwrites its environment. */
static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value ? strdup(value) : NULL;
}

__attribute__((constructor)) static void start(void) {
    root = setting("DISK_ROOT");
    synced = setting("DISK_SYNCED");
    lengths = setting("DISK_LENGTHS");
    const char *file = getenv("DISK_CONTROL");
    int fd = file ? open(file, O_RDWR) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, FIELDS * sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(fd);
}

/* Returns whether a path is below the root, and writes its relative path. */
static int is_below_root(const char *path, char *relative) {
    if (!control || !root) return 0;
    size_t prefix = strlen(root);
    if (strncmp(path, root, prefix) != 0 || (path[prefix] != '/' && path[prefix] != 0)) return 0;
    strcpy(relative, path[prefix] ? path + prefix + 1 : "");
    return 1;
}

/* Returns whether an open file is below the root, and writes its relative path. */
static int below_root(int fd, char *relative) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below_root(path, relative);
}

static void crash(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts a change, and kills the process if it must end before this change. Returns whether it must end within it. */
static int ends_within(void) {
    int number = __sync_add_and_fetch(&control[CHANGES], 1);
    if (number != control[CRASH_AT]) return 0;
    if (!control[CRASH_WITHIN]) crash();
    return 1;
}

static int is_file_below_root(int fd) {
    char relative[PATH_MAX];
    struct stat stat;
    return below_root(fd, relative) && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
}

/* Returns the sum of the bytes of all files in this file's directory. */
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

/* Returns the error of a write that ends at this offset (-1: `more` bytes after the current offset). */
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

/* Returns the unsynced range of a file. For a file without one it is the whole file, as its earlier writes are unknown. */
static struct written *written(ino_t file) {
    struct written *of = writes;
    while (of < writes + 255 && of->file != file && of->file) of++;
    if (of->file != file) *of = (struct written){ file, 0, INT64_MAX };
    return of;
}

/* Records the `count` bytes written before `end` (-1: the current offset), if the write succeeded. */
static ssize_t note(int fd, ssize_t count, int64_t end) {
    char relative[PATH_MAX];
    struct stat stat;
    if (count < 0 || !synced || !below_root(fd, relative) || fstat(fd, &stat) < 0) return count;
    if (end < 0) end = fcntl(fd, F_GETFL) & O_APPEND ? stat.st_size : lseek(fd, 0, SEEK_CUR);
    pthread_mutex_lock(&copying);
    struct written *of = written(stat.st_ino);
    if (end - count < of->from) of->from = end - count;
    if (end > of->to) of->to = end;
    pthread_mutex_unlock(&copying);
    return count;
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
/* Changes a file. If the process must end within the change, makes only the change `half`, and crashes. */
#define CHANGE(fd, half, whole) do { \
    if (is_file_below_root(fd) && ends_within()) { \
        (void)!(half); \
        crash(); \
    } \
    return whole; \
} while (0)

ssize_t write(int fd, const void *bytes, size_t count) {
    REFUSE(write_error(fd, -1, count));
    CHANGE(fd, REAL(write)(fd, bytes, count / 2), note(fd, REAL(write)(fd, bytes, count), -1));
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    REFUSE(write_error(fd, at + count, 0));
    CHANGE(fd, REAL(pwrite)(fd, bytes, count / 2, at), note(fd, REAL(pwrite)(fd, bytes, count, at), at + count));
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    REFUSE(write_error(fd, at + count, 0));
    CHANGE(fd, REAL(pwrite64)(fd, bytes, count / 2, at), note(fd, REAL(pwrite64)(fd, bytes, count, at), at + count));
}
int ftruncate(int fd, off_t size) {
    REFUSE(write_error(fd, size, 0));
    CHANGE(fd, REAL(ftruncate)(fd, size), REAL(ftruncate)(fd, size));
}
int ftruncate64(int fd, off64_t size) {
    REFUSE(write_error(fd, size, 0));
    CHANGE(fd, REAL(ftruncate64)(fd, size), REAL(ftruncate64)(fd, size));
}

/* Writes the path of a copy: the relative path with % for /, then `suffix`. */
static void copy_of(const char *relative, const char *suffix, char *path) {
    char name[PATH_MAX];
    strcpy(name, relative);
    for (char *c = name; *c; c++) if (*c == '/') *c = '%';
    snprintf(path, 2 * PATH_MAX, "%s/%s%s", synced, name, suffix);
}

static void keep_names(int fd, const char *relative) {
    char path[2 * PATH_MAX], made[3 * PATH_MAX];
    copy_of(relative, "%names", path);
    snprintf(made, sizeof made, "%s.new", path);
    FILE *copy = fopen(made, "w");
    if (!copy) return;
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY));
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.') fprintf(copy, "%c%s\n", entry->d_type == DT_DIR ? 'd' : 'f', entry->d_name);
    if (dir) closedir(dir);
    fclose(copy);
    rename(made, path);
}

/* Copies the range written since the last sync. If the process is killed meanwhile, a part is synced, as in a power cut. */
static void keep_bytes(int fd, const char *relative, const struct stat *stat) {
    char path[2 * PATH_MAX], buffer[65536];
    struct written *of = written(stat->st_ino);
    copy_of(relative, "", path);
    int copy = open(path, O_WRONLY | O_CREAT, 0644);
    if (copy < 0) return;
    for (int64_t at = of->from; at < of->to;) {
        int64_t most = of->to - at < (int64_t)sizeof buffer ? of->to - at : (int64_t)sizeof buffer;
        ssize_t length = REAL(pread)(fd, buffer, most, at);
        if (length <= 0 || REAL(pwrite)(copy, buffer, length, at) != length) break;
        at += length;
    }
    if (REAL(ftruncate)(copy, stat->st_size) == 0) *of = (struct written){ stat->st_ino, INT64_MAX, 0 };
    close(copy);
    copy_of(relative, "%gone", path);
    unlink(path);
}

static void keep_length(const struct stat *stat) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%lu", lengths, (unsigned long)stat->st_ino);
    int file = open(path, O_WRONLY | O_CREAT, 0644);
    if (file < 0) return;
    int64_t length = stat->st_size;
    if (REAL(pwrite)(file, &length, sizeof length, 0) != sizeof length) abort();
    close(file);
}

static int sync_with(int (*sync)(int), int fd) {
    char relative[PATH_MAX];
    if (!below_root(fd, relative)) return sync(fd);
    if (control[SYNC_ERROR]) {
        errno = control[SYNC_ERROR];
        return -1;
    }
    int ends = ends_within();
    usleep(control[SYNC_MILLIS] * 1000);
    struct stat stat;
    // Lengths need no lock. With one, a child forked while another thread holds it would wait forever.
    if (synced) pthread_mutex_lock(&copying);
    int known = fstat(fd, &stat) == 0, done = sync(fd);
    if (done == 0 && known) {
        if (synced && S_ISDIR(stat.st_mode)) keep_names(fd, relative);
        else if (synced) keep_bytes(fd, relative, &stat);
        if (lengths && S_ISREG(stat.st_mode)) keep_length(&stat);
    }
    if (synced) pthread_mutex_unlock(&copying);
    if (done == 0) __sync_fetch_and_add(&control[SYNCS], 1);
    if (done == 0 && known && S_ISREG(stat.st_mode) && sync == REAL(fsync)) __sync_fetch_and_add(&control[INODE_SYNCS], 1);
    if (ends || (done == 0 && __sync_bool_compare_and_swap(&control[CRASH_SYNCED], 1, 0))) crash();
    return done;
}
int fsync(int fd) { return sync_with(REAL(fsync), fd); }
int fdatasync(int fd) { return sync_with(REAL(fdatasync), fd); }

int unlink(const char *path) {
    char relative[PATH_MAX], mark[2 * PATH_MAX];
    if (!is_below_root(path, relative)) return REAL(unlink)(path);
    int ends = ends_within();
    int done = REAL(unlink)(path);
    if (done == 0 && synced) {
        copy_of(relative, "%gone", mark);
        close(open(mark, O_WRONLY | O_CREAT, 0644));
    }
    if (ends) crash();
    return done;
}
int rename(const char *from, const char *to) {
    char relative[PATH_MAX];
    if (!is_below_root(to, relative)) return REAL(rename)(from, to);
    int ends = ends_within();
    int done = REAL(rename)(from, to);
    if (ends) crash();
    return done;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = REAL(clock_gettime);
    int done = real(clock, now);
    if (done == 0 && control && clock == CLOCK_MONOTONIC) now->tv_sec += control[AHEAD];
    return done;
}
