/* An instance of an FMU: its modes, and all that it remembers.

   Everything lives in the instance; memory is allocated for instances and saved states only. */

#ifndef RB_STATE_H
#define RB_STATE_H

#include "fmu.h"
#include "host.h"
#include "sides.h"
#include "step.h"
#if defined(RB_XCP)
#include RB_XCP /* the plan, which is there where it was built with that */
#endif

/* all that can be read: the memory, the rates, the event indicators */
enum { RB_COUNT = RB_SIZE + RB_NX + RB_INDICATORS };
enum { RB_SLOPES = RB_INPUT_DERIVATIVES * RB_COURSE_ORDER * RB_NU };

/* The modes of an instance, and sets of them. */
enum {
    RB_INSTANTIATED = 1,
    RB_INITIALIZATION = 2,
    RB_STEPPING = 4,
    RB_FAILED = 8,
    RB_TERMINATED = 16,
    RB_EVENT = 32,
    RB_CONTINUOUS = 64,
    RB_INTERMEDIATE = 128, /* within a step, while the host is shown where it is */
    RB_BEFORE_THE_RUN = RB_INSTANTIATED | RB_INITIALIZATION,
    RB_CO_SIMULATION = RB_BEFORE_THE_RUN | RB_STEPPING | RB_FAILED | RB_TERMINATED,
    RB_MODEL_EXCHANGE = RB_BEFORE_THE_RUN | RB_EVENT | RB_CONTINUOUS | RB_TERMINATED,
    RB_ANY = RB_CO_SIMULATION | RB_MODEL_EXCHANGE
};

/* What the conditions of loops have been, and of them the log was told. */
typedef struct {
    double least;      /* condition; 0 before the first */
    double rank;       /* the largest */
    double largest, t; /* condition above its limit, and when */
    double told;
} Passage;

/* All that a run remembers: before its start, the memory holds the start values. */
typedef struct {
    double m[RB_SIZE];
    /* derivatives of the inputs at the beginning of the next step: the first, the second... */
    double slope[RB_SLOPES + 1];
    double stop_time;
    /* how far states may be from where they belong in model exchange, relative to their size */
    double drift;
    /* where samples are events, the next one is at this multiple of the sample time */
    double next_sample;
    double side[RB_SIDES]; /* of each law, in model exchange */
    Passage passages[RB_LOOPS + 1];
    int slopes_given;
    int mode;
} State;

/* A copy of a state, in one of the lists of those that its instance has saved. */
typedef struct Saved {
    struct Saved *next;
    State state;
} Saved;

enum { RB_FEWEST_LISTS = 8 };

/* The saved states of an instance, found by their address: a power of 2 of lists, more when there
   are more states. */
typedef struct {
    Saved *first[RB_FEWEST_LISTS]; /* the lists as long as these are enough */
    Saved **lists;
    size_t n_lists, n;
} SavedStates;

typedef struct {
    State now;
    /* those that it can be in: RB_CO_SIMULATION, also with RB_EVENT, or RB_MODEL_EXCHANGE */
    int modes;
    Host host;
    SavedStates saved;
    int inputs_wanted;                /* in an intermediate update, whether inputs can be set */
    unsigned char required[RB_COUNT]; /* the variables that the host uses in intermediate updates */
    char *name;                       /* behind the instance */
#if defined(RB_XCP)
    /* the first is the second, also where the instance is read alone */
    Service *service, own_service;
#endif
} Instance;

/* The instance that a host knows by its address. */
static inline Instance *instance_of(void *component)
{
    return (Instance *)component;
}

/* RB_LOCKED is a call in which nobody else reads or writes the memory of the instance, RB_SAMPLED
   one that is a step. */
#if defined(RB_XCP)

static inline void lock_memory(const Instance *fmu)
{
    if (fmu)
        (void)pthread_mutex_lock(&fmu->service->lock);
}

static inline Status unlock_memory(const Instance *fmu, Status status)
{
    if (fmu)
        (void)pthread_mutex_unlock(&fmu->service->lock);
    return status;
}

/* After a step, the signals that a master has asked for. */
static inline Status send_sample(const Instance *fmu, Status status)
{
    if (fmu && status == RB_OK && fmu->service->is_on)
        send_signals(&fmu->service->server, fmu->now.m[RB_T]);
    return status;
}

#define RB_LOCKED(fmu, call) (lock_memory(fmu), unlock_memory(fmu, call))
#define RB_SAMPLED(fmu, call) send_sample(fmu, call)

#else

#define RB_LOCKED(fmu, call) (call)
#define RB_SAMPLED(fmu, call) (call)

#endif

static inline const char *mode_name(int mode)
{
    switch (mode) {
    case RB_INSTANTIATED: return "before initialization";
    case RB_INITIALIZATION: return "in initialization mode";
    case RB_STEPPING: return "during a run";
    case RB_FAILED: return "after a step that failed";
    case RB_EVENT: return "in event mode";
    case RB_INTERMEDIATE: return "in an intermediate update";
    case RB_CONTINUOUS: return "in continuous-time mode";
    default: return "after termination";
    }
}

#endif
