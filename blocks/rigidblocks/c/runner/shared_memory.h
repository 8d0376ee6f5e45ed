/* Packets in shared memory between a runner and its partner. Both sides use this header. The object
   NAME is the object of shm_open("/NAME"); on Linux it is the file /dev/shm/NAME:

       bytes   0 to 3    "RBSM"
               4 to 7    version
               8 to 15   1 while the runner runs, else 0
              16 to 23   size of the space for a packet of the runner, a multiple of 8
              24 to 31   size of the space for a packet of the partner
              64 on      channel of the runner, then channel of the partner

       a channel         8 bytes of lock: odd while a packet is written; changes with each packet
                         8 bytes of size
                         the packet, in the format of packet.h

   All numbers are in the byte order of this machine. The runner creates and removes the object; a
   partner can attach while it exists. */

#ifndef RB_SHARED_MEMORY_H
#define RB_SHARED_MEMORY_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */
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

enum {
    RB_SHARED_HEAD = 64,    /* header: one cache line [bytes] */
    RB_SHARED_CHANNEL = 16, /* lock and size before the packet [bytes] */
    RB_SHARED_TRIES = 100,  /* largest number of attempts to read a packet */
    RB_SHARED_PATH = 300    /* /dev/shm/ and a file name of Linux, at most 255 bytes */
};

/* Numbers of 8 bytes in the header, and in a channel. */
enum { RB_HEAD_MAGIC, RB_HEAD_RUNS, RB_HEAD_ROOM, RB_HEAD_PARTNER_ROOM };
enum { RB_CHANNEL_LOCK, RB_CHANNEL_SIZE, RB_CHANNEL_PACKET };
#define RB_SHARED_MAGIC (UINT64_C(0x4d534252) | UINT64_C(1) << 32) /* "RBSM" and the version */

typedef struct {
    int file, is_partner;
    size_t length;
    uint64_t *head, *to, *of; /* header; channel to write; channel to read */
    uint64_t room, others;    /* largest packet of this side and of the other side [bytes] */
    uint64_t seen;            /* lock of the last packet that was read */
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
            __atomic_store_n(shared->head + RB_HEAD_RUNS, 0, __ATOMIC_RELEASE);
            (void)unlink(shared->path);
        }
        (void)munmap(shared->head, shared->length);
        (void)close(shared->file);
    }
    shared->head = NULL;
}

/* Map an open file of the right length. Returns -1 on failure. */
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
             *second = first + (RB_SHARED_CHANNEL + shared->head[RB_HEAD_ROOM]) / 8;
    shared->to = shared->is_partner ? second : first;
    shared->of = shared->is_partner ? first : second;
    shared->room = shared->head[shared->is_partner ? RB_HEAD_PARTNER_ROOM : RB_HEAD_ROOM];
    shared->others = shared->head[shared->is_partner ? RB_HEAD_ROOM : RB_HEAD_PARTNER_ROOM];
    /* the runner ignores packets that a partner wrote earlier */
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

/* Open a file of the right length that no other runner uses. It is new, or it is the file of a
   killed runner, to which its partner may still be attached. Returns -1 on failure. */
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
                         pread(file, old, sizeof old, 8 * RB_HEAD_ROOM) == (ssize_t)sizeof old &&
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

/* Create the shared memory for packets of at most these sizes. Returns -1 and sets errno on
   failure. */
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
    memcpy(shared->head + RB_HEAD_ROOM, rooms, sizeof rooms);
    rb_shared_channels(shared);
    shared->head[RB_HEAD_RUNS] = 1;
    __atomic_store_n(shared->head, RB_SHARED_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

/* Attach a partner to the memory of a runner. Returns -1 if it does not exist yet. */
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
            shared->length == RB_SHARED_HEAD + 2 * RB_SHARED_CHANNEL + head[RB_HEAD_ROOM] +
                                  head[RB_HEAD_PARTNER_ROOM]) {
            rb_shared_channels(shared);
            return 0;
        }
        (void)munmap(shared->head, shared->length);
    }
    shared->head = NULL;
    (void)close(shared->file);
    return -1;
}

/* Return 1 while the runner is running. */
static inline int rb_shared_is_open(const RbShared *shared)
{
    return __atomic_load_n(shared->head + RB_HEAD_RUNS, __ATOMIC_ACQUIRE) != 0;
}

/* Replace the last packet of this side. Returns -1 if the packet is too long. */
static inline int rb_shared_write(RbShared *shared, const uint8_t *packet, size_t size)
{
    if (size > shared->room)
        return -1;
    const uint64_t lock = (__atomic_load_n(shared->to, __ATOMIC_RELAXED) + 1) | 1;
    __atomic_store_n(shared->to, lock, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    shared->to[RB_CHANNEL_SIZE] = size;
    memcpy(shared->to + RB_CHANNEL_PACKET, packet, size);
    __atomic_store_n(shared->to, lock + 1, __ATOMIC_RELEASE);
    return 0;
}

/* Copy at most `room` bytes of the last packet of the other side. Returns its size, or -1 if it is
   not new. */
static inline ptrdiff_t rb_shared_read(RbShared *shared, uint8_t *packet, size_t room)
{
    for (int k = 0; k < RB_SHARED_TRIES; k++) {
        const uint64_t before = __atomic_load_n(shared->of, __ATOMIC_ACQUIRE);
        if (before == shared->seen)
            return -1;
        if (before % 2)
            continue;
        uint64_t size = shared->of[RB_CHANNEL_SIZE];
        size = size < shared->others ? size : shared->others;
        size = size < room ? size : room;
        memcpy(packet, shared->of + RB_CHANNEL_PACKET, size);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(shared->of, __ATOMIC_RELAXED) == before) {
            shared->seen = before;
            return (ptrdiff_t)size;
        }
    }
    return -1;
}

#endif
