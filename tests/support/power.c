/* Tells Python of every sync to disk, and lets it fill a disk: for tests of power cuts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static void (*told)(int fd, int done);
static char full[4096];
static __thread int inside;

void sherd_watch(void (*callback)(int, int)) { told = callback; }

void sherd_fill(const char *folder) { snprintf(full, sizeof full, "%s", folder); }

static void tell(int fd, int done) {
  if (told == NULL || inside) return;
  inside = 1;
  told(fd, done);
  inside = 0;
}

static int has_no_room(int fd) {
  char link[64], path[4096];
  ssize_t size;
  if (full[0] == 0 || inside) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return strncmp(path, full, strlen(full)) == 0;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define SYNC(name)              \
  int name(int fd) {            \
    REAL(name);                 \
    tell(fd, 0);                \
    int result = real(fd);      \
    if (result == 0) tell(fd, 1); \
    return result;              \
  }
#define WRITE(name, head, ...)  \
  ssize_t name head {           \
    REAL(name);                 \
    if (has_no_room(fd)) {      \
      errno = ENOSPC;           \
      return -1;                \
    }                           \
    return real(__VA_ARGS__);   \
  }

SYNC(fsync)
SYNC(fdatasync)
WRITE(write, (int fd, const void *data, size_t size), fd, data, size)
WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), fd, data, size, at)
WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t at), fd, data, size, at)
WRITE(writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
