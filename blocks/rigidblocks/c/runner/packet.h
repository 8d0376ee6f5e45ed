/* The UDP packet that a runner and its partner exchange. Both sides use this header.

       bytes   0 to 3    "RBLK"
               4, 5      version
               6, 7      n, the number of values
               8 to 11   sequence: 1 for the first packet of a side, then one more for each; never 0
              12 to 15   echo: the sequence of the last packet received, 0 before the first
              16 to 23   simulation time [s]
              24 on      n values

   All numbers are little-endian. Time and values are IEEE 754 doubles. */

#ifndef RB_PACKET_H
#define RB_PACKET_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* the magic number is "RBLK"; RB_PACKET_HEADER: bytes before the values */
enum { RB_PACKET_MAGIC = 0x4b4c4252, RB_PACKET_VERSION = 1, RB_PACKET_HEADER = 24 };

typedef struct {
    uint32_t sequence, echo;
    double time;
} RbPacket;

/* Error of a received packet. */
enum {
    RB_PACKET_OK,
    RB_PACKET_FOREIGN,
    RB_PACKET_VERSION_DIFFERS,
    RB_PACKET_WRONG_SIZE,
    RB_PACKET_NOT_FINITE
};

static inline void rb_put(uint8_t *to, uint64_t value, int bytes)
{
    for (int k = 0; k < bytes; k++)
        to[k] = (uint8_t)(value >> (8 * k));
}

static inline uint64_t rb_get(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int k = 0; k < bytes; k++)
        value |= (uint64_t)from[k] << (8 * k);
    return value;
}

static inline void rb_put_double(uint8_t *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    rb_put(to, bits, 8);
}

static inline double rb_get_double(const uint8_t *from)
{
    const uint64_t bits = rb_get(from, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Write a packet of n values, RB_PACKET_HEADER + 8 n bytes. Returns its length. */
static inline size_t rb_packet_write(uint8_t *bytes, const RbPacket *packet, const double *values,
                                     int n)
{
    rb_put(bytes, RB_PACKET_MAGIC, 4);
    rb_put(bytes + 4, RB_PACKET_VERSION, 2);
    rb_put(bytes + 6, (uint64_t)n, 2);
    rb_put(bytes + 8, packet->sequence, 4);
    rb_put(bytes + 12, packet->echo, 4);
    rb_put_double(bytes + 16, packet->time);
    for (int k = 0; k < n; k++)
        rb_put_double(bytes + RB_PACKET_HEADER + 8 * (size_t)k, values[k]);
    return RB_PACKET_HEADER + 8 * (size_t)n;
}

/* Read a packet of n values from `size` bytes. If it returns an error, nothing is written. */
static inline int rb_packet_read(const uint8_t *bytes, size_t size, RbPacket *packet,
                                 double *values, int n)
{
    if (size < RB_PACKET_HEADER || rb_get(bytes, 4) != RB_PACKET_MAGIC)
        return RB_PACKET_FOREIGN;
    if (rb_get(bytes + 4, 2) != RB_PACKET_VERSION)
        return RB_PACKET_VERSION_DIFFERS;
    if (rb_get(bytes + 6, 2) != (uint64_t)n || size != RB_PACKET_HEADER + 8 * (size_t)n ||
        rb_get(bytes + 8, 4) == 0)
        return RB_PACKET_WRONG_SIZE;
    for (int k = -1; k < n; k++)
        if (!isfinite(rb_get_double(bytes + RB_PACKET_HEADER + 8 * k)))
            return RB_PACKET_NOT_FINITE;
    packet->sequence = (uint32_t)rb_get(bytes + 8, 4);
    packet->echo = (uint32_t)rb_get(bytes + 12, 4);
    packet->time = rb_get_double(bytes + 16);
    for (int k = 0; k < n; k++)
        values[k] = rb_get_double(bytes + RB_PACKET_HEADER + 8 * (size_t)k);
    return RB_PACKET_OK;
}

#endif
