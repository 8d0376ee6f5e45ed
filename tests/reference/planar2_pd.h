/* PDController, traced to C. Operations: derivative 0, initial 0, update 0, output 10. */
#include <math.h>

enum { T = 0, X = 1, NX = 0, Z = 1, NZ = 0, U = 1, NU = 8, P = 9, NP = 4, Y = 13, NY = 2, SIZE = 15, STAGES = 4 };
#define PROJECTS 0
static const double SAMPLE_TIME = 0.0;
static const double INNER_STEP = 0.001;
static const double START[] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1000.0, 1000.0, 15.0, 15.0, 0.0, 0.0};
static const double A[STAGES + 1][STAGES] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double A_POSITION[STAGES + 1][STAGES] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double C[] = {0.0, 0.5, 0.5, 1.0};
static const unsigned char POSITION[NX + 1] = {0};
static void derivative(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static void initial(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static void update(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static void output(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v3 = in[1] - in[3];
    const double v4 = in[9] * v3;
    const double v8 = in[5] - in[7];
    const double v9 = in[11] * v8;
    const double v10 = v4 + v9;
    out[0] = v10;
    const double v15 = in[2] - in[4];
    const double v16 = in[10] * v15;
    const double v20 = in[6] - in[8];
    const double v21 = in[12] * v20;
    const double v22 = v16 + v21;
    out[1] = v22;
}
