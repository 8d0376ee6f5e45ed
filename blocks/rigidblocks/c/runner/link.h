/* Link by UDP, shared memory or CAN. It sends signals of the system and receives its inputs. After
   a timeout, the inputs get their safe values.

   The first part encodes signals in the frames of CAN and CAN FD. */

#ifndef RB_LINK_H
#define RB_LINK_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <math.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shared_memory.h"

/* ---- CAN: positions and encoding of signals in frames ---- */

enum {
    RB_FRAME_BYTES = 64, /* data of the longest CAN FD frame */
    RB_EXACT_BITS = 53   /* doubles represent all integers of this length exactly */
};

/* A signal in the bytes of a frame. `start` is the index of its first bit: the lowest bit of
   little-endian signals, the highest bit of big-endian ones. Byte k has the bits 8 k to 8 k + 7.
   Decoding:

       physical = scale raw + offset,   value = factor physical + shift */
typedef struct {
    int start, length, is_big, is_signed, is_float;
    double scale, offset, low, high; /* low, high: bounds of the raw value */
    double factor, shift;
} FrameSignal;

/* A message: frame of `size` bytes, and range of its signals in the list of the link. */
typedef struct {
    const char *name;
    uint32_t id; /* includes the flag of extended identifiers */
    int is_fd, has_fast_bits, size, wire_size;
    double period;   /* [s] sending period; 0: in each step */
    int64_t timeout; /* [ns] timeout */
    int first, n;
    const FrameSignal *counter, *checksum; /* NULL if the message has none */
} FrameMessage;

/* Return the position of the next bit of a signal. */
static inline int frame_next_bit(const FrameSignal *signal, int place)
{
    if (!signal->is_big)
        return place + 1;
    return place % 8 ? place - 1 : place + 15;
}

/* Return the index in the raw value of the k-th bit in the frame. */
static inline int frame_bit(const FrameSignal *signal, int k)
{
    return signal->is_big ? signal->length - 1 - k : k;
}

static inline void frame_put(const FrameSignal *signal, uint64_t raw, uint8_t *data)
{
    for (int k = 0, place = signal->start; k < signal->length;
         k++, place = frame_next_bit(signal, place))
        data[place / 8] |= (uint8_t)((raw >> frame_bit(signal, k) & 1) << place % 8);
}

static inline uint64_t frame_take(const FrameSignal *signal, const uint8_t *data)
{
    uint64_t raw = 0;
    for (int k = 0, place = signal->start; k < signal->length;
         k++, place = frame_next_bit(signal, place))
        raw |= (uint64_t)(data[place / 8] >> place % 8 & 1) << frame_bit(signal, k);
    return raw;
}

/* Encode a raw value that is within the bounds. */
static inline uint64_t frame_bits(const FrameSignal *signal, double raw)
{
    uint64_t bits = 0;
    if (signal->is_float && signal->length == 32) {
        const float single = (float)raw;
        uint32_t half;
        memcpy(&half, &single, sizeof half);
        return half;
    }
    if (signal->is_float)
        memcpy(&bits, &raw, sizeof bits);
    else
        bits = signal->is_signed ? (uint64_t)(int64_t)raw : (uint64_t)raw;
    return bits;
}

/* Encode a value. Values out of bounds are replaced by the nearest bound and counted in
   `beyond`. */
static inline uint64_t frame_encode(const FrameSignal *signal, double value, uint64_t *beyond)
{
    const double physical = (value - signal->shift) / signal->factor;
    const double exact = (physical - signal->offset) / signal->scale;
    const double raw = signal->is_float ? exact : rint(exact);
    const double nearest = fmin(fmax(raw, signal->low), signal->high);
    *beyond += nearest != raw;
    return frame_bits(signal, nearest);
}

/* Return the raw value that the bits represent. */
static inline double frame_number(const FrameSignal *signal, uint64_t bits)
{
    const uint64_t sign = (uint64_t)1 << (signal->length - 1);
    double raw;
    if (signal->is_float && signal->length == 32) {
        const uint32_t half = (uint32_t)bits;
        float single;
        memcpy(&single, &half, sizeof single);
        return single;
    }
    if (signal->is_float) {
        memcpy(&raw, &bits, sizeof raw);
        return raw;
    }
    if (signal->is_signed && bits & sign) /* sign extension */
        return (double)(int64_t)(bits | ~(sign | (sign - 1)));
    return (double)bits;
}

/* Return the value that the bits represent. `beyond` becomes 1 if it is out of bounds. */
static inline double frame_decode(const FrameSignal *signal, uint64_t bits, int *beyond)
{
    const double raw = frame_number(signal, bits);
    if (signal->is_float || signal->length <= RB_EXACT_BITS)
        *beyond |= !(raw >= signal->low && raw <= signal->high);
    return signal->factor * (raw * signal->scale + signal->offset) + signal->shift;
}

/* Return the CRC-8 of SAE J1850 over the bytes of a message, except the byte of the checksum. */
static inline uint8_t frame_checksum(const FrameMessage *message, const uint8_t *data)
{
    unsigned crc = 0xff;
    for (int k = 0; k < message->size; k++) {
        if (k == message->checksum->start / 8)
            continue;
        crc ^= data[k];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc << 1 ^ (crc & 0x80 ? 0x1du : 0u)) & 0xffu;
    }
    return (uint8_t)(crc ^ 0xff);
}

/* Pack the values of a message into a frame; `count` is the value of its counter. */
static inline void frame_pack(const FrameMessage *message, const FrameSignal *signals,
                              const double *values, uint32_t count, uint8_t *data, uint64_t *beyond)
{
    memset(data, 0, RB_FRAME_BYTES);
    for (int k = message->first; k < message->first + message->n; k++)
        frame_put(&signals[k], frame_encode(&signals[k], values[k], beyond), data);
    if (message->counter)
        frame_put(message->counter, count, data);
    if (message->checksum)
        frame_put(message->checksum, frame_checksum(message, data), data);
}

/* Unpack the values of a frame. */
static inline void frame_unpack(const FrameMessage *message, const FrameSignal *signals,
                                const uint8_t *data, double *values, int *beyond)
{
    for (int k = message->first; k < message->first + message->n; k++)
        values[k] = frame_decode(&signals[k], frame_take(&signals[k], data), beyond);
}

/* ---- links ---- */

/* CAN messages of a link and their signals, sent ones first. */
typedef struct {
    int n_sent, n_received;
    const FrameMessage *sent, *received;
    const FrameSignal *sent_signals, *received_signals;
} CanPlan;

/* Kinds of links. */
enum { LINK_UDP, LINK_SHARED, LINK_CAN };

/* Reactions to a missed answer in lock-step: end the run, hold the last received values, or set the
   safe values. */
enum { LOST_END, LOST_HOLD, LOST_SAFE };

/* Results of an exchange. */
enum { LINK_OK, LINK_LOST };

/* Configuration of a link, fixed when the program is built. It includes the positions of the values
   in the memory of the system. */
typedef struct {
    const char *name;
    int kind;
    /* addresses such as 127.0.0.1:5005; `peer` may be a shared memory or a CAN interface */
    const char *peer, *listen;
    /* [ns] timeout after which inputs get their safe values; longest wait for the first answer in
       lock-step with LOST_END */
    int64_t timeout, start_timeout;
    /* 1: each step waits for the answer to its packet, at most for the timeout */
    int lock_step;
    int lost; /* reaction to a missed answer in lock-step */
    int n_sent, n_received, n_targets;
    const int *sent, *targets, *values; /* targets[k] receives the value with index values[k] */
    const double *safe;
    const double *open; /* value to send if no signal is connected (sent[k] is negative) */
    const CanPlan *can; /* only for CAN */
} LinkPlan;

/* Counters for the report. */
typedef struct {
    uint64_t sent, unsent, received, lost, late, doubled, foreign, version, size, not_finite,
        restarts, safe_steps, watchdog;
    uint64_t checksum, beyond; /* only for CAN */
} LinkCounts;

/* State of a link. */
typedef struct {
    const LinkPlan *plan;
    int socket, is_safe;
    int is_met;               /* 1 after the first answer in lock-step */
    int is_undelivered;       /* 1 if the network has rejected the last packet */
    const volatile int *stop; /* becomes 1 on a termination signal */
    struct sockaddr_in peer;
    RbShared shared;
    struct Can *can;         /* only for CAN */
    uint32_t sequence, last; /* sequence numbers of the last packets sent and received */
    uint32_t answered;       /* own sequence number that the last received packet answers */
    int64_t heard;           /* [ns] time of the last received packet */
    double *values;
    uint8_t *bytes;
    LinkCounts counts;
} Link;

/* Return the time [ns] of the monotonic clock. */
int64_t rb_clock_nanoseconds(void);

/* Parse an internet address such as 127.0.0.1:5005. Returns 0, or -1 if the text is not an
   address. */
int rb_parse_address(const char *text, struct sockaddr_in *address);

/* Return the k-th value to send from the memory of the system. */
double rb_sent_value(const LinkPlan *plan, int k, const double *m);

/* Set the inputs of the system to received or safe values. */
void rb_set_inputs(const LinkPlan *plan, const double *values, double *m);

/* Open a link. A wait ends if `stop` becomes 1. Prints a message and returns -1 on failure. */
int rb_link_open(Link *link, const LinkPlan *plan, const volatile int *stop);

/* Send the signals at t and receive. In lock-step, wait for the answer. Returns LINK_OK, or
   LINK_LOST with a message if the answer is missing and ends the run. */
int rb_link_exchange(Link *link, double *m, double t);

/* Write the counters of a link to the report. */
void rb_link_report(FILE *file, const Link *link, int is_last);

void rb_link_close(Link *link);

#endif
