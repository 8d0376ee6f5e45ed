/* Random calls of an FMU, valid and invalid, and what must hold after each of them.

   fuzz2.c and fuzz3.c include the runtime of an FMU, then this, and define
     Status call(int i)                  one random call of instance i, its name in `called`
     void instantiate(int i)             makes instance i, or tries to
     void observe(int i, Observation *)  all that a host can see of it, by calls that change nothing
     void report_more(void)              prints what else it has counted

   What must hold: a call that is refused has changed nothing that can be seen and has said why; a step that fails has
   ended the run besides; the memory is finite after every call; no instance changes another. The program stops at the
   first call after which it does not, and prints in the end how often each function was accepted and refused. */

#include <stdio.h>
#include <stdlib.h>

enum { INSTANCES = 2, STATES = 5, MOST = 6 };

/* All that can be seen of an instance: its variables, those that are no rates on their own, and its serialized state. */
typedef struct {
    Status variables, memory;
    double values[COUNT], m[COUNT];
    char bytes[SERIALIZED_SIZE];
} Observation;

static Instance *instances[INSTANCES];
static void *observed[INSTANCES]; /* a saved state for each observation, used again and again */
static void *states[STATES];      /* states that the host has saved, of whichever instance, some freed long ago */
static char kept[SERIALIZED_SIZE + 1];
static const char *called = "nothing";
static long calls, messages;
static struct {
    const char *function;
    long accepted, refused;
} counts[100];
static int wild, failing_memory, quiet;

static Status call(int i);
static void instantiate(int i);
static void observe(int i, Observation *seen);
static void report_more(void);

/* ---- chance ---- */

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

/* A step of the host: some inner steps, or nothing that can be stepped; never one of millions of inner steps. */
static double step_size(void)
{
    static const double NO_STEP[] = {NAN, INFINITY, -1e-3, 0.0, -0.0, 5e-324, 1e-300, 1e12, DBL_MAX, 1.7e-3, 3e-3};
    if (wild && percent(60))
        return NO_STEP[below(sizeof NO_STEP / sizeof *NO_STEP)];
    return (SAMPLE_TIME > 0.0 && percent(80) ? SAMPLE_TIME : INNER_STEP) * (1 + below(3));
}

static double start_time(void)
{
    static const double STRANGE[] = {NAN, INFINITY, -INFINITY, DBL_MAX, -DBL_MAX, 1e300, 1e17, -1e17};
    return wild && percent(50) ? STRANGE[below(8)] : 0.5 * below(4);
}

static Reference reference(int start, int n)
{
    static const Reference NONE[] = {COUNT, COUNT + 1, UINT32_MAX, UINT32_MAX - 1, INT_MAX, 0};
    if (wild && percent(20))
        return NONE[below(6)];
    if (n == 0 || (wild && percent(20)))
        return (Reference)below(COUNT);
    const Reference k = (Reference)(start + (int)below((unsigned)n));
    Reference first = k;
    while (LENGTH[first] == 0)
        first--;
    return wild && percent(10) ? k : first;
}

/* Up to MOST value references of one segment of the memory, and the number of their elements, or nearly so. */
static size_t references(int start, int n, Reference vr[MOST], size_t *elements)
{
    const size_t count = n == 0 && !wild ? 0 : below(MOST + 1);
    *elements = 0;
    for (size_t i = 0; i < count; i++) {
        vr[i] = reference(start, n);
        *elements += vr[i] < COUNT ? LENGTH[vr[i]] : 1;
    }
    if (wild && percent(20))
        *elements += below(2) ? 1 : (size_t)-1;
    return count;
}

/* Mostly the address, sometimes NULL. */
static void *maybe(void *address)
{
    return wild && percent(15) ? NULL : address;
}

static void *state(void)
{
    return maybe(states[below(STATES)]);
}

/* Damages bytes of a state in some places, mostly in those that are not its guid. */
static void damage(char *bytes, size_t size)
{
    for (unsigned k = below(4); k > 0; k--) {
        const size_t at = percent(90) ? sizeof GUID + below((unsigned)(size - sizeof GUID)) : below((unsigned)size);
        bytes[at] = (char)below(256);
    }
}

/* ---- memory and messages of the host ---- */

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
    if (status == OK || !category || !text || !text[0])
        fail("a message without a text, a category or an error");
    if (strchr(text, '%'))
        fail("a message that looks like a format");
    messages++;
}

/* ---- laws ---- */

static int same(const Observation *a, const Observation *b)
{
    return a->variables == b->variables && a->memory == b->memory && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0 &&
           memcmp(a->values, b->values, sizeof a->values) == 0 && memcmp(a->m, b->m, sizeof a->m) == 0;
}

/* Fails unless a call that was refused left all as it was; after a failed step, all but the mode. */
static void check_refusal(int i, Status status, const Observation *before, const Observation *after, long said)
{
    Observation expected = *before;
    if (status == DISCARD && strstr(called, "DoStep"))
        memcpy(expected.bytes + sizeof GUID + offsetof(State, mode), &(int){FAILED}, sizeof(int));
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
    counts[k].accepted += status == OK;
    counts[k].refused += status != OK;
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
    if (status != OK) {
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
        discard(instances[i]);
    report_more();
    for (int k = 0; counts[k].function; k++)
        printf("%s %ld %ld\n", counts[k].function, counts[k].accepted, counts[k].refused);
    return 0;
}
