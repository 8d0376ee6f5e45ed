/* The course of the inputs in a step. */

#ifndef RB_COURSE_H
#define RB_COURSE_H

#include <string.h>

#include "block.h"

static inline void store(double *m, const double *values, int n)
{
    memcpy(m, values, (size_t)n * sizeof(double));
}

/* Inputs that follow polynomials in a step: u(t) = sum_k c[k] (t - t0)^k. In a step without a
   course they are held. */
enum { RB_COURSE_ORDER = 3 };
typedef struct {
    double t0;
    double c[RB_COURSE_ORDER + 1][RB_NU + 1];
} Course;

/* Sets the inputs to their values at t. */
static inline void follow(const Course *course, double *m, double t)
{
    for (int i = 0; course && i < RB_NU; i++) {
        double u = 0.0;
        for (int k = RB_COURSE_ORDER; k >= 0; k--)
            u = u * (t - course->t0) + course->c[k][i];
        m[RB_U + i] = u;
    }
}

#endif
