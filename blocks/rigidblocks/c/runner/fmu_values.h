/* The values of an FMU's variables: doubles in the memory of the system, and numbers of the FMU's
   types. */

#ifndef RB_FMU_VALUES_H
#define RB_FMU_VALUES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a value is in C. */
enum {
    FMU_FLOAT64,
    FMU_FLOAT32,
    FMU_INT8,
    FMU_INT16,
    FMU_INT32,
    FMU_INT64,
    FMU_UINT8,
    FMU_UINT16,
    FMU_UINT32,
    FMU_UINT64,
    FMU_BOOLEAN,      /* of FMI 3.0 */
    FMU_WHOLE_BOOLEAN /* of FMI 2.0, a number */
};

/* Variables of one type that are set or got in one call; an array has one reference. */
typedef struct {
    const char *type; /* as the names of functions have it: Real, Float64 */
    int kind;
    int waits;        /* until an event, where events are handled here */
    int is_parameter; /* which is set when it is another one than before */
    int n_references, n;
    const uint32_t *references;
    const int *places; /* of the values in the memory */
    void *values;      /* room for them as the FMU has them */
    double *last;      /* what was set last, of parameters and where they wait */
} Group;

/* Whole numbers that each kind holds, as far as doubles are exact. */
static inline int fits(int kind, double value)
{
    static const double low[] = {
        -INFINITY, -INFINITY, -128.0, -32768.0, -2147483648.0, -9007199254740992.0,
        0.0,       0.0,       0.0,    0.0,      0.0,           0.0};
    static const double high[] = {INFINITY,     INFINITY,           127.0, 32767.0,
                                  2147483647.0, 9007199254740992.0, 255.0, 65535.0,
                                  4294967295.0, 9007199254740992.0, 1.0,   1.0};
    if (kind == FMU_FLOAT64)
        return 1;
    if (kind == FMU_FLOAT32)
        return !isfinite(value) || isfinite((float)value);
    return value == floor(value) && value >= low[kind] && value <= high[kind];
}

static inline void write_value(void *to, int kind, int k, double value)
{
    switch (kind) {
    case FMU_FLOAT64: ((double *)to)[k] = value; break;
    case FMU_FLOAT32: ((float *)to)[k] = (float)value; break;
    case FMU_INT8: ((int8_t *)to)[k] = (int8_t)value; break;
    case FMU_INT16: ((int16_t *)to)[k] = (int16_t)value; break;
    case FMU_INT32: ((int32_t *)to)[k] = (int32_t)value; break;
    case FMU_INT64: ((int64_t *)to)[k] = (int64_t)value; break;
    case FMU_UINT8: ((uint8_t *)to)[k] = (uint8_t)value; break;
    case FMU_UINT16: ((uint16_t *)to)[k] = (uint16_t)value; break;
    case FMU_UINT32: ((uint32_t *)to)[k] = (uint32_t)value; break;
    case FMU_UINT64: ((uint64_t *)to)[k] = (uint64_t)value; break;
    case FMU_BOOLEAN: ((bool *)to)[k] = value != 0.0; break;
    default: ((int32_t *)to)[k] = value != 0.0; break;
    }
}

static inline double read_value(const void *from, int kind, int k)
{
    switch (kind) {
    case FMU_FLOAT64: return ((const double *)from)[k];
    case FMU_FLOAT32: return ((const float *)from)[k];
    case FMU_INT8: return ((const int8_t *)from)[k];
    case FMU_INT16: return ((const int16_t *)from)[k];
    case FMU_INT32: return ((const int32_t *)from)[k];
    case FMU_INT64: return (double)((const int64_t *)from)[k];
    case FMU_UINT8: return ((const uint8_t *)from)[k];
    case FMU_UINT16: return ((const uint16_t *)from)[k];
    case FMU_UINT32: return ((const uint32_t *)from)[k];
    case FMU_UINT64: return (double)((const uint64_t *)from)[k];
    case FMU_BOOLEAN: return ((const bool *)from)[k];
    default: return ((const int32_t *)from)[k] != 0;
    }
}

/* Whether a group has other values than those that were set last. */
static inline int has_news(const Group *group, const double *m)
{
    for (int k = 0; k < group->n; k++)
        if (m[group->places[k]] != group->last[k])
            return 1;
    return 0;
}

static inline void keep_values(const Group *group, const double *m)
{
    for (int k = 0; k < group->n; k++)
        group->last[k] = m[group->places[k]];
}

#endif
