/* Table of the parts of a co-simulation, and the state of a loop over them. The caller lays out all
   structs (cosim/masters/c_loop_tables.py): every member has 8 bytes, so no padding is needed.

   A part is a compiled block on a memory that the caller owns, an FMU in this process, or a part
   that its host steps. Inputs and outputs are vectors of doubles; a wire copies values from outputs
   to inputs. */

#ifndef RB_LOOP_TABLES_H
#define RB_LOOP_TABLES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Type of the values of an FMI variable. */
enum {
    RB_FLOAT64,
    RB_FLOAT32,
    RB_INT8,
    RB_INT16,
    RB_INT32,
    RB_INT64,
    RB_UINT8,
    RB_UINT16,
    RB_UINT32,
    RB_UINT64,
    RB_BOOLEAN,         /* of FMI 3.0 */
    RB_INTEGER_BOOLEAN, /* of FMI 2.0 */
    RB_CHAR_BOOLEAN,    /* of FMI 1.0 */
    RB_STRING,
    RB_BINARY
};

/* Kind of a part. */
enum { RB_BLOCK = 0, RB_FMI2 = 1, RB_FMI3 = 2, RB_HOSTED = 3, RB_FMI1 = 4 };

/* Kind of a call, which the loop passes to `check_status` with the status of the call. For group k of
   the variables of a set or get call, for clock k, and for value k with RB_BAD_VALUE, RB_CALLS k is
   added. */
enum {
    RB_SET = 0,
    RB_STEP = 1,
    RB_GET = 2,
    RB_ENTER_EVENT_MODE = 3,
    RB_SET_DISCRETE = 4,
    RB_UPDATE = 5,
    RB_ENTER_STEP_MODE = 6, /* in model exchange: enter continuous-time mode */
    RB_SET_TIME = 7,
    RB_SET_STATES = 8,
    RB_GET_RATES = 9,
    RB_GET_INDICATORS = 10,
    RB_COMPLETED_STEP = 11,
    RB_GET_STATES = 12,
    RB_GET_NOMINALS = 13,
    RB_GET_DIRECTIONAL = 14,
    RB_SET_CLOCKS = 15,
    RB_GET_CLOCKS = 16,
    RB_GET_INTERVAL = 17,
    RB_ACTIVATE_PARTITION = 18,
    RB_CALLS = 32
};

/* Status of a call that FMI does not define. No FMU returns it. */
enum {
    RB_EARLY_RETURN = 100, /* a step ended early without permission */
    RB_TERMINATES = 101,   /* the FMU requests the end of the simulation */
    RB_DOES_NOT_FIT = 102, /* the type of a variable cannot represent its value */
    RB_MANY_UPDATES = 103, /* the event iteration does not converge */
    RB_MANY_EVENTS = 104,  /* too many events follow each other at the same time */
    RB_SHORT_STEP = 105,   /* even the shortest step exceeds the tolerance */
    RB_NEW_TEXTS = 106,    /* a string or binary value has changed; the host converts it */
    RB_BAD_INTERVAL = 107, /* the interval of a clock is not positive */
    RB_DENSE_EVENTS = 108, /* a step has too many events */
    RB_BAD_VALUE = 109     /* a derivative, state, event indicator or event time is not finite */
};
enum {
    RB_EVENTS = 1000, /* maximum number of events at one time, and of iterations of an event */
    RB_STEP_EVENTS = 1000000 /* maximum number of events of a step */
};

/* Result of a loop. */
enum {
    /* all steps are done, the rows are full, or the time `patience` has elapsed */
    RB_LOOP_DONE = 0,
    RB_LOOP_FAILED = 1,    /* `part` failed in the step after `k` */
    RB_LOOP_NOT_FINITE = 2 /* no part failed, but an output is not finite */
};

/* A wire: copies n doubles. */
typedef struct {
    const double *from;
    double *to;
    int64_t n;
} Copy;

/* A conversion: value = factor v + offset, where v is the value or its replacement in the table. */
typedef struct {
    double *value;
    double factor, offset;
    const double (*table)[2]; /* pairs of a value and its replacement */
    int64_t n_table;
} Scale;

/* Result of an event update in FMI 2.0, with the layout of fmi2EventInfo. */
typedef struct {
    int again, terminate, nominals_changed, states_changed, has_next;
    double next;
} Fmi2EventInfo;

/* Result of an event update in FMI 1.0, with the layout of fmiEventInfo. */
typedef struct {
    char converged, references_changed, states_changed, terminate, has_next;
    double next;
} Fmi1EventInfo;

/* Functions of a part. A block has only `block_step`; a part that the host steps has none. */
typedef union {
    int (*block_step)(double *memory, double t, double dt);
    int (*fmi1_step)(void *fmu, double t, double dt, char is_new);
    int (*fmi1_update)(void *fmu, char intermediate_results, Fmi1EventInfo *info);
    int (*fmi1_completed_step)(void *fmu, char *event);
    int (*fmi2_move)(void *fmu, const uint32_t *references, size_t n, void *values);
    int (*fmi2_step)(void *fmu, double t, double dt, int no_state_set_before);
    int (*fmi3_move)(void *fmu, const uint32_t *references, size_t n, void *values,
                     size_t n_values);
    int (*fmi3_move_binary)(void *fmu, const uint32_t *references, size_t n, size_t *sizes,
                            void *values, size_t n_values);
    int (*fmi3_step)(void *fmu, double t, double dt, _Bool no_state_set_before, _Bool *event,
                     _Bool *terminate, _Bool *early, double *last);
    int (*enter_mode)(void *fmu);
    int (*fmi2_update)(void *fmu, Fmi2EventInfo *info);
    int (*set_time)(void *fmu, double t);
    int (*move_states)(void *fmu, double *values, size_t n);
    int (*fmi2_completed_step)(void *fmu, int no_state_set_before, int *event, int *terminate);
    int (*fmi3_completed_step)(void *fmu, _Bool no_state_set_before, _Bool *event,
                               _Bool *terminate);
    int (*fmi2_directional)(void *fmu, const uint32_t *unknowns, size_t n_unknowns,
                            const uint32_t *knowns, size_t n_knowns, const double *seed,
                            double *sensitivity);
    int (*fmi3_directional)(void *fmu, const uint32_t *unknowns, size_t n_unknowns,
                            const uint32_t *knowns, size_t n_knowns, const double *seed,
                            size_t n_seed, double *sensitivity, size_t n_sensitivity);
    int (*fmi3_set_clocks)(void *fmu, const uint32_t *references, size_t n, const _Bool *ticks);
    int (*fmi3_get_clocks)(void *fmu, const uint32_t *references, size_t n, _Bool *ticks);
    int (*fmi3_get_intervals)(void *fmu, const uint32_t *references, size_t n, double *intervals,
                              int *qualifiers);
    int (*fmi3_activate)(void *fmu, uint32_t clock, double t);
    int (*fmi3_update)(void *fmu, _Bool *again, _Bool *terminate, _Bool *nominals_changed,
                       _Bool *states_changed, _Bool *has_next, double *next);
} Function;

/* Strings or binary values. The host represents each of them by a number, and converts them only if
   they change. `numbers` and `known` are the numbers and the bytes of the last conversion. */
typedef struct {
    double *numbers;
    const void *const *known;  /* addresses of the bytes; a string ends with a zero byte */
    const size_t *known_sizes; /* numbers of bytes, without the zero byte of a string */
    size_t *sizes;             /* sizes of the binary values in the buffer */
} Texts;

/* Variables of one type, which one FMI call sets or gets. Value k is the element `places[k]` of
   `values`. Without a buffer, the values are doubles in a row that the call reads or writes. */
typedef struct {
    Function function;
    const uint32_t *references;
    int64_t n;
    double *values;
    int64_t n_values;
    int64_t type; /* RB_FLOAT64 to RB_BINARY */
    const int64_t *places;
    void *buffer;       /* n_values values of this type, or pointers to strings or binary values */
    const Texts *texts; /* NULL: numeric values */
    const int64_t *negated; /* 1 for a negated alias of FMI 1.0; NULL without such values */
} Variables;

/* Event mode of an FMU of FMI 3.0, or of an FMU for model exchange. FMI 1.0 has no functions that
   enter a mode; they are NULL. */
typedef struct {
    Function enter_event_mode, update, enter_step_mode;
    const Variables *set; /* discrete inputs, which are set in event mode */
    int64_t n_set;
    double *last;           /* values of the discrete inputs at the last event */
    int64_t *entered;       /* becomes 1 at the first event */
    const int64_t *refused; /* 1 if the FMU has rejected event mode at its first event */
} Events;

/* Kind of an input clock: the interval is fixed, may change at a tick, or is known for one tick. */
enum { RB_FIXED_INTERVAL = 0, RB_CHANGING_INTERVAL = 1, RB_COUNTDOWN = 2 };

/* Ticks of a clock: tick k is at first + k interval. The interval of a countdown clock is infinite. */
typedef struct {
    double first, interval; /* [s], infinite without a known tick */
    double count;           /* number of ticks since `first` */
} ClockTicks;

typedef struct {
    double next;            /* time of the next tick [s], or infinity */
    double awaits_triggers; /* 1 until the triggered clocks have ticked in the step */
} NextTick;

/* Clocks of an FMU of FMI 3.0. In event mode, the loop activates the clocks that are due; in
   scheduled execution, it runs their model partitions in the order of the table. */
typedef struct {
    Function set_clocks; /* fmi3SetClock */
    Function get_intervals;
    Function activate; /* fmi3ActivateModelPartition; NULL without scheduled execution */
    int64_t n;
    const uint32_t *references;
    const int64_t *kinds;
    ClockTicks *ticks;
    NextTick *next_tick;
    const Variables *triggers; /* triggered input clocks */
    int64_t n_triggers;
    const Variables *outputs; /* output clocks */
    int64_t n_outputs;
    /* workspace: 1 for the clocks that are due, their references, and n values `true` */
    int64_t *due;
    uint32_t *due_references;
    const _Bool *active;
} Clocks;

/* Method of an integrator with `stages` stages k_i.

   Explicit, with gamma = 0:

     k_i = f(t + c_i h, x + h sum_j a_ij k_j)

   Linearly implicit (Rosenbrock), with the Jacobian J and f_t = df/dt at the start of the step:

     (1 - gamma h J) k_i = gamma (f(t + c_i h, x + h sum_j a_ij k_j) + sum_j coupling_ij k_j
                                  + time_i h f_t)

   The next states are x + h sum_i b_i k_i, the error estimate is h sum_i error_i k_i, and the states
   inside the step are x + h sum_i b_i(delta) k_i with b_i(delta) = sum_j dense_ij delta^(j+1). */
typedef struct {
    int64_t stages, degree;
    double order;
    const double *a, *b, *c, *dense; /* a is square, dense (stages, degree) */
    const double *error;             /* NULL: steps of equal length */
    double gamma;
    const double *coupling, *time; /* coupling is square */
} Tableau;

/* Control state of the integrator of an FMU for model exchange. The times of the current inner step
   are relative to the communication point. An inner step may end after the communication step; the
   FMU has then not completed it. */
enum {
    RB_NEXT_EVENT = 0,      /* next time event [s], absolute; infinity without an event */
    RB_NEXT_STEP = 1,       /* size of the next inner step [s]; 0 if it is not known */
    RB_IS_IMPLICIT = 2,     /* 1 while implicit steps replace explicit ones */
    RB_VOTES = 3,           /* votes for the other method */
    RB_PATIENCE = 4,        /* additional factor of the required number of votes */
    RB_EXPLICIT_STEP = 5,   /* [s] step size of the explicit method when the other took over */
    RB_DETECTIONS = 6,      /* number of stiffness detections */
    RB_EIGENVALUE = 7,      /* [1/s] estimate of the largest eigenvalue at the last vote */
    RB_HAS_STEP = 8,        /* 1 if an inner step is not completed */
    RB_STEP_START = 9,      /* start of the inner step [s] */
    RB_STEP_SIZE = 10,      /* its size [s]; it may end earlier, at an event */
    RB_STEP_END = 11,       /* its end [s] */
    RB_STEP_HAS_EVENT = 12, /* 1 if it ends at a state event */
    RB_STEP_KIND = 13,      /* kind of its method */
    RB_RATES_KNOWN = 14,    /* 1 if `first_rates` has the derivatives of the states */
    RB_POINT = 15,          /* communication point that the last step reached [s] */
    /* collocation: 2 with the Jacobian of this step, 1 of an earlier step, 0 without a Jacobian */
    RB_SLOPES = 16,
    RB_FACTORED = 17,    /* step size of the stored factors [s]; 0 without factors */
    RB_LAST_LENGTH = 18, /* size of the last step [s]; 0 without a last step */
    RB_REST = 19,        /* Newton's method: remaining error relative to the last change */
    RB_CONTRACTION = 20, /* Newton's method: contraction of the first two iterations */
    RB_STEP_COST = 21,   /* evaluations of the derivatives in the step */
    RB_STOP_TIME = 22,   /* end of the run [s], absolute; infinity if it is not known */
    RB_FOLLOWS = 23,     /* 1 if the inputs are polynomials in this communication step */
    RB_BAD_RATE = 24,    /* 1 + index of a derivative that was not finite in the last evaluation */
    RB_BAD_NUMBER = 25,  /* the value that was not finite */
    RB_CONTROL = 26      /* number of control values */
};

/* Kind of the method of an inner step. */
enum { RB_EXPLICIT_STEPS = 0, RB_ROSENBROCK_STEPS = 1, RB_COLLOCATION_STEPS = 2 };

/* Collocation method with five stages (block/radau.py gives the reasons of the constants). */
typedef struct {
    const double *a, *c, *error, *roots, *to_eigenbasis, *from_eigenbasis;
    double newton_tolerance, loose_tolerance; /* error of the stages [tolerances] */
    double max_contraction;                   /* contraction to which the step size is limited */
    double reach;          /* ratio of step sizes up to which stages are extrapolated */
    double jacobian_place; /* fraction of the step at which the Jacobian is evaluated */
} Collocation;

enum { RB_NEWTON_ITERATIONS = 10 };

/* Model exchange: functions of the FMU, methods of the integrator, and its memory. */
typedef struct {
    Function set_time, set_states, get_rates, get_indicators, get_states, get_nominals;
    Function completed_step; /* NULL: the FMU does not need the call */
    Function directional;    /* NULL: differences instead of directional derivatives */
    int64_t n_states, n_indicators;
    const Tableau *explicit_method, *implicit_method; /* NULL: not used */
    const Collocation *collocation;                   /* NULL: no collocation */
    double rtol, atol;                                /* atol NaN: rtol times the nominal value */
    double longest;                                   /* longest inner step [s] */
    /* Stiffness detection (block/adaptive_methods.py). stable: h |lambda| above which stability
       limits explicit steps. enough_votes: votes that change the method. dearness: number of
       explicit steps that cost as much as a linearly implicit step. */
    double stable, enough_votes, most_patience, dearness;
    /* Jacobian: columns of the same colour have no row in common. pattern (n, n) is 1 where an
       element may differ from zero. */
    const int64_t *colours, *pattern;
    int64_t n_colours;
    const uint32_t *rate_references, *state_references; /* for directional derivatives */
    int64_t n_references;
    /* Values of all inputs, and the coefficients of their polynomials: input k is
       sum_j polynomials_jk s^j at the time s after the start of the communication step. */
    double *inputs;
    const double *polynomials;
    int64_t n_inputs, n_coefficients;
    /* memory, which is part of a saved state: at the communication point, and of the inner step */
    double *control, *states, *indicators, *nominals;
    double *held; /* inputs at the last communication step */
    double *start_states, *end_states, *first_rates, *rates; /* rates (stages, n_states) */
    double *last_stages, *jacobian;                          /* Jacobian by rows, then df/dt */
    /* Workspace. factors and pivots have room for five matrices, and newton for fifteen vectors. */
    double *stage_states, *inner_states, *new_indicators;
    double *moved_rates, *near_states, *factors, *pivots, *newton;
} Exchange;

typedef struct {
    int64_t kind;   /* RB_FMI1, RB_FMI2 or RB_FMI3 also for model exchange */
    int64_t number; /* index of the part in the host */
    void *instance; /* FMU instance, or memory of a block */
    Function step;
    const Variables *set; /* inputs that may change without an event */
    int64_t n_set;
    const Variables *get;
    int64_t n_get;
    const Events *events; /* NULL: the FMU has no event mode */
    const Copy *wires;    /* wires to its inputs */
    int64_t n_wires;
    const Scale *scales; /* conversions of the inputs */
    int64_t n_scales;
    double *clock;                /* receives the time of the step, for the log of the FMU */
    const int32_t *may_roll_back; /* 1 if the host may roll back to the start of the step */
    const Exchange *exchange;     /* NULL: not for model exchange */
    const Clocks *clocks;         /* NULL: no clocks, or no event mode */
    /* Communication step of a slow part. every: number of steps of the run in a step of the part,
       0 or 1 for other parts. t_start, dt: start time and step size of the run [s]. length: step
       size of the part [s]. */
    int64_t every;
    double t_start, dt, length;
} Part;

typedef struct {
    const Part *parts; /* in the order in which they step */
    int64_t n_parts;
    int64_t
        simultaneous; /* 1: Jacobi (all wires are copied before the first step); 0: Gauss-Seidel */
    const Copy *checked; /* outputs to check for finite values */
    int64_t n_checked;
    const Copy *kept; /* outputs that form a recorded row */
    int64_t n_kept;
    /* evaluates a status that is not zero; returns 0 to continue */
    int (*check_status)(int part, int call, int status, double t, double dt);
    /* does a step of a part that the host simulates; returns 0 to continue */
    int (*host)(int part, double t, double dt);
    /* request of the caller */
    double t_start, dt;
    int64_t k, end; /* steps done, and steps to do */
    int64_t every;  /* recording decimation: one row for each `every` steps */
    double *time, *rows;
    int64_t room, filled; /* number of rows that fit, and number of recorded rows */
    double patience;      /* largest duration of a call in real time [s] */
    /* part and status that ended the call */
    int64_t part, status;
} Loop;

/* ---- conversion of doubles to the value types of FMI, and back ---- */

/* Return 1 if the type can represent the value. Integers are limited to the range in which doubles
   represent all of them exactly, +-2^53. */
static inline int rb_fits_type(int64_t type, double value)
{
    static const double low[] = {
        -INFINITY, -INFINITY, -128.0, -32768.0, -2147483648.0, -9007199254740992.0, 0.0, 0.0, 0.0,
        0.0,       0.0,       0.0,    0.0};
    static const double high[] = {INFINITY,     INFINITY,           127.0, 32767.0,
                                  2147483647.0, 9007199254740992.0, 255.0, 65535.0,
                                  4294967295.0, 9007199254740992.0, 1.0,   1.0,
                                  1.0};
    if (type <= RB_FLOAT64 || type >= RB_STRING) /* strings and binary values have no limits */
        return 1;
    if (type == RB_FLOAT32)
        return !isfinite(value) || isfinite((float)value);
    return value == floor(value) && value >= low[type] && value <= high[type];
}

/* Store a value as element k of an array of this type. */
static inline void rb_write_value(void *to, int64_t type, int64_t k, double value)
{
    switch (type) {
    case RB_FLOAT64: ((double *)to)[k] = value; break;
    case RB_FLOAT32: ((float *)to)[k] = (float)value; break;
    case RB_INT8: ((int8_t *)to)[k] = (int8_t)value; break;
    case RB_INT16: ((int16_t *)to)[k] = (int16_t)value; break;
    case RB_INT32: ((int32_t *)to)[k] = (int32_t)value; break;
    case RB_INT64: ((int64_t *)to)[k] = (int64_t)value; break;
    case RB_UINT8: ((uint8_t *)to)[k] = (uint8_t)value; break;
    case RB_UINT16: ((uint16_t *)to)[k] = (uint16_t)value; break;
    case RB_UINT32: ((uint32_t *)to)[k] = (uint32_t)value; break;
    case RB_UINT64: ((uint64_t *)to)[k] = (uint64_t)value; break;
    case RB_BOOLEAN: ((_Bool *)to)[k] = value != 0.0; break;
    case RB_CHAR_BOOLEAN: ((char *)to)[k] = (char)(value != 0.0); break;
    default: ((int32_t *)to)[k] = value != 0.0; break;
    }
}

/* Return element k of an array of this type. */
static inline double rb_read_value(const void *from, int64_t type, int64_t k)
{
    switch (type) {
    case RB_FLOAT64: return ((const double *)from)[k];
    case RB_FLOAT32: return ((const float *)from)[k];
    case RB_INT8: return ((const int8_t *)from)[k];
    case RB_INT16: return ((const int16_t *)from)[k];
    case RB_INT32: return ((const int32_t *)from)[k];
    case RB_INT64: return (double)((const int64_t *)from)[k];
    case RB_UINT8: return ((const uint8_t *)from)[k];
    case RB_UINT16: return ((const uint16_t *)from)[k];
    case RB_UINT32: return ((const uint32_t *)from)[k];
    case RB_UINT64: return (double)((const uint64_t *)from)[k];
    case RB_BOOLEAN: return ((const _Bool *)from)[k];
    case RB_CHAR_BOOLEAN: return ((const char *)from)[k] != 0;
    default: return ((const int32_t *)from)[k] != 0;
    }
}

/* Return 1 if a double represents element k of an array of this type exactly. */
static inline int rb_is_exact(const void *from, int64_t type, int64_t k)
{
    const int64_t most = INT64_C(1) << 53;
    if (type == RB_INT64)
        return ((const int64_t *)from)[k] >= -most && ((const int64_t *)from)[k] <= most;
    return type != RB_UINT64 || ((const uint64_t *)from)[k] <= (uint64_t)most;
}

/* ---- the loop ---- */

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

/* Do steps until `end`, until the rows are full, or until the time `patience` has elapsed. */
RB_EXPORT int rb_master_run(Loop *loop);

/* Do one step without recording. */
RB_EXPORT int rb_master_step(Loop *loop, double t, double dt);

/* Copy the wires of a part, and convert the units of its inputs. */
RB_EXPORT void rb_master_read(const Part *part);

#endif
