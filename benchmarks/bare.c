/* Minimal co-simulation master in C: it copies the signals, sets inputs, steps the FMUs, gets the
   outputs and records all outputs. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    void *fmu;
    int (*set)(void *fmu, const uint32_t *references, size_t n, const double *values);
    int (*step)(void *fmu, double t, double dt, int no_state_set_before);
    int (*get)(void *fmu, const uint32_t *references, size_t n, double *values);
    const uint32_t *inputs, *outputs;
    size_t nu, ny;
    double *u, *y;
    const double **sources; /* of the inputs; NULL if an input is not connected */
} Fmu;

__attribute__((visibility("default"))) int bare(Fmu *fmus, int n, double t_start, double dt,
                                                int steps, double *rows);

int bare(Fmu *fmus, int n, double t_start, double dt, int steps, double *rows)
{
    int status = 0;
    for (int k = 0; k < steps; k++)
        for (Fmu *one = fmus; one < fmus + n; one++) {
            for (size_t i = 0; i < one->nu; i++)
                if (one->sources[i])
                    one->u[i] = *one->sources[i];
            status |= one->set(one->fmu, one->inputs, one->nu, one->u);
            status |= one->step(one->fmu, t_start + k * dt, dt, 1);
            status |= one->get(one->fmu, one->outputs, one->ny, one->y);
            memcpy(rows, one->y, one->ny * sizeof *rows);
            rows += one->ny;
        }
    return status;
}
