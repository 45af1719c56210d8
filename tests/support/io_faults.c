/* A disk with faults, for tests. Preloaded (LD_PRELOAD) into every process of a run.

   All processes map the file that IO_FAULTS names (struct control below; io_faults.py has the same layout), so they
   share one disk, and a test changes it while they run:

     a small disk      what does not fit into `free_bytes` is refused with `error`
     a strike          the call number `strike_at` of the process with the role `strike_role` fails, is cut short, or
                       kills its process or all; calls are counted for each role
     a log             each change of the folder and each flush is appended to `log`: what a power cut can take

   Only what lies below `folder` counts. Writes of C's stdio are not seen (glibc calls its own write), nor what is
   written through a mapping; Python, SQLite, Arrow, HDF5 and Rust call the functions below. */
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS
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
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROLES 64

enum action { NOTHING, FAIL, CUT_SHORT, KILL, KILL_AFTER, KILL_HALFWAY, KILL_ALL, FILL_UP };

struct control {
  int64_t free_bytes, error, removing_frees, refused;
  int64_t strike_role, strike_at, strike_action, strike_error;
  int64_t struck, all_dead;
  int64_t calls[ROLES];
  char folder[PATH_MAX];
  char log[PATH_MAX];
  char struck_at[PATH_MAX]; /* the call and the path that were struck */
};

static int64_t role = ROLES - 1;

/* Called by a process that knows what it does: from then on its calls count for this role. */
void io_faults_role(int number) { role = number; }

static struct control *the_disk(void) {
  static struct control *found;
  static int looked;
  if (!looked) {
    const char *name = getenv("IO_FAULTS");
    int handle = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0) : -1;
    if (handle >= 0) {
      void *at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
      syscall(SYS_close, handle);
      if (at != MAP_FAILED) found = at;
    }
    looked = 1;
  }
  return found;
}

static int below(const struct control *disk, const char *path) {
  size_t length = strlen(disk->folder);
  return !strncmp(path, disk->folder, length) && (path[length] == '/' || !path[length]);
}

/* The path of an open file below the folder; 0 when it is none. */
static int path_of(const struct control *disk, int handle, char *path) {
  char link[64];
  int saved = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  errno = saved;
  if (length <= 0) return 0;
  path[length] = 0;
  return below(disk, path);
}

/* The whole path of a name, also of one that is given relative to a folder; 0 when it is not below the folder. */
static int path_at(const struct control *disk, int folder, const char *name, char *path) {
  char link[64];
  ssize_t length = 0;
  int saved = errno;
  if (name[0] != '/') {
    if (folder == AT_FDCWD) strcpy(link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    length = readlink(link, path, PATH_MAX - 2);
    errno = saved;
    if (length <= 0) return 0;
    path[length++] = '/';
  }
  return snprintf(path + length, (size_t)(PATH_MAX - length), "%s", name) < PATH_MAX - length && below(disk, path);
}

static int64_t total(const struct iovec *pieces, int count) {
  int64_t sum = 0;
  for (int i = 0; i < count; i++) sum += (int64_t)pieces[i].iov_len;
  return sum;
}

static int64_t position(int handle) {
  int flags = fcntl(handle, F_GETFL);
  struct stat now;
  if (flags >= 0 && flags & O_APPEND && !fstat(handle, &now)) return now.st_size;
  return lseek(handle, 0, SEEK_CUR);
}

static int64_t growth(int handle, int64_t end) {
  struct stat now;
  if (fstat(handle, &now) || !S_ISREG(now.st_mode)) return 0;
  return end > now.st_size ? end - now.st_size : 0;
}

static int takes(struct control *disk, int64_t bytes) {
  if (bytes <= 0) return 1;
  if (__atomic_sub_fetch(&disk->free_bytes, bytes, __ATOMIC_SEQ_CST) >= 0) return 1;
  __atomic_add_fetch(&disk->free_bytes, bytes, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&disk->refused, 1, __ATOMIC_SEQ_CST);
  errno = (int)disk->error;
  return 0;
}

/* --- strikes ------------------------------------------------------------------------------------------------------ */

enum kind { OPENS, READS, WRITES, FLUSHES, NAMES, REMOVES };

static void die(void) {
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) pause();
}

static int error_for(enum kind kind, int wanted) {
  if (wanted == EMFILE && kind != OPENS) return EIO;
  if (wanted == ENOSPC && (kind == READS || kind == REMOVES)) return EIO;
  return wanted;
}

/* Count a call; what is to become of it. Does not return when its process is killed before it; FAIL sets errno. */
static enum action judged(struct control *disk, const char *call, enum kind kind, const char *path) {
  if (__atomic_load_n(&disk->all_dead, __ATOMIC_SEQ_CST)) die();
  int64_t number = __atomic_add_fetch(&disk->calls[role], 1, __ATOMIC_SEQ_CST);
  int64_t action = disk->strike_action;
  if (action == NOTHING || disk->strike_role != role || disk->strike_at != number) return NOTHING;
  snprintf(disk->struck_at, sizeof disk->struck_at, "%s %s", call, path);
  __atomic_add_fetch(&disk->struck, 1, __ATOMIC_SEQ_CST);
  if (action == KILL_ALL) __atomic_store_n(&disk->all_dead, 1, __ATOMIC_SEQ_CST);
  if (action == KILL || action == KILL_ALL || (action == KILL_HALFWAY && kind != WRITES)) die();
  if (action == FILL_UP) {
    __atomic_store_n(&disk->free_bytes, 0, __ATOMIC_SEQ_CST);
    return NOTHING;
  }
  if (action == FAIL || (action == CUT_SHORT && kind != WRITES)) {
    errno = error_for(kind, (int)disk->strike_error);
    return FAIL;
  }
  return (enum action)action;
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

struct record {
  uint32_t operation, path_length, other_length;
  uint32_t role;
  uint64_t inode;
  int64_t offset, length;
};

static void log_change(struct control *disk, char operation, uint64_t inode, int64_t offset, const char *path,
                       const char *other, const struct iovec *data, int count, int64_t length) {
  int saved = errno;
  struct iovec pieces[40];
  int64_t left = data ? length : 0;
  int used = 3;
  struct record record = {(uint32_t)operation, (uint32_t)strlen(path), (uint32_t)strlen(other), (uint32_t)role,
                          inode, offset, length};
  pieces[0] = (struct iovec){&record, sizeof record};
  pieces[1] = (struct iovec){(void *)path, record.path_length};
  pieces[2] = (struct iovec){(void *)other, record.other_length};
  char *joined = NULL;
  if (data && count > 30) { /* too many pieces for one record: in one */
    joined = malloc((size_t)left);
    for (int64_t at = 0, i = 0; at < left; i++) {
      int64_t part = (int64_t)data[i].iov_len < left - at ? (int64_t)data[i].iov_len : left - at;
      memcpy(joined + at, data[i].iov_base, (size_t)part);
      at += part;
    }
    pieces[used++] = (struct iovec){joined, (size_t)left};
  } else {
    for (int i = 0; data && i < count && left > 0; i++) {
      size_t part = (int64_t)data[i].iov_len < left ? data[i].iov_len : (size_t)left;
      pieces[used++] = (struct iovec){data[i].iov_base, part};
      left -= (int64_t)part;
    }
  }
  long handle = syscall(SYS_openat, AT_FDCWD, disk->log, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
  if (handle >= 0) {
    syscall(SYS_writev, handle, pieces, used);
    syscall(SYS_close, handle);
  }
  free(joined);
  errno = saved;
}

static uint64_t inode_of(int handle) {
  struct stat now;
  int saved = errno;
  int status = fstat(handle, &now);
  errno = saved;
  return status ? 0 : (uint64_t)now.st_ino;
}

static void log_write(struct control *disk, int handle, const char *path, int64_t at, const struct iovec *data,
                      int count, int64_t length) {
  if (disk->log[0] && length > 0) log_change(disk, 'W', inode_of(handle), at, path, "", data, count, length);
}

/* What another call has put into a file: read back from there. */
static void log_copied(struct control *disk, int handle, const char *path, int64_t at, int64_t length) {
  if (!disk->log[0] || length <= 0) return;
  char *data = malloc((size_t)length);
  long reader = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  int64_t found = reader < 0 ? 0 : syscall(SYS_pread64, reader, data, length, at);
  struct iovec piece = {data, (size_t)found};
  log_write(disk, handle, path, at, &piece, 1, found);
  if (reader >= 0) syscall(SYS_close, reader);
  free(data);
}

static void log_name(struct control *disk, char operation, const char *path, const char *other) {
  if (disk->log[0]) log_change(disk, operation, 0, 0, path, other, NULL, 0, 0);
}

static void log_size(struct control *disk, int handle, const char *path, int64_t size) {
  if (disk->log[0]) log_change(disk, 'T', inode_of(handle), size, path, "", NULL, 0, 0);
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

#define NEXT(name) \
  static __typeof__(&name) next; \
  if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A call that writes `length` bytes at `at`: `half` is the same call with half of it, `call` the whole one. */
#define WRITE(handle, data, count, length, at, half, call) \
  do { \
    struct control *disk = the_disk(); \
    char path[PATH_MAX]; \
    if (!disk || !path_of(disk, handle, path)) return call; \
    int saved = errno; \
    int64_t begin = (at); \
    errno = saved; \
    enum action action = judged(disk, __func__, WRITES, path); \
    if (action == FAIL || !takes(disk, growth(handle, begin + (int64_t)(length)))) return -1; \
    ssize_t done = action == CUT_SHORT || action == KILL_HALFWAY ? half : call; \
    log_write(disk, handle, path, begin, data, count, done); \
    if (action == KILL_AFTER || action == KILL_HALFWAY) die(); \
    return done; \
  } while (0)

#define HALF(length) ((length) > 1 ? (length) / 2 : (length))

/* The first half of the pieces; a single one is halved. */
static int halved(const struct iovec *pieces, int count, struct iovec *out) {
  int used = count > 1 ? count / 2 : count;
  if (used > IOV_MAX) used = IOV_MAX;
  memcpy(out, pieces, (size_t)used * sizeof *out);
  if (count == 1) out[0].iov_len = HALF(out[0].iov_len);
  return used;
}

ssize_t write(int handle, const void *data, size_t length) {
  NEXT(write);
  struct iovec piece = {(void *)data, length};
  WRITE(handle, &piece, 1, length, position(handle), next(handle, data, HALF(length)), next(handle, data, length));
}

ssize_t writev(int handle, const struct iovec *pieces, int count) {
  NEXT(writev);
  struct iovec first[IOV_MAX];
  WRITE(handle, pieces, count, total(pieces, count), position(handle),
        next(handle, first, halved(pieces, count, first)), next(handle, pieces, count));
}

#define POSITIONED_WRITE(name, offset) \
  ssize_t name(int handle, const void *data, size_t length, offset at) { \
    NEXT(name); \
    struct iovec piece = {(void *)data, length}; \
    WRITE(handle, &piece, 1, length, at, next(handle, data, HALF(length), at), next(handle, data, length, at)); \
  }
POSITIONED_WRITE(pwrite, off_t)
POSITIONED_WRITE(pwrite64, off64_t)

#define POSITIONED_WRITEV(name, offset) \
  ssize_t name(int handle, const struct iovec *pieces, int count, offset at) { \
    NEXT(name); \
    struct iovec first[IOV_MAX]; \
    WRITE(handle, pieces, count, total(pieces, count), at, next(handle, first, halved(pieces, count, first), at), \
          next(handle, pieces, count, at)); \
  }
POSITIONED_WRITEV(pwritev, off_t)
POSITIONED_WRITEV(pwritev64, off64_t)

#define POSITIONED_WRITEV2(name, offset) \
  ssize_t name(int handle, const struct iovec *pieces, int count, offset at, int flags) { \
    NEXT(name); \
    struct iovec first[IOV_MAX]; \
    WRITE(handle, pieces, count, total(pieces, count), at, \
          next(handle, first, halved(pieces, count, first), at, flags), next(handle, pieces, count, at, flags)); \
  }
POSITIONED_WRITEV2(pwritev2, off_t)
POSITIONED_WRITEV2(pwritev64v2, off64_t)

/* A call that copies into a file: `call` the whole, `half` a half. */
#define COPY(out, length, at, half, call) \
  do { \
    struct control *disk = the_disk(); \
    char path[PATH_MAX]; \
    if (!disk || !path_of(disk, out, path)) return call; \
    int64_t begin = (at); \
    enum action action = judged(disk, __func__, WRITES, path); \
    if (action == FAIL || !takes(disk, growth(out, begin + (int64_t)(length)))) return -1; \
    ssize_t done = action == CUT_SHORT || action == KILL_HALFWAY ? half : call; \
    log_copied(disk, out, path, begin, done); \
    if (action == KILL_AFTER || action == KILL_HALFWAY) die(); \
    return done; \
  } while (0)

static int64_t left_in(int in, size_t length) {
  struct stat source;
  return fstat(in, &source) || (int64_t)length < source.st_size ? (int64_t)length : source.st_size;
}

ssize_t sendfile(int out, int in, off_t *from, size_t length) {
  NEXT(sendfile);
  COPY(out, left_in(in, length), position(out), next(out, in, from, HALF(length)), next(out, in, from, length));
}

ssize_t sendfile64(int out, int in, off64_t *from, size_t length) {
  NEXT(sendfile64);
  COPY(out, left_in(in, length), position(out), next(out, in, from, HALF(length)), next(out, in, from, length));
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *at, size_t length, unsigned flags) {
  NEXT(copy_file_range);
  COPY(out, length, at ? *at : position(out), next(in, from, out, at, HALF(length), flags),
       next(in, from, out, at, length, flags));
}

/* A call on an open file that is neither a write nor a read. `refused` is what it gives when it fails. */
#define ON_FILE(handle, kind, more, refused, call, logged) \
  do { \
    struct control *disk = the_disk(); \
    char path[PATH_MAX]; \
    if (!disk || !path_of(disk, handle, path)) return call; \
    enum action action = judged(disk, __func__, kind, path); \
    if (action == FAIL || !takes(disk, more)) return refused; \
    int status = call; \
    if (!status && disk->log[0]) { logged; } \
    if (action == KILL_AFTER) die(); \
    return status; \
  } while (0)

int fallocate(int handle, int mode, off_t at, off_t length) {
  NEXT(fallocate);
  ON_FILE(handle, WRITES, growth(handle, at + length), -1, next(handle, mode, at, length),
          log_copied(disk, handle, path, at, length));
}

int fallocate64(int handle, int mode, off64_t at, off64_t length) {
  NEXT(fallocate64);
  ON_FILE(handle, WRITES, growth(handle, at + length), -1, next(handle, mode, at, length),
          log_copied(disk, handle, path, at, length));
}

/* These two give the errno back instead of setting it. */
int posix_fallocate(int handle, off_t at, off_t length) {
  NEXT(posix_fallocate);
  ON_FILE(handle, WRITES, growth(handle, at + length), errno, next(handle, at, length),
          log_copied(disk, handle, path, at, length));
}

int posix_fallocate64(int handle, off64_t at, off64_t length) {
  NEXT(posix_fallocate64);
  ON_FILE(handle, WRITES, growth(handle, at + length), errno, next(handle, at, length),
          log_copied(disk, handle, path, at, length));
}

int ftruncate(int handle, off_t size) {
  NEXT(ftruncate);
  ON_FILE(handle, WRITES, 0, -1, next(handle, size), log_size(disk, handle, path, size));
}

int ftruncate64(int handle, off64_t size) {
  NEXT(ftruncate64);
  ON_FILE(handle, WRITES, 0, -1, next(handle, size), log_size(disk, handle, path, size));
}

#define LOG_FLUSH(mark) log_change(disk, mark, inode_of(handle), 0, path, "", NULL, 0, 0)

int fsync(int handle) {
  NEXT(fsync);
  ON_FILE(handle, FLUSHES, 0, -1, next(handle), LOG_FLUSH('F'));
}

int fdatasync(int handle) {
  NEXT(fdatasync);
  ON_FILE(handle, FLUSHES, 0, -1, next(handle), LOG_FLUSH('F'));
}

int syncfs(int handle) {
  NEXT(syncfs);
  ON_FILE(handle, FLUSHES, 0, -1, next(handle), LOG_FLUSH('A'));
}

#define READ(handle, call) \
  do { \
    struct control *disk = the_disk(); \
    char path[PATH_MAX]; \
    if (!disk || !path_of(disk, handle, path)) return call; \
    enum action action = judged(disk, __func__, READS, path); \
    if (action == FAIL) return -1; \
    ssize_t done = call; \
    if (action == KILL_AFTER) die(); \
    return done; \
  } while (0)

ssize_t read(int handle, void *data, size_t length) {
  NEXT(read);
  READ(handle, next(handle, data, length));
}

ssize_t pread(int handle, void *data, size_t length, off_t at) {
  NEXT(pread);
  READ(handle, next(handle, data, length, at));
}

ssize_t pread64(int handle, void *data, size_t length, off64_t at) {
  NEXT(pread64);
  READ(handle, next(handle, data, length, at));
}

ssize_t readv(int handle, const struct iovec *pieces, int count) {
  NEXT(readv);
  READ(handle, next(handle, pieces, count));
}

ssize_t preadv(int handle, const struct iovec *pieces, int count, off_t at) {
  NEXT(preadv);
  READ(handle, next(handle, pieces, count, at));
}

ssize_t preadv64(int handle, const struct iovec *pieces, int count, off64_t at) {
  NEXT(preadv64);
  READ(handle, next(handle, pieces, count, at));
}

/* Opening: a file that is made, or emptied, is a change. */
#define OPEN(folder, name, flags, call) \
  do { \
    struct control *disk = the_disk(); \
    char path[PATH_MAX]; \
    if (!disk || (flags) & O_PATH || !path_at(disk, folder, name, path)) return call; \
    struct stat before; \
    int saved = errno; \
    int is_new = (flags) & O_CREAT && lstat(path, &before); \
    errno = saved; \
    enum action action = judged(disk, __func__, OPENS, path); \
    if (action == FAIL) return -1; \
    int handle = call; \
    if (handle >= 0 && disk->log[0]) { \
      if (is_new) log_change(disk, 'C', inode_of(handle), 0, path, "", NULL, 0, 0); \
      else if ((flags) & O_TRUNC) log_size(disk, handle, path, 0); \
    } \
    if (action == KILL_AFTER) die(); \
    return handle; \
  } while (0)

#define MODE \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *name, int flags, ...) {
  NEXT(open);
  MODE OPEN(AT_FDCWD, name, flags, next(name, flags, mode));
}

int open64(const char *name, int flags, ...) {
  NEXT(open64);
  MODE OPEN(AT_FDCWD, name, flags, next(name, flags, mode));
}

int openat(int folder, const char *name, int flags, ...) {
  NEXT(openat);
  MODE OPEN(folder, name, flags, next(folder, name, flags, mode));
}

int openat64(int folder, const char *name, int flags, ...) {
  NEXT(openat64);
  MODE OPEN(folder, name, flags, next(folder, name, flags, mode));
}

/* A call that changes names. What lies outside the folder is another disk. */
#define ON_NAME(folder, name, kind, call, logged) \
  do { \
    struct control *disk = the_disk(); \
    char path[PATH_MAX]; \
    if (!disk || !path_at(disk, folder, name, path)) return call; \
    enum action action = judged(disk, __func__, kind, path); \
    if (action == FAIL) return -1; \
    int status = call; \
    if (!status) { logged; } \
    if (action == KILL_AFTER) die(); \
    return status; \
  } while (0)

#define ON_TWO_NAMES(folder, name, other_folder, other, mark, call) \
  do { \
    char second[PATH_MAX]; \
    if (!the_disk() || !path_at(the_disk(), other_folder, other, second)) return call; \
    ON_NAME(folder, name, NAMES, call, log_name(disk, mark, path, second)); \
  } while (0)

int rename(const char *from, const char *to) {
  NEXT(rename);
  ON_TWO_NAMES(AT_FDCWD, from, AT_FDCWD, to, 'R', next(from, to));
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  NEXT(renameat);
  ON_TWO_NAMES(from_folder, from, to_folder, to, 'R', next(from_folder, from, to_folder, to));
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  NEXT(renameat2);
  ON_TWO_NAMES(from_folder, from, to_folder, to, 'R', next(from_folder, from, to_folder, to, flags));
}

int link(const char *from, const char *to) {
  NEXT(link);
  ON_TWO_NAMES(AT_FDCWD, from, AT_FDCWD, to, 'L', next(from, to));
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  NEXT(linkat);
  ON_TWO_NAMES(from_folder, from, to_folder, to, 'L', next(from_folder, from, to_folder, to, flags));
}

int mkdir(const char *name, mode_t mode) {
  NEXT(mkdir);
  ON_NAME(AT_FDCWD, name, NAMES, next(name, mode), log_name(disk, 'M', path, ""));
}

int mkdirat(int folder, const char *name, mode_t mode) {
  NEXT(mkdirat);
  ON_NAME(folder, name, NAMES, next(folder, name, mode), log_name(disk, 'M', path, ""));
}

int rmdir(const char *name) {
  NEXT(rmdir);
  ON_NAME(AT_FDCWD, name, REMOVES, next(name), log_name(disk, 'X', path, ""));
}

/* The bytes that removing the name frees on a small disk. */
static int64_t freed_by(const struct control *disk, const char *path) {
  struct stat now;
  if (!disk->removing_frees || lstat(path, &now) || !S_ISREG(now.st_mode) || now.st_nlink != 1) return 0;
  return now.st_size;
}

#define REMOVE(folder, name, mark, call) \
  do { \
    char gone[PATH_MAX]; \
    int64_t bytes = the_disk() && path_at(the_disk(), folder, name, gone) ? freed_by(the_disk(), gone) : 0; \
    ON_NAME(folder, name, REMOVES, call, { \
      if (bytes) __atomic_add_fetch(&disk->free_bytes, bytes, __ATOMIC_SEQ_CST); \
      log_name(disk, mark, path, ""); \
    }); \
  } while (0)

int unlink(const char *name) {
  NEXT(unlink);
  REMOVE(AT_FDCWD, name, 'U', next(name));
}

int unlinkat(int folder, const char *name, int flags) {
  NEXT(unlinkat);
  REMOVE(folder, name, flags & AT_REMOVEDIR ? 'X' : 'U', next(folder, name, flags));
}

int statvfs(const char *path, struct statvfs *out) {
  NEXT(statvfs);
  int status = next(path, out);
  struct control *disk = the_disk();
  if (!status && disk && below(disk, path))
    out->f_bavail = out->f_bfree = (fsblkcnt_t)(disk->free_bytes < 0 ? 0 : disk->free_bytes) / out->f_frsize;
  return status;
}

int statvfs64(const char *path, struct statvfs64 *out) {
  NEXT(statvfs64);
  int status = next(path, out);
  struct control *disk = the_disk();
  if (!status && disk && below(disk, path))
    out->f_bavail = out->f_bfree = (fsblkcnt64_t)(disk->free_bytes < 0 ? 0 : disk->free_bytes) / out->f_frsize;
  return status;
}
