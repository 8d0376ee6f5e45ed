#ifndef RB_STEPS_H
#define RB_STEPS_H

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
enum { RB_SIZE = 9 };
static void advance(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[0] + lanes(0.001);
    out[0] = v2;
    const real v8 = in[3] * in[2];
    const real v9 = lanes(0.16666666666666666) * v8;
    const real v15 = in[7] * in[3];
    const real v17 = truth((bits)(v15 < lanes(-1.0)));
    const real v18 = masked((bits)(v17 != lanes(0.0)), lanes(-1.0));
    const real v19 = truth((bits)(v17 == lanes(0.0)));
    const real v20 = masked((bits)(v19 != lanes(0.0)), v15);
    const real v21 = v18 + v20;
    const real v22 = truth((bits)(lanes(1.0) < v21));
    const real v23 = masked((bits)(v22 != lanes(0.0)), lanes(1.0));
    const real v24 = truth((bits)(v22 == lanes(0.0)));
    const real v25 = masked((bits)(v24 != lanes(0.0)), v21);
    const real v26 = v23 + v25;
    const real v27 = in[4] - v26;
    const real r0 = lanes(1.0) / in[6];
    const real v29 = v27 * r0;
    const real v30 = lanes(0.0005) * v29;
    const real v31 = in[3] + v30;
    const real v32 = in[3] * in[1];
    const real v33 = lanes(0.0005) * v32;
    const real v34 = in[2] + v33;
    const real v35 = v31 * v34;
    const real v36 = lanes(0.3333333333333333) * v35;
    const real v37 = v9 + v36;
    const real v38 = in[7] * v31;
    const real v39 = truth((bits)(v38 < lanes(-1.0)));
    const real v40 = masked((bits)(v39 != lanes(0.0)), lanes(-1.0));
    const real v41 = truth((bits)(v39 == lanes(0.0)));
    const real v42 = masked((bits)(v41 != lanes(0.0)), v38);
    const real v43 = v40 + v42;
    const real v44 = truth((bits)(lanes(1.0) < v43));
    const real v45 = masked((bits)(v44 != lanes(0.0)), lanes(1.0));
    const real v46 = truth((bits)(v44 == lanes(0.0)));
    const real v47 = masked((bits)(v46 != lanes(0.0)), v43);
    const real v48 = v45 + v47;
    const real v49 = in[4] - v48;
    const real v50 = v49 * r0;
    const real v51 = lanes(0.0005) * v50;
    const real v52 = in[3] + v51;
    const real v53 = lanes(0.0005) * v8;
    const real v54 = in[1] - v53;
    const real v55 = v31 * v54;
    const real v56 = lanes(0.0005) * v55;
    const real v57 = in[2] + v56;
    const real v58 = v52 * v57;
    const real v59 = lanes(0.3333333333333333) * v58;
    const real v60 = v37 + v59;
    const real v61 = in[7] * v52;
    const real v62 = truth((bits)(v61 < lanes(-1.0)));
    const real v63 = masked((bits)(v62 != lanes(0.0)), lanes(-1.0));
    const real v64 = truth((bits)(v62 == lanes(0.0)));
    const real v65 = masked((bits)(v64 != lanes(0.0)), v61);
    const real v66 = v63 + v65;
    const real v67 = truth((bits)(lanes(1.0) < v66));
    const real v68 = masked((bits)(v67 != lanes(0.0)), lanes(1.0));
    const real v69 = truth((bits)(v67 == lanes(0.0)));
    const real v70 = masked((bits)(v69 != lanes(0.0)), v66);
    const real v71 = v68 + v70;
    const real v72 = in[4] - v71;
    const real v73 = v72 * r0;
    const real v74 = lanes(0.001) * v73;
    const real v75 = in[3] + v74;
    const real v76 = lanes(0.0005) * v35;
    const real v77 = in[1] - v76;
    const real v78 = v52 * v77;
    const real v79 = lanes(0.001) * v78;
    const real v80 = in[2] + v79;
    const real v81 = v75 * v80;
    const real v82 = lanes(0.16666666666666666) * v81;
    const real v83 = v60 + v82;
    const real v84 = lanes(0.001) * v83;
    const real v85 = in[1] - v84;
    const real v86 = v85 * v85;
    const real v87 = lanes(0.16666666666666666) * v32;
    const real v88 = lanes(0.3333333333333333) * v55;
    const real v89 = v87 + v88;
    const real v90 = lanes(0.3333333333333333) * v78;
    const real v91 = v89 + v90;
    const real v92 = lanes(0.001) * v58;
    const real v93 = in[1] - v92;
    const real v94 = v75 * v93;
    const real v95 = lanes(0.16666666666666666) * v94;
    const real v96 = v91 + v95;
    const real v97 = lanes(0.001) * v96;
    const real v98 = in[2] + v97;
    const real v99 = v98 * v98;
    const real v100 = v86 + v99;
    const real v101 = square_root(v100);
    const real r1 = lanes(1.0) / v101;
    const real v102 = v85 * r1;
    out[1] = v102;
    const real v104 = v98 * r1;
    out[2] = v104;
    const real v106 = lanes(0.16666666666666666) * v29;
    const real v107 = lanes(0.3333333333333333) * v50;
    const real v108 = v106 + v107;
    const real v109 = lanes(0.3333333333333333) * v73;
    const real v110 = v108 + v109;
    const real v111 = in[7] * v75;
    const real v112 = truth((bits)(v111 < lanes(-1.0)));
    const real v113 = masked((bits)(v112 != lanes(0.0)), lanes(-1.0));
    const real v114 = truth((bits)(v112 == lanes(0.0)));
    const real v115 = masked((bits)(v114 != lanes(0.0)), v111);
    const real v116 = v113 + v115;
    const real v117 = truth((bits)(lanes(1.0) < v116));
    const real v118 = masked((bits)(v117 != lanes(0.0)), lanes(1.0));
    const real v119 = truth((bits)(v117 == lanes(0.0)));
    const real v120 = masked((bits)(v119 != lanes(0.0)), v116);
    const real v121 = v118 + v120;
    const real v122 = in[4] - v121;
    const real v123 = v122 * r0;
    const real v124 = lanes(0.16666666666666666) * v123;
    const real v125 = v110 + v124;
    const real v126 = lanes(0.001) * v125;
    const real v127 = in[3] + v126;
    out[3] = v127;
    const real v130 = v2 / lanes(0.002);
    const real v132 = v130 + lanes(0.25);
    const real v133 = rounded_down(v132);
    const real v134 = v132 - v133;
    const real v136 = truth((bits)(v134 < lanes(0.5)));
    const real v138 = in[5] - v127;
    const real v139 = v138 + v138;
    const real v140 = masked((bits)(v136 != lanes(0.0)), v139);
    const real v141 = truth((bits)(v136 == lanes(0.0)));
    const real v142 = masked((bits)(v141 != lanes(0.0)), in[4]);
    const real v143 = v140 + v142;
    out[4] = v143;
    out[5] = in[5];
    out[6] = in[6];
    out[7] = in[7];
    const real v148 = v143 * v127;
    out[8] = v148;
}

static void begin(const real *in, real *out)
{
    (void)in;
    (void)out;
    out[0] = in[0];
    const real v3 = in[1] * in[1];
    const real v5 = in[2] * in[2];
    const real v6 = v3 + v5;
    const real v7 = square_root(v6);
    const real r0 = lanes(1.0) / v7;
    const real v8 = in[1] * r0;
    out[1] = v8;
    const real v10 = in[2] * r0;
    out[2] = v10;
    out[3] = in[3];
    const real v15 = in[5] - in[3];
    const real v16 = v15 + v15;
    out[4] = v16;
    out[5] = in[5];
    out[6] = in[6];
    out[7] = in[7];
    const real v23 = v16 * in[3];
    out[8] = v23;
}
static const double RB_DT = 0.001;

#endif
