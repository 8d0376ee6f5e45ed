/* XCP, the Universal Measurement and Calibration Protocol (ASAM MCD-1 XCP 1.1): commands of a
   master, their answers, and the signals that it asked for. Bytes come in and bytes go out; what
   carries them is not known here. Numbers are little-endian.

   The memory of the system lies from the address XCP_BASE on, in the address extension 0: all of it
   can be read; tunable parameters, and inputs that nothing is connected to, can be written, as
   whole doubles within their bounds. */

#ifndef RB_XCP_H
#define RB_XCP_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    XCP_CTO = 248,
    XCP_DTO = 1396,
    XCP_BASE = 0x1000,
    XCP_LISTS = 32,
    XCP_ODTS = 256,
    XCP_ENTRIES = 8192
};
enum { XCP_ENTRY_SIZE = 248, XCP_LAST_ODT = 0xfb, XCP_HEAD = 2, XCP_STAMP = 4 };

/* A value that can be written: where it is in the memory, and its bounds. */
typedef struct {
    int place;
    double low, high;
} Tunable;

/* What a program tells of itself: names and the event of a step, whose period is cycle units of
   10^(unit - 9) s. */
typedef struct {
    const char *name, *event;
    uint8_t cycle, unit;
    int size, n_tunables; /* of the memory, in doubles */
    const Tunable *tunables;
} XcpPlan;

typedef struct {
    uint32_t from; /* bytes from the beginning of the memory */
    uint8_t size;
} XcpEntry;

/* An object descriptor table: the entries whose values are one packet. */
typedef struct {
    int first, n;
} XcpOdt;

/* A list of them, which is sent after each prescaler'th step. */
typedef struct {
    int first, n;
    uint8_t mode, prescaler, priority, waits, is_selected, runs;
} XcpList;

typedef struct {
    const XcpPlan *plan;
    double *memory;
    uint32_t clock; /* us of simulation */
    uint8_t is_connected, extension;
    uint32_t address;
    /* and where the next entry is written, and up to where */
    int n_lists, n_odts, n_entries, entry, last_entry;
    int list, odt; /* that it belongs to */
    XcpList lists[XCP_LISTS];
    XcpOdt odts[XCP_ODTS];
    XcpEntry entries[XCP_ENTRIES];
} Xcp;

enum {
    XCP_OK = 0xff,
    XCP_ERROR = 0xfe,
    XCP_SYNCH = 0x00,
    XCP_DAQ_ACTIVE = 0x11,
    XCP_UNKNOWN = 0x20,
    XCP_SYNTAX = 0x21,
    XCP_OUT_OF_RANGE = 0x22,
    XCP_WRITE_PROTECTED = 0x23,
    XCP_ACCESS_DENIED = 0x24,
    XCP_MODE_NOT_VALID = 0x27,
    XCP_SEQUENCE = 0x29,
    XCP_DAQ_CONFIG = 0x2a,
    XCP_MEMORY_OVERFLOW = 0x30
};

static inline uint32_t xcp_get(const uint8_t *from, int bytes)
{
    uint32_t value = 0;
    for (int k = 0; k < bytes; k++)
        value |= (uint32_t)from[k] << (8 * k);
    return value;
}

static inline void xcp_put(uint8_t *to, uint32_t value, int bytes)
{
    for (int k = 0; k < bytes; k++)
        to[k] = (uint8_t)(value >> (8 * k));
}

static inline int xcp_fails(uint8_t *out, int error)
{
    out[0] = XCP_ERROR;
    out[1] = (uint8_t)error;
    return 2;
}

/* An answer of n bytes, zero but for the first. */
static inline int xcp_answers(uint8_t *out, int n)
{
    memset(out, 0, (size_t)n);
    out[0] = XCP_OK;
    return n;
}

static inline int xcp_runs(const Xcp *xcp)
{
    for (int k = 0; k < xcp->n_lists; k++)
        if (xcp->lists[k].runs)
            return 1;
    return 0;
}

/* The n bytes at an address, NULL where there are none: the memory, or the names in the extensions
   1 and 2. */
static inline const uint8_t *xcp_bytes(const Xcp *xcp, uint8_t extension, uint32_t address,
                                       uint32_t n)
{
    const char *const texts[] = {(const char *)xcp->memory, xcp->plan->name, xcp->plan->event};
    if (extension > 2)
        return NULL;
    const size_t size =
        extension ? strlen(texts[extension]) : sizeof(double) * (size_t)xcp->plan->size;
    const uint32_t base = extension ? 0 : XCP_BASE;
    if (address < base || address - base > size || n > size - (address - base))
        return NULL;
    return (const uint8_t *)texts[extension] + (address - base);
}

static inline int xcp_reads(Xcp *xcp, uint32_t n, uint8_t *out)
{
    const uint8_t *from = xcp_bytes(xcp, xcp->extension, xcp->address, n);
    if (n == 0 || n > XCP_CTO - 1 || !from)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    out[0] = XCP_OK;
    memcpy(out + 1, from, n);
    xcp->address += n;
    return (int)n + 1;
}

static inline const Tunable *xcp_tunable(const XcpPlan *plan, uint32_t place)
{
    for (int k = 0; k < plan->n_tunables; k++)
        if ((uint32_t)plan->tunables[k].place == place)
            return &plan->tunables[k];
    return NULL;
}

/* 0 where these bytes may be written to an address: whole doubles that can be tuned, within their
   bounds. */
static inline int xcp_refusal(const Xcp *xcp, const uint8_t *from, uint32_t n)
{
    if (n == 0 || xcp->extension != 0 || !xcp_bytes(xcp, 0, xcp->address, n))
        return XCP_OUT_OF_RANGE;
    if ((xcp->address - XCP_BASE) % sizeof(double) || n % sizeof(double))
        return XCP_ACCESS_DENIED;
    for (uint32_t k = 0; k < n; k += sizeof(double)) {
        const Tunable *tunable =
            xcp_tunable(xcp->plan, (xcp->address - XCP_BASE + k) / sizeof(double));
        double value;
        memcpy(&value, from + k, sizeof value);
        if (!tunable)
            return XCP_WRITE_PROTECTED;
        if (!isfinite(value) || value < tunable->low || value > tunable->high)
            return XCP_OUT_OF_RANGE;
    }
    return 0;
}

/* All of them, or none. */
static inline int xcp_writes(Xcp *xcp, const uint8_t *from, uint32_t n, uint8_t *out)
{
    const int refusal = xcp_refusal(xcp, from, n);
    if (refusal)
        return xcp_fails(out, refusal);
    memcpy((uint8_t *)xcp->memory + (xcp->address - XCP_BASE), from, n);
    xcp->address += n;
    return xcp_answers(out, 1);
}

static inline void xcp_forget(Xcp *xcp)
{
    xcp->n_lists = xcp->n_odts = xcp->n_entries = xcp->entry = xcp->last_entry = 0;
}

static inline int xcp_connect(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)in;
    xcp_forget(xcp);
    xcp->is_connected = 1;
    xcp_answers(out, 8);
    out[1] = 0x05; /* calibration and measurement */
    out[2] = 0x80; /* little-endian, bytes, more by GET_COMM_MODE_INFO */
    out[3] = XCP_CTO;
    xcp_put(out + 4, XCP_DTO, 2);
    out[6] = out[7] = 1; /* versions of protocol and transport */
    return 8;
}

static inline int xcp_disconnect(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)in;
    xcp_forget(xcp);
    xcp->is_connected = 0;
    return xcp_answers(out, 1);
}

static inline int xcp_status(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)in;
    xcp_answers(out, 6);
    out[1] = xcp_runs(xcp) ? 0x40 : 0;
    return 6;
}

static inline int xcp_synch(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)xcp;
    (void)in;
    return xcp_fails(out, XCP_SYNCH);
}

static inline int xcp_comm_mode(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)xcp;
    (void)in;
    return xcp_answers(out, 8);
}

/* The name of the program, as text and as that of its file, to be uploaded. */
static inline int xcp_id(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    xcp_answers(out, 8);
    if (in[1] > 1)
        return 8;
    xcp->extension = 1;
    xcp->address = 0;
    xcp_put(out + 4, (uint32_t)strlen(xcp->plan->name), 4);
    return 8;
}

static inline int xcp_set_mta(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    xcp->extension = in[3];
    xcp->address = xcp_get(in + 4, 4);
    return xcp_answers(out, 1);
}

static inline int xcp_upload(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    return xcp_reads(xcp, in[1], out);
}

static inline int xcp_short_upload(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    xcp->extension = in[3];
    xcp->address = xcp_get(in + 4, 4);
    return xcp_reads(xcp, in[1], out);
}

#endif
