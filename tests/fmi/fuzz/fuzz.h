/* Random valid and invalid calls of an FMU, and the laws that the fuzzer checks after each call.

   fuzz2.c and fuzz3.c include the runtime of an FMU and define common names for the calls of their FMI version:
     FMI(name)                                       the function of that name
     GET, SET (c, vr, n, values, elements)           fmi2GetReal, fmi3SetFloat64 and so on
     SAVE, RESTORE, FREE_STATE, STATE_SIZE, SERIALIZE, DESERIALIZE, RATES
   They include this file, and define the functions that differ between the versions:
     void *make(int i)                      instance i, or NULL
     Status call_for_derivatives(void *c)   directional derivatives, and queries of this version only
     Status call_for_nothing(void *c)       functions that these FMUs do not provide
     Status call_for_events(void *c), call_to_initialize(void *c), call_to_step(void *c, double t)
     int is_quiet(const Instance *)         whether the instance cannot send messages
     void report_more(void)                 prints further counts

   Laws: a rejected call has no visible effect and logs the reason; a failed step also ends the run; the memory is finite
   after every call; no instance changes another instance. The program stops at the first violation. At its end it prints
   the numbers of accepted and rejected calls of each function. */

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { INSTANCES = 2, STATES = 5, MOST = 6 };

/* Visible state of an instance: its variables except dependent rates, and its serialized state. */
typedef struct {
    Status variables, memory;
    double values[RB_COUNT], m[RB_COUNT];
    char bytes[RB_SERIALIZED_SIZE];
} Observation;

static Instance *instances[INSTANCES];
static void *observed[INSTANCES]; /* a saved state for each observation, reused */
static void *states[STATES];      /* states that the importer saved, of any instance; some are freed */
static char kept[RB_SERIALIZED_SIZE + 1];
static const char *called = "nothing";
static long calls, messages;
static struct {
    const char *function;
    long accepted, refused;
} counts[100];
static int wild, failing_memory, quiet;

static void *make(int i);
static Status call_for_derivatives(void *c);
static Status call_for_nothing(void *c);
static Status call_for_events(void *c);
static Status call_to_initialize(void *c);
static Status call_to_step(void *c, double t);
static int is_quiet(const Instance *fmu);
static void report_more(void);

/* Call a function and store its name. */
#define NAME(function) #function
#define CALL(function, ...) (called = NAME(function), function(__VA_ARGS__))

/* ---- random values ---- */

static uint64_t chance_state;

static uint64_t draw(void)
{
    chance_state ^= chance_state >> 12;
    chance_state ^= chance_state << 25;
    chance_state ^= chance_state >> 27;
    return chance_state * UINT64_C(2685821657736338717);
}

static unsigned below(unsigned n)
{
    return (unsigned)((draw() >> 33) % n);
}

static int percent(unsigned p)
{
    return below(100) < p;
}

static double number(void)
{
    static const double EXTREME[] = {NAN,    INFINITY, -INFINITY, DBL_MAX, -DBL_MAX, DBL_MIN,
                                     5e-324, -0.0,     1e300,     1e-300,  1e17};
    if (wild && percent(40))
        return EXTREME[below(sizeof EXTREME / sizeof *EXTREME)];
    return ((double)below(20001) - 10000.0) * 1e-3;
}

/* Communication step of some inner steps, or an invalid step; never millions of inner steps. */
static double step_size(void)
{
    static const double NO_STEP[] = {NAN, INFINITY, -1e-3, 0.0, -0.0, 5e-324, 1e-300, 1e12, DBL_MAX, 1.7e-3, 3e-3};
    if (wild && percent(60))
        return NO_STEP[below(sizeof NO_STEP / sizeof *NO_STEP)];
    return (RB_SAMPLE_TIME > 0.0 && percent(80) ? RB_SAMPLE_TIME : RB_INNER_STEP) * (1 + below(3));
}

static double start_time(void)
{
    static const double STRANGE[] = {NAN, INFINITY, -INFINITY, DBL_MAX, -DBL_MAX, 1e300, 1e17, -1e17};
    return wild && percent(50) ? STRANGE[below(8)] : 0.5 * below(4);
}

static const Instance *current; /* instance of the call */

/* Return the number of elements of a variable in the current instance. */
static size_t length_in_call(Reference variable)
{
#if defined(RB_RESIZABLE)
    return current ? length_of(current, variable) : RB_LENGTH[variable];
#else
    return RB_LENGTH[variable];
#endif
}

static Reference reference(int start, int n)
{
    static const Reference NONE[] = {RB_COUNT, RB_COUNT + 1, UINT32_MAX, UINT32_MAX - 1, INT_MAX, 0};
    if (wild && percent(20))
        return NONE[below(6)];
    if (n == 0 || (wild && percent(20)))
        return (Reference)below(RB_COUNT);
    const Reference k = (Reference)(start + (int)below((unsigned)n));
    Reference first = k;
    while (RB_LENGTH[first] == 0)
        first--;
    return wild && percent(10) ? k : first;
}

/* Up to MOST value references of one segment of the memory, and the number of their elements, or a wrong number. */
static size_t references(int start, int n, Reference vr[MOST], size_t *elements)
{
    const size_t count = n == 0 && !wild ? 0 : below(MOST + 1);
    *elements = 0;
    for (size_t i = 0; i < count; i++) {
        vr[i] = reference(start, n);
        *elements += vr[i] < RB_COUNT ? length_in_call(vr[i]) : 1;
    }
    if (wild && percent(20))
        *elements += below(2) ? 1 : (size_t)-1;
    return count;
}

/* Return mostly the address, sometimes NULL. */
static void *maybe(void *address)
{
    return wild && percent(15) ? NULL : address;
}

static void *state(void)
{
    return maybe(states[below(STATES)]);
}

/* Change some bytes of a serialized state, mostly outside its GUID. */
static void damage(char *bytes, size_t size)
{
    for (unsigned k = below(4); k > 0; k--) {
        const size_t at = percent(90) ? sizeof RB_GUID + below((unsigned)(size - sizeof RB_GUID)) : below((unsigned)size);
        bytes[at] = (char)below(256);
    }
}

/* ---- memory and messages of the importer ---- */

static void *host_memory(size_t n, size_t size)
{
    return failing_memory ? NULL : calloc(n, size);
}

static void fail(const char *what)
{
    printf("after call %ld, %s: %s\n", calls, called, what);
    exit(1);
}

static void check_message(Status status, const char *category, const char *text)
{
    if (status == RB_OK || !category || !text || !text[0])
        fail("a message without a text, a category or an error");
    if (strchr(text, '%'))
        fail("a message that looks like a format");
    messages++;
}

/* ---- calls ---- */

static void instantiate(int i)
{
    failing_memory = wild && percent(10);
    current = NULL;
    instances[i] = make(i);
    failing_memory = 0;
    if (instances[i] && SAVE(instances[i], &observed[i]) != RB_OK)
        fail("the state of a new instance cannot be saved");
}

/* Read the visible state of an instance by calls that change no state. */
static void observe(int i, Observation *seen)
{
    const char *tested = called;
    Reference all[RB_COUNT];
    size_t n = 0, n_memory = 0, elements = 0, elements_in_memory = 0;
    current = instances[i];
    for (Reference k = 0; k < RB_COUNT; k++)
        if (RB_LENGTH[k]) {
            all[n++] = k;
            n_memory += k < RB_SIZE;
            elements += length_in_call(k);
            elements_in_memory += k < RB_SIZE ? length_in_call(k) : 0;
        }
    memset(seen, 0, sizeof *seen);
    seen->variables = GET(instances[i], all, n, seen->values, elements);
    seen->memory = GET(instances[i], all, n_memory, seen->m, elements_in_memory);
    called = tested;
    if (SAVE(instances[i], &observed[i]) != RB_OK ||
        SERIALIZE(instances[i], observed[i], (void *)seen->bytes, RB_SERIALIZED_SIZE) != RB_OK)
        fail("the state cannot be saved");
}

static void numbers(size_t n, double values[])
{
    for (size_t k = 0; k < n; k++)
        values[k] = number();
}

static Status call_setter(void *c)
{
    const int segments[][2] = {{RB_U, RB_NU}, {RB_P, RB_NP}, {RB_X, RB_NX + RB_NZ}, {RB_Y, RB_NY}}, pick = (int)below(wild ? 4 : 2);
    Reference vr[MOST];
    double values[MOST * RB_COUNT];
    size_t elements;
    const size_t n = references(segments[pick][0], segments[pick][1], vr, &elements);
    numbers(MOST * RB_COUNT, values);
    return SET(c, maybe(vr), n, maybe(values), elements);
}

static Status call_getter(void *c)
{
    Reference vr[MOST];
    double values[MOST * RB_COUNT];
    size_t elements;
    const size_t n = references(0, RB_COUNT, vr, &elements);
    return GET(c, maybe(vr), n, maybe(values), elements);
}

static Status call_for_states(void *c)
{
    char bytes[RB_SERIALIZED_SIZE + 1];
    size_t size = wild && percent(30) ? below(RB_SERIALIZED_SIZE + 2) : RB_SERIALIZED_SIZE;
    void **slot = &states[below(STATES)], *copy = *slot;
    switch (below(6)) {
    case 0:
        if (percent(50))
            *slot = NULL; /* the state stays with its instance */
        return CALL(SAVE, c, maybe(slot));
    case 1: return CALL(RESTORE, c, state());
    case 2: return CALL(FREE_STATE, c, wild ? maybe(&copy) : slot); /* a copy leaves a pointer to a freed state */
    case 3: return CALL(STATE_SIZE, c, state(), maybe(&size));
    case 4: return CALL(SERIALIZE, c, state(), maybe(percent(50) ? kept : bytes), size);
    default:
        memcpy(bytes, kept, sizeof bytes);
        if (wild)
            damage(bytes, RB_SERIALIZED_SIZE);
        if (percent(50))
            *slot = NULL;
        return CALL(DESERIALIZE, c, maybe(bytes), size, maybe(slot));
    }
}

static Status call_for_the_course(void *c)
{
    const char *categories[] = {"logAll", wild ? maybe("no category") : "logStatusError"};
    switch (below(20)) {
    case 0: return CALL(FMI(Terminate), c);
    case 1: return CALL(FMI(Reset), c);
    case 2: return CALL(FMI(SetDebugLogging), c, 1, below(3), maybe(categories));
    case 3: case 4: case 5: case 6: case 7: case 8: case 9: case 10: case 11: case 12: return call_to_initialize(c);
    default: return CALL(FMI(ExitInitializationMode), c);
    }
}

static Status call_of_model_exchange(void *c, double t)
{
    double x[RB_NX + 1], z[RB_INDICATORS + 1];
    const size_t n = wild && percent(30) ? below(RB_NX + 2) : RB_NX;
    const size_t nz = wild && percent(30) ? below(RB_INDICATORS + 2) : RB_INDICATORS;
    Boolean flags[2];
    numbers(RB_NX + 1, x);
    switch (below(11)) {
    case 0: case 1: return call_for_events(c);
    case 2: case 3: return CALL(FMI(EnterContinuousTimeMode), c);
    case 4: return CALL(FMI(CompletedIntegratorStep), c, 1, maybe(flags), maybe(flags + 1));
    case 5: return CALL(FMI(SetTime), c, wild && percent(50) ? start_time() : t + step_size());
    case 6: return CALL(FMI(SetContinuousStates), c, maybe(x), n);
    case 7: return CALL(FMI(GetContinuousStates), c, maybe(x), n);
    case 8: return CALL(RATES, c, maybe(x), n);
    case 9: return CALL(FMI(GetNominalsOfContinuousStates), c, maybe(x), n);
    default: return CALL(FMI(GetEventIndicators), c, maybe(z), nz);
    }
}

static void release_instance(int i)
{
    CALL(FMI(FreeInstance), wild ? NULL : instances[i]);
    if (!wild)
        instances[i] = observed[i] = NULL;
}

/* Make one random call of instance i, and store its name in `called`. */
static Status call(int i)
{
    Instance *fmu = instances[i], *c = wild && percent(5) ? NULL : fmu;
    const int own = fmu->modes == RB_MODEL_EXCHANGE ? percent(10) : percent(90);
    const double t = fmu->now.m[RB_T];
    Status status = RB_OK;
    current = fmu;
    called = "nothing";
    quiet = is_quiet(fmu) || !c;
#if defined(RB_RESIZABLE)
    if ((fmu->now.mode & (RB_INSTANTIATED | RB_CONFIGURATION)) && percent(50))
        return call_for_nothing(c);
#endif
    switch (below(20)) {
    case 0: case 1: case 2: status = call_setter(c); break;
    case 3: status = call_getter(c); break;
    case 4: case 5: status = call_for_derivatives(c); break;
    case 6: case 7: status = call_for_states(c); break;
    case 8: status = call_for_nothing(c); break;
    case 9: case 10: case 11: case 12: case 13: status = call_for_the_course(c); break;
    case 14: if (percent(2)) release_instance(i); break;
    case 15: status = call_for_events(c); break;
    default: status = own ? call_to_step(c, t) : call_of_model_exchange(c, t);
    }
    return status;
}

/* ---- laws ---- */

static int same(const Observation *a, const Observation *b)
{
    return a->variables == b->variables && a->memory == b->memory && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0 &&
           memcmp(a->values, b->values, sizeof a->values) == 0 && memcmp(a->m, b->m, sizeof a->m) == 0;
}

/* Fail unless a rejected call left the state unchanged; after a failed step, only the mode may change. */
static void check_refusal(int i, Status status, const Observation *before, const Observation *after, long said)
{
    Observation expected = *before;
    if (status == RB_DISCARD && (strstr(called, "DoStep") || strstr(called, "ActivateModelPartition"))) {
        memcpy(expected.bytes + sizeof RB_GUID + offsetof(State, mode), &(int){RB_FAILED}, sizeof(int));
        seal(expected.bytes);
    }
    if (!same(&expected, after))
        fail("it was refused, and has changed the instance");
    if (!quiet && i >= 0 && said == messages)
        fail("it was refused without a message");
}

static void count(Status status)
{
    int k = 0;
    while (counts[k].function && strcmp(counts[k].function, called) != 0)
        k++;
    counts[k].function = called;
    counts[k].accepted += status == RB_OK;
    counts[k].refused += status != RB_OK;
}

static void check_memory(const Instance *fmu)
{
    if (!all_finite(fmu->now.m))
        fail("the memory is not finite");
    if (!is_mode(fmu, fmu->now.mode))
        fail("the instance is in no mode");
}

static void call_and_check(int i)
{
    static Observation before, after;
    const int other = (i + 1) % INSTANCES;
    State others = {0};
    if (instances[other])
        memcpy(&others, &instances[other]->now, sizeof others);
    observe(i, &before);
    const long said = messages;
    failing_memory = wild && percent(10);
    const Status status = call(i);
    failing_memory = 0;
    count(status);
    if (instances[other] && memcmp(&others, &instances[other]->now, sizeof others) != 0)
        fail("it has changed another instance");
    if (!instances[i])
        return;
    check_memory(instances[i]);
    if (status != RB_OK) {
        observe(i, &after);
        check_refusal(i, status, &before, &after, said);
    }
}

int main(int argc, char *argv[])
{
    const long wanted = argc > 1 ? atol(argv[1]) : 10000;
    chance_state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (calls = 1; calls <= wanted; calls++) {
        const int i = (int)below(INSTANCES);
        wild = percent(35);
        if (instances[i])
            call_and_check(i);
        else
            instantiate(i);
    }
    for (int i = 0; i < INSTANCES; i++)
        free_instance(instances[i]);
    report_more();
    for (int k = 0; counts[k].function; k++)
        printf("%s %ld %ld\n", counts[k].function, counts[k].accepted, counts[k].refused);
    return 0;
}
