/* Loaded before the C library: keeps what each sync brought to disk, or kills the process at one operation.
 *
 * SHIM_COPIES=DIR    after each sync of a database or its log, the file is copied to DIR/NUMBER-NAME
 * SHIM_KILL=OP:END:N the process is killed in the Nth OP (write, sync, truncate) on a file whose name ends with END
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int copies, left = -1;

static const char *name_of(int file, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, size - 1);
    if (n < 0) return NULL;
    path[n] = 0;
    const char *name = strrchr(path, '/');
    return name ? name + 1 : path;
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int is_hit(const char *operation, int file) {
    const char *wanted = getenv("SHIM_KILL");
    char path[4096], op[16], end[64];
    int number, hit = 0;
    if (!wanted || sscanf(wanted, "%15[^:]:%63[^:]:%d", op, end, &number) != 3 || strcmp(op, operation)) return 0;
    const char *name = name_of(file, path, sizeof path);
    if (!name || !ends_with(name, end)) return 0;
    pthread_mutex_lock(&lock);
    if (left < 0) left = number;
    hit = --left == 0;
    pthread_mutex_unlock(&lock);
    return hit;
}

static void die(void) { kill(getpid(), SIGKILL); }

static void keep(int file) {
    const char *folder = getenv("SHIM_COPIES");
    char path[4096], target[4200], buffer[65536];
    const char *name = folder ? name_of(file, path, sizeof path) : NULL;
    if (!name || !(ends_with(name, ".db") || ends_with(name, ".db-wal"))) return;
    pthread_mutex_lock(&lock);
    snprintf(target, sizeof target, "%s/.new", folder);
    int out = open(target, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    off_t at = 0;
    ssize_t n;
    while ((n = pread(file, buffer, sizeof buffer, at)) > 0) {
        if (write(out, buffer, n) != n) abort();
        at += n;
    }
    close(out);
    char final[4200];
    snprintf(final, sizeof final, "%s/%06d-%s", folder, ++copies, name);
    rename(target, final);
    pthread_mutex_unlock(&lock);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int file) {
    if (is_hit("sync", file)) die();
    int found = REAL(fsync)(file);
    keep(file);
    return found;
}

int fdatasync(int file) {
    if (is_hit("sync", file)) die();
    int found = REAL(fdatasync)(file);
    keep(file);
    return found;
}

ssize_t pwrite64(int file, const void *content, size_t size, off64_t at) {
    if (is_hit("write", file)) {
        REAL(pwrite64)(file, content, size / 2, at);
        die();
    }
    return REAL(pwrite64)(file, content, size, at);
}

ssize_t pwrite(int file, const void *content, size_t size, off_t at) {
    if (is_hit("write", file)) {
        REAL(pwrite)(file, content, size / 2, at);
        die();
    }
    return REAL(pwrite)(file, content, size, at);
}

int ftruncate64(int file, off64_t size) {
    if (is_hit("truncate", file)) die();
    return REAL(ftruncate64)(file, size);
}

int ftruncate(int file, off_t size) {
    if (is_hit("truncate", file)) die();
    return REAL(ftruncate)(file, size);
}
