/* XCP slave: commands of a master, and DAQ lists of measured signals. */

#ifndef RB_XCP_H
#define RB_XCP_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- commands of XCP, the Universal Measurement and Calibration Protocol (ASAM MCD-1 XCP 1.1)
   ----

   The functions read and write bytes; the transport is in other files. Numbers are little-endian.
   The memory of the system begins at the address XCP_BASE in the address extension 0. A master can
   read all of it. It can write tunable parameters and unconnected inputs, as whole doubles within
   their bounds. */

enum {
    XCP_CTO = 248,     /* largest command or response [bytes]; the length must fit in one byte */
    XCP_DTO = 1396,    /* largest message of signals [bytes]; fits in an Ethernet frame */
    XCP_BASE = 0x1000, /* address of the first number of the memory */
    XCP_LISTS = 32,    /* DAQ lists, ODTs and ODT entries that a master can allocate */
    XCP_ODTS = 256,
    XCP_ENTRIES = 8192
};
enum {
    XCP_ENTRY_SIZE = 248, /* largest ODT entry: a multiple of 8 that fits in one byte [bytes] */
    XCP_LAST_ODT = 0xfb, /* largest number of ODTs of a list; 0xfc to 0xff are packet identifiers */
    XCP_HEAD = 2,        /* identifier of a message of signals: ODT and list [bytes] */
    XCP_STAMP = 4        /* time stamp [bytes] */
};

/* A writable value: its position in the memory, and its bounds. */
typedef struct {
    int place;
    double low, high;
} Tunable;

/* Description of a program: its name, and the event of a step. The event has the period cycle
   10^(unit - 9) s. */
typedef struct {
    const char *name, *event;
    uint8_t cycle, unit;
    int size, n_tunables; /* size: number of doubles in the memory */
    const Tunable *tunables;
} XcpPlan;

typedef struct {
    uint32_t from; /* offset in the memory [bytes] */
    uint8_t size;
} XcpEntry;

/* An object descriptor table (ODT): entries whose values form one packet. */
typedef struct {
    int first, n;
} XcpOdt;

/* A DAQ list of tables. Its packets are sent after each `prescaler`-th step. */
typedef struct {
    int first, n;
    uint8_t mode, prescaler, priority, waits, is_selected, runs;
} XcpList;

typedef struct {
    const XcpPlan *plan;
    double *memory;
    uint32_t clock; /* [us] simulation time */
    uint8_t is_connected, extension;
    uint32_t address;
    /* position of the next entry, and its limit */
    int n_lists, n_odts, n_entries, entry, last_entry;
    int list, odt; /* list and table of this entry */
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

/* Write an answer of n bytes: OK, followed by zeros. */
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

/* Return the n bytes at an address. Extension 0 is the memory; 1 and 2 are the names of the program
   and of the event. Returns NULL for invalid addresses. */
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

/* Return 0 if these bytes may be written to the current address: whole tunable doubles within their
   bounds. Otherwise return an error code. */
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

/* Write all bytes, or none if one value is refused. */
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
    out[1] = 0x05; /* resources: calibration and measurement */
    out[2] = 0x80; /* little-endian, byte addresses, GET_COMM_MODE_INFO has more information */
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

/* Provide the name of the program for upload, as text and as a file name. */
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

/* ---- lists of measured signals, and their packets ---- */

enum { XCP_MODE_STAMP = 0x10 };

static inline int xcp_processor_info(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)xcp;
    (void)in;
    xcp_answers(out, 8);
    out[1] = 0x13; /* dynamic lists, prescaler, time stamps */
    xcp_put(out + 2, XCP_LISTS, 2);
    xcp_put(out + 4, 1, 2); /* number of events */
    /* packets begin with the index of the table in its list, then the index of the list */
    out[7] = 0x40;
    return 8;
}

static inline int xcp_resolution_info(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)xcp;
    (void)in;
    xcp_answers(out, 8);
    out[1] = out[3] = 1;
    out[2] = XCP_ENTRY_SIZE;
    out[5] = 0x30 | XCP_STAMP; /* time stamps in us */
    xcp_put(out + 6, 1, 2);
    return 8;
}

static inline int xcp_event_info(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    if (xcp_get(in + 2, 2) != 0)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    xcp->extension = 2;
    xcp->address = 0;
    xcp_answers(out, 7);
    out[1] = 0x04; /* the event is for measurement */
    out[2] = 0xff; /* any number of lists */
    out[3] = (uint8_t)strlen(xcp->plan->event);
    out[4] = xcp->plan->cycle;
    out[5] = xcp->plan->unit;
    return 7;
}

static inline int xcp_clock(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)in;
    xcp_answers(out, 8);
    xcp_put(out + 4, xcp->clock, 4);
    return 8;
}

static inline int xcp_free_daq(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)in;
    xcp_forget(xcp);
    return xcp_answers(out, 1);
}

static inline int xcp_alloc_daq(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    const uint32_t n = xcp_get(in + 2, 2);
    if (xcp->n_lists)
        return xcp_fails(out, XCP_SEQUENCE);
    if (n > XCP_LISTS)
        return xcp_fails(out, XCP_MEMORY_OVERFLOW);
    memset(xcp->lists, 0, sizeof xcp->lists);
    xcp->n_lists = (int)n;
    return xcp_answers(out, 1);
}

/* Return the list that a command selects; NULL if it does not exist. */
static inline XcpList *xcp_list(Xcp *xcp, const uint8_t *in)
{
    const uint32_t k = xcp_get(in + 2, 2);
    return k < (uint32_t)xcp->n_lists ? &xcp->lists[k] : NULL;
}

static inline XcpOdt *xcp_odt(Xcp *xcp, const uint8_t *in)
{
    const XcpList *list = xcp_list(xcp, in);
    return list && in[4] < list->n ? &xcp->odts[list->first + in[4]] : NULL;
}

static inline int xcp_alloc_odt(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    XcpList *list = xcp_list(xcp, in);
    const int n = in[4];
    if (!list || n == 0 || n > XCP_LAST_ODT)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    if (list->n || xcp->n_entries)
        return xcp_fails(out, XCP_SEQUENCE);
    if (n > XCP_ODTS - xcp->n_odts)
        return xcp_fails(out, XCP_MEMORY_OVERFLOW);
    list->first = xcp->n_odts;
    list->n = n;
    memset(xcp->odts + list->first, 0, (size_t)n * sizeof *xcp->odts);
    xcp->n_odts += n;
    return xcp_answers(out, 1);
}

static inline int xcp_alloc_entries(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    XcpOdt *odt = xcp_odt(xcp, in);
    const int n = in[5];
    if (!odt || n == 0)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    if (odt->n || xcp_runs(xcp))
        return xcp_fails(out, XCP_SEQUENCE);
    if (n > XCP_ENTRIES - xcp->n_entries)
        return xcp_fails(out, XCP_MEMORY_OVERFLOW);
    odt->first = xcp->n_entries;
    odt->n = n;
    memset(xcp->entries + odt->first, 0, (size_t)n * sizeof *xcp->entries);
    xcp->n_entries += n;
    return xcp_answers(out, 1);
}

static inline int xcp_set_pointer(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    const XcpOdt *odt = xcp_odt(xcp, in);
    if (!odt || in[5] >= odt->n)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    if (xcp_list(xcp, in)->runs)
        return xcp_fails(out, XCP_DAQ_ACTIVE);
    xcp->entry = odt->first + in[5];
    xcp->last_entry = odt->first + odt->n;
    return xcp_answers(out, 1);
}

static inline int xcp_write_entry(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    const uint32_t address = xcp_get(in + 4, 4);
    if (xcp_runs(xcp))
        return xcp_fails(out, XCP_DAQ_ACTIVE);
    if (xcp->entry >= xcp->last_entry)
        return xcp_fails(out, XCP_SEQUENCE);
    if (in[1] != 0xff || in[3] != 0 || in[2] == 0 || in[2] > XCP_ENTRY_SIZE ||
        !xcp_bytes(xcp, 0, address, in[2]))
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    const XcpEntry entry = {address - XCP_BASE, in[2]};
    xcp->entries[xcp->entry++] = entry;
    return xcp_answers(out, 1);
}

static inline int xcp_set_mode(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    XcpList *list = xcp_list(xcp, in);
    if (!list || xcp_get(in + 4, 2) != 0)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    if (list->runs)
        return xcp_fails(out, XCP_DAQ_ACTIVE);
    if (in[1] & ~XCP_MODE_STAMP) /* no stimulation, no packets without identifiers */
        return xcp_fails(out, XCP_MODE_NOT_VALID);
    list->mode = in[1];
    list->prescaler = in[6];
    list->priority = in[7];
    return xcp_answers(out, 1);
}

static inline int xcp_mode(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    const XcpList *list = xcp_list(xcp, in);
    if (!list)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    xcp_answers(out, 8);
    out[1] = (uint8_t)(list->mode | (list->is_selected ? 0x01 : 0) | (list->runs ? 0x40 : 0));
    out[6] = list->prescaler;
    out[7] = list->priority;
    return 8;
}

/* Return the length of the packet of a table. */
static inline int xcp_size(const Xcp *xcp, const XcpList *list, int k)
{
    const XcpOdt *odt = &xcp->odts[list->first + k];
    int size = XCP_HEAD + (k == 0 && list->mode & XCP_MODE_STAMP ? XCP_STAMP : 0);
    for (int i = 0; i < odt->n; i++)
        size += xcp->entries[odt->first + i].size;
    return size;
}

static inline int xcp_can_start(const Xcp *xcp, const XcpList *list)
{
    for (int k = 0; k < list->n; k++)
        if (xcp_size(xcp, list, k) > XCP_DTO)
            return 0;
    return list->n > 0;
}

static inline void xcp_start(XcpList *list, int runs)
{
    list->runs = (uint8_t)runs;
    list->is_selected = list->waits = 0;
}

static inline int xcp_start_list(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    XcpList *list = xcp_list(xcp, in);
    if (!list || in[1] > 2)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    if (in[1] && !xcp_can_start(xcp, list))
        return xcp_fails(out, XCP_DAQ_CONFIG);
    if (in[1] == 2)
        list->is_selected = 1;
    else
        xcp_start(list, in[1]);
    return xcp_answers(out, 2);
}

/* Stop all lists, or start or stop the selected ones. */
static inline int xcp_start_selected(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    if (in[1] > 2)
        return xcp_fails(out, XCP_OUT_OF_RANGE);
    for (int k = 0; k < xcp->n_lists; k++)
        if (in[1] == 1 && xcp->lists[k].is_selected && !xcp_can_start(xcp, &xcp->lists[k]))
            return xcp_fails(out, XCP_DAQ_CONFIG);
    for (int k = 0; k < xcp->n_lists; k++)
        if (in[1] == 0 || xcp->lists[k].is_selected)
            xcp_start(&xcp->lists[k], in[1] == 1);
    return xcp_answers(out, 1);
}

/* Write the packet of the k-th table of a list. Returns its length. */
static inline int xcp_sample(const Xcp *xcp, int number, int k, uint8_t *out)
{
    const XcpList *list = &xcp->lists[number];
    const XcpOdt *odt = &xcp->odts[list->first + k];
    uint8_t *to = out + XCP_HEAD;
    out[0] = (uint8_t)k;
    out[1] = (uint8_t)number;
    if (k == 0 && list->mode & XCP_MODE_STAMP) {
        xcp_put(to, xcp->clock, XCP_STAMP);
        to += XCP_STAMP;
    }
    for (int i = 0; i < odt->n; i++) {
        const XcpEntry *entry = &xcp->entries[odt->first + i];
        memcpy(to, (const uint8_t *)xcp->memory + entry->from, entry->size);
        to += entry->size;
    }
    return (int)(to - out);
}

/* Return 1 if a list is due in this step, and update its counter. */
static inline int xcp_is_due(XcpList *list)
{
    if (!list->runs)
        return 0;
    if (list->waits) {
        list->waits--;
        return 0;
    }
    list->waits = (uint8_t)(list->prescaler ? list->prescaler - 1 : 0);
    return 1;
}

/* Answer a command of n bytes. Returns the length of the answer; 0 without an answer. */
static inline int xcp_command(Xcp *xcp, const uint8_t *in, int n, uint8_t *out)
{
    static const struct {
        uint8_t code, least; /* least: smallest length of the command [bytes] */
        int (*does)(Xcp *, const uint8_t *, uint8_t *);
    } commands[] = {
        {0xff, 2, xcp_connect},     {0xfe, 1, xcp_disconnect},     {0xfd, 1, xcp_status},
        {0xfc, 1, xcp_synch},       {0xfb, 1, xcp_comm_mode},      {0xfa, 2, xcp_id},
        {0xf6, 8, xcp_set_mta},     {0xf5, 2, xcp_upload},         {0xf4, 8, xcp_short_upload},
        {0xe2, 6, xcp_set_pointer}, {0xe1, 8, xcp_write_entry},    {0xe0, 8, xcp_set_mode},
        {0xdf, 4, xcp_mode},        {0xde, 4, xcp_start_list},     {0xdd, 2, xcp_start_selected},
        {0xdc, 1, xcp_clock},       {0xda, 1, xcp_processor_info}, {0xd9, 1, xcp_resolution_info},
        {0xd7, 4, xcp_event_info},  {0xd6, 1, xcp_free_daq},       {0xd5, 4, xcp_alloc_daq},
        {0xd4, 5, xcp_alloc_odt},   {0xd3, 6, xcp_alloc_entries}};
    if (n < 1 || (!xcp->is_connected && in[0] != 0xff))
        return 0;
    if (in[0] == 0xf0) /* DOWNLOAD */
        return n < 2 || n - 2 < in[1] ? xcp_fails(out, XCP_SYNTAX)
                                      : xcp_writes(xcp, in + 2, in[1], out);
    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++)
        if (commands[k].code == in[0])
            return n < commands[k].least ? xcp_fails(out, XCP_SYNTAX)
                                         : commands[k].does(xcp, in, out);
    return xcp_fails(out, XCP_UNKNOWN);
}

#endif
