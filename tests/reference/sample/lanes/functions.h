#ifndef RB_FUNCTIONS_H
#define RB_FUNCTIONS_H

#include "model.h"
#include "lanes.h"

#define RB_LARGE_LANES 0
/* Workspaces: arrays whose length depends on the model. For large models they are not on the stack.

   RB_WORKSPACE(large, type, name, number) declares the pointer `name` to `number` elements, which
   are valid until the end of the scope. `large` is a macro that is 0 or 1. If it is 0, the elements
   are on the stack. If it is 1, each declaration has a list of free workspaces. A call takes a
   workspace from the list, or allocates one if the list is empty. At the end of the scope, the
   workspace returns to the list. Several threads may therefore run at once, and a list grows to the
   number of simultaneous calls. If an allocation fails, the process ends with abort(). The library
   frees the lists when it is unloaded.

   A build with -DSTATIC_WORKSPACES is for a program in which only one thread runs the model. Each
   declaration then has one static workspace, and nothing is allocated. With -DFIXED_INSTANCES=n
   each declaration has n static workspaces. */

#ifndef RB_WORKSPACE_H
#define RB_WORKSPACE_H

/* The macros use types without parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */

#define RB_WORKSPACE(large, type, name, number) RB_WORKSPACE_OF(large, type, name, number)
#define RB_WORKSPACE_OF(large, type, name, number) RB_WORKSPACE_##large(type, name, number)

#define RB_WORKSPACE_0(type, name, number) \
    type name##_elements[number];          \
    type *const name = name##_elements

#if defined(STATIC_WORKSPACES)

#define RB_WORKSPACE_1(type, name, number) \
    static type name##_elements[number];   \
    type *const name = name##_elements

#elif !defined(__GNUC__) /* one workspace for each thread */

#if defined(_MSC_VER)
#define RB_OF_THREAD __declspec(thread)
#else
#define RB_OF_THREAD _Thread_local
#endif
#define RB_WORKSPACE_1(type, name, number)            \
    static RB_OF_THREAD type name##_elements[number]; \
    type *const name = name##_elements

#elif defined(FIXED_INSTANCES)

struct loan {
    unsigned char *taken;
    int slot;
};

static inline int take_workspace(unsigned char *taken)
{
    int k = 0;
    while (__atomic_exchange_n(&taken[k], 1, __ATOMIC_ACQUIRE))
        k = (k + 1) % FIXED_INSTANCES;
    return k;
}

static inline void return_workspace(const struct loan *loan)
{
    __atomic_store_n(&loan->taken[loan->slot], 0, __ATOMIC_RELEASE);
}

#define RB_WORKSPACE_1(type, name, number)                                                         \
    static type name##_elements[FIXED_INSTANCES][number];                                          \
    static unsigned char name##_taken[FIXED_INSTANCES];                                            \
    const struct loan name##_loan                                                                  \
        __attribute__((cleanup(return_workspace))) = {name##_taken, take_workspace(name##_taken)}; \
    type *const name = name##_elements[name##_loan.slot]

#else

#include <stdint.h>
#include <stdlib.h>

enum {
    RB_FREE_WORKSPACES = 16, /* kept workspaces of a list; more simultaneous calls allocate */
    RB_ALIGNED = 64          /* alignment [bytes]: a cache line, and the longest SIMD vector */
};

/* List of the free workspaces of one declaration, and a link to the next list. */
struct workspaces {
    void *unused[RB_FREE_WORKSPACES];
    struct workspaces *next;
    int is_listed;
};

static struct workspaces *RB_WORKSPACE_LISTS;

struct loan {
    struct workspaces *list;
    void *memory;
};

/* Add a list to the lists that are freed when the library is unloaded. */
static inline void list_workspaces(struct workspaces *list)
{
    if (__atomic_exchange_n(&list->is_listed, 1, __ATOMIC_ACQ_REL))
        return;
    list->next = __atomic_load_n(&RB_WORKSPACE_LISTS, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&RB_WORKSPACE_LISTS, &list->next, list, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
}

static inline struct loan take_workspace(struct workspaces *list, size_t size)
{
    struct loan loan = {list, NULL};
    for (int k = 0; k < RB_FREE_WORKSPACES && !loan.memory; k++)
        loan.memory = __atomic_exchange_n(&list->unused[k], (void *)0, __ATOMIC_ACQUIRE);
    if (!loan.memory) {
        list_workspaces(list);
        loan.memory = malloc(size + RB_ALIGNED);
    }
    if (!loan.memory)
        abort();
    return loan;
}

static inline void return_workspace(const struct loan *loan)
{
    for (int k = 0; k < RB_FREE_WORKSPACES; k++) {
        void *none = NULL;
        if (__atomic_compare_exchange_n(&loan->list->unused[k], &none, loan->memory, 0,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
    }
    free(loan->memory);
}

/* Return the first address in the memory of a loan that is aligned for any type. */
static inline void *aligned_memory(const struct loan *loan)
{
    unsigned char *memory = (unsigned char *)loan->memory;
    return memory + (RB_ALIGNED - (uintptr_t)memory % RB_ALIGNED) % RB_ALIGNED;
}

#if defined(RB_LARGE_FUNCTION) || (defined(RB_LARGE) && RB_LARGE) || \
    (defined(RB_LARGE_SCENE) && RB_LARGE_SCENE) || (defined(RB_LARGE_LANES) && RB_LARGE_LANES)
static void free_workspaces(void) __attribute__((destructor));
static void free_workspaces(void)
{
    for (struct workspaces *list = RB_WORKSPACE_LISTS; list; list = list->next)
        for (int k = 0; k < RB_FREE_WORKSPACES; k++)
            free(list->unused[k]);
}
#endif

#define RB_WORKSPACE_1(type, name, number)                                     \
    static struct workspaces name##_list;                                      \
    const struct loan name##_loan __attribute__((cleanup(return_workspace))) = \
        take_workspace(&name##_list, (number) * sizeof(type));                 \
    type *const name = (type *)aligned_memory(&name##_loan)

#endif

/* NOLINTEND(bugprone-macro-parentheses) */

#endif
static inline void lane_derivative(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[3] * in[2];
    const real v3 = -v2;
    out[0] = v3;
    const real v6 = in[3] * in[1];
    out[1] = v6;
    const real v11 = in[7] * in[3];
    const real v13 = truth((bits)(v11 < lanes(-1.0)));
    const real v14 = masked((bits)(v13 != lanes(0.0)), lanes(-1.0));
    const real v15 = truth((bits)(v13 == lanes(0.0)));
    const real v16 = masked((bits)(v15 != lanes(0.0)), v11);
    const real v17 = v14 + v16;
    const real v18 = truth((bits)(lanes(1.0) < v17));
    const real v19 = masked((bits)(v18 != lanes(0.0)), lanes(1.0));
    const real v20 = truth((bits)(v18 == lanes(0.0)));
    const real v21 = masked((bits)(v20 != lanes(0.0)), v17);
    const real v22 = v19 + v21;
    const real v23 = in[4] - v22;
    const real v25 = v23 / in[6];
    out[2] = v25;
}

static inline void lane_update(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[5] - in[3];
    const real v3 = v2 + v2;
    out[0] = v3;
}

static inline void lane_output(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[4] * in[3];
    out[0] = v2;
}

static inline void lane_project(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v1 = in[1] * in[1];
    const real v3 = in[2] * in[2];
    const real v4 = v1 + v3;
    const real v5 = square_root(v4);
    const real r0 = lanes(1.0) / v5;
    const real v6 = in[1] * r0;
    out[0] = v6;
    const real v8 = in[2] * r0;
    out[1] = v8;
    out[2] = in[3];
}

static const double RB_STEP = 0.001;
enum { RB_SPANS = 1 };

#endif
