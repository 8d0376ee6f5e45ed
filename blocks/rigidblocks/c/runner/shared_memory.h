/* Packets in shared memory between a runner and its partner, for both sides. The piece NAME is that
   of shm_open("/NAME"), which Linux has as the file /dev/shm/NAME:

       bytes   0 to 3    "RBSM"
               4 to 7    version
               8 to 15   1 while the runner runs, else 0
              16 to 23   room for a packet of the runner, a multiple of 8
              24 to 31   the same of its partner
              64 on      the channel of the runner, then that of its partner

       a channel         8 bytes of lock: odd while a packet is written, another number after each
                         8 bytes of size
                         the packet, as packet.h has it

   All numbers are of this machine. The runner makes it and takes it away; a partner attaches when
   it is there. */

#ifndef RB_SHARED_H
#define RB_SHARED_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RB_SHARED_HEAD = 64, RB_SHARED_CHANNEL = 16, RB_SHARED_TRIES = 100, RB_SHARED_PATH = 300 };
#define RB_SHARED_MAGIC (UINT64_C(0x4d534252) | UINT64_C(1) << 32) /* "RBSM" and the version */

typedef struct {
    int file, is_partner;
    size_t length;
    uint64_t *head, *to, *of; /* the channels written and read */
    uint64_t room, others;    /* bytes for a packet, and for one of the other side */
    uint64_t seen;            /* the lock of the one that was read last */
    char path[RB_SHARED_PATH];
} RbShared;

static inline uint64_t rb_shared_room(size_t size)
{
    return ((uint64_t)size + 7) / 8 * 8;
}

static inline void rb_shared_close(RbShared *shared)
{
    if (shared->head) {
        if (!shared->is_partner) {
            __atomic_store_n(shared->head + 1, 0, __ATOMIC_RELEASE);
            (void)unlink(shared->path);
        }
        (void)munmap(shared->head, shared->length);
        (void)close(shared->file);
    }
    shared->head = NULL;
}

/* Maps an open file of the right length and finds the channels; -1 where that fails. */
static inline int rb_shared_map(RbShared *shared)
{
    void *found = mmap(NULL, shared->length, PROT_READ | PROT_WRITE, MAP_SHARED, shared->file, 0);
    if (found == MAP_FAILED)
        return -1;
    shared->head = found;
    return 0;
}

static inline void rb_shared_channels(RbShared *shared)
{
    uint64_t *first = shared->head + RB_SHARED_HEAD / 8,
             *second = first + (RB_SHARED_CHANNEL + shared->head[2]) / 8;
    shared->to = shared->is_partner ? second : first;
    shared->of = shared->is_partner ? first : second;
    shared->room = shared->head[shared->is_partner ? 3 : 2];
    shared->others = shared->head[shared->is_partner ? 2 : 3];
    /* what a partner has left there before is old */
    shared->seen = shared->is_partner ? 0 : __atomic_load_n(shared->of, __ATOMIC_ACQUIRE);
}

static inline int rb_shared_name(RbShared *shared, const char *name)
{
    memset(shared, 0, sizeof *shared);
    const int n = snprintf(shared->path, sizeof shared->path, "/dev/shm/%s", name);
    if (n < 0 || n >= (int)sizeof shared->path)
        errno = ENAMETOOLONG;
    return n < 0 || n >= (int)sizeof shared->path ? -1 : 0;
}

/* The file of the right length that no other runner has: that of one that was killed, where its
   partner may be attached, or a new one; -1 where that cannot be had. */
static inline int rb_shared_file(const RbShared *shared, const uint64_t rooms[2])
{
    for (int k = 0; k < 2; k++) {
        struct stat is;
        uint64_t old[2] = {0, 0};
        const int file = open(shared->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0)
            return -1;
        const int owned = flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &is) == 0;
        const int fits = owned && is.st_size == (off_t)shared->length &&
                         pread(file, old, sizeof old, 16) == (ssize_t)sizeof old &&
                         memcmp(old, rooms, sizeof old) == 0;
        if (fits || (owned && is.st_size == 0 && ftruncate(file, (off_t)shared->length) == 0))
            return file;
        (void)close(file);
        if (!owned)
            return -1;
        (void)unlink(shared->path);
    }
    return -1;
}

/* Makes the memory for packets of at most so many bytes; -1, with errno, where that fails. */
static inline int rb_shared_make(RbShared *shared, const char *name, size_t sent, size_t received)
{
    if (rb_shared_name(shared, name) != 0)
        return -1;
    const uint64_t rooms[2] = {rb_shared_room(sent), rb_shared_room(received)};
    shared->length = RB_SHARED_HEAD + 2 * RB_SHARED_CHANNEL + rooms[0] + rooms[1];
    shared->file = rb_shared_file(shared, rooms);
    if (shared->file < 0)
        return -1;
    if (rb_shared_map(shared) != 0) {
        (void)close(shared->file);
        return -1;
    }
    memcpy(shared->head + 2, rooms, sizeof rooms);
    rb_shared_channels(shared);
    shared->head[1] = 1;
    __atomic_store_n(shared->head, RB_SHARED_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

/* Attaches a partner to what a runner has made; -1 where there is nothing yet. */
static inline int rb_shared_attach(RbShared *shared, const char *name)
{
    struct stat is;
    if (rb_shared_name(shared, name) != 0)
        return -1;
    shared->is_partner = 1;
    shared->file = open(shared->path, O_RDWR | O_CLOEXEC);
    if (shared->file < 0)
        return -1;
    shared->length = fstat(shared->file, &is) == 0 ? (size_t)is.st_size : 0;
    if (shared->length >= RB_SHARED_HEAD && rb_shared_map(shared) == 0) {
        const uint64_t *head = shared->head;
        if (__atomic_load_n(head, __ATOMIC_ACQUIRE) == RB_SHARED_MAGIC &&
            shared->length == RB_SHARED_HEAD + 2 * RB_SHARED_CHANNEL + head[2] + head[3]) {
            rb_shared_channels(shared);
            return 0;
        }
        (void)munmap(shared->head, shared->length);
    }
    shared->head = NULL;
    (void)close(shared->file);
    return -1;
}

/* Whether the runner goes on. */
static inline int rb_shared_is_open(const RbShared *shared)
{
    return __atomic_load_n(shared->head + 1, __ATOMIC_ACQUIRE) != 0;
}

/* Puts a packet in place of the last one; -1 for one that is too long. */
static inline int rb_shared_write(RbShared *shared, const uint8_t *packet, size_t size)
{
    if (size > shared->room)
        return -1;
    const uint64_t lock = (__atomic_load_n(shared->to, __ATOMIC_RELAXED) + 1) | 1;
    __atomic_store_n(shared->to, lock, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    shared->to[1] = size;
    memcpy(shared->to + 2, packet, size);
    __atomic_store_n(shared->to, lock + 1, __ATOMIC_RELEASE);
    return 0;
}

/* The size of the last packet of the other side, of which at most `room` bytes are copied; -1 where
   it is not new. */
static inline ptrdiff_t rb_shared_read(RbShared *shared, uint8_t *packet, size_t room)
{
    for (int k = 0; k < RB_SHARED_TRIES; k++) {
        const uint64_t before = __atomic_load_n(shared->of, __ATOMIC_ACQUIRE);
        if (before == shared->seen)
            return -1;
        if (before % 2)
            continue;
        uint64_t size = shared->of[1];
        size = size < shared->others ? size : shared->others;
        size = size < room ? size : room;
        memcpy(packet, shared->of + 2, size);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(shared->of, __ATOMIC_RELAXED) == before) {
            shared->seen = before;
            return (ptrdiff_t)size;
        }
    }
    return -1;
}

#endif
