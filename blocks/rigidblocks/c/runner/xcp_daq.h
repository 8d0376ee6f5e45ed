/* XCP: the lists of signals that a master asks for, and their packets. */

#ifndef RB_XCP_DAQ_H
#define RB_XCP_DAQ_H

#include "xcp.h"

enum { XCP_MODE_STAMP = 0x10 };

static inline int xcp_processor_info(Xcp *xcp, const uint8_t *in, uint8_t *out)
{
    (void)xcp;
    (void)in;
    xcp_answers(out, 8);
    out[1] = 0x13; /* dynamic lists, prescaler, time stamps */
    xcp_put(out + 2, XCP_LISTS, 2);
    xcp_put(out + 4, 1, 2); /* event */
    /* packets begin with the numbers of their table in the list and of the list */
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
    out[5] = 0x30 | XCP_STAMP; /* us */
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
    out[1] = 0x04; /* measurement */
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

/* The list whose number is in a command, NULL where there is none. */
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
    if (in[1] & ~XCP_MODE_STAMP) /* towards the program, or without numbers */
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

/* The bytes of a table's packet. */
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

/* All stop, or the selected ones start or stop. */
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

/* The packet of the k-th table of a list; the number of its bytes. */
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

/* Whether a list is due in this step. */
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

/* The answer to a command of n bytes: the number of its bytes, 0 where there is none. */
static inline int xcp_command(Xcp *xcp, const uint8_t *in, int n, uint8_t *out)
{
    static const struct {
        uint8_t code, least; /* the bytes that it has at least */
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
