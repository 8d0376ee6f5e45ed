/* Delay, traced to C. Operations: derivative 0, initial 0, update 0, output 0.

   index  port    element  unit
       0  t                s
   sampled states
       1  y       1,1      
       2  y       1,2      
       3  y       1,3      
       4  y       1,4      
       5  y       1,5      
       6  y       2,1      
       7  y       2,2      
       8  y       2,3      
       9  y       2,4      
      10  y       2,5      
      11  buffer  1,1,1    
      12  buffer  1,1,2    
      13  buffer  1,1,3    
      14  buffer  1,1,4    
      15  buffer  1,1,5    
      16  buffer  1,2,1    
      17  buffer  1,2,2    
      18  buffer  1,2,3    
      19  buffer  1,2,4    
      20  buffer  1,2,5    
      21  buffer  2,1,1    
      22  buffer  2,1,2    
      23  buffer  2,1,3    
      24  buffer  2,1,4    
      25  buffer  2,1,5    
      26  buffer  2,2,1    
      27  buffer  2,2,2    
      28  buffer  2,2,3    
      29  buffer  2,2,4    
      30  buffer  2,2,5    
      31  buffer  3,1,1    
      32  buffer  3,1,2    
      33  buffer  3,1,3    
      34  buffer  3,1,4    
      35  buffer  3,1,5    
      36  buffer  3,2,1    
      37  buffer  3,2,2    
      38  buffer  3,2,3    
      39  buffer  3,2,4    
      40  buffer  3,2,5    
   inputs
      41  u       1,1      
      42  u       1,2      
      43  u       1,3      
      44  u       1,4      
      45  u       1,5      
      46  u       2,1      
      47  u       2,2      
      48  u       2,3      
      49  u       2,4      
      50  u       2,5      
*/

#ifndef RB_MODEL_H
#define RB_MODEL_H

#include <math.h>

enum { RB_T = 0, RB_X = 1, RB_NX = 0, RB_Z = 1, RB_NZ = 40, RB_U = 41, RB_NU = 10, RB_P = 51, RB_NP = 0, RB_Y = 51, RB_NY = 0, RB_S = 51, RB_NS = 0, RB_SIZE = 51 };
#define RB_LARGE 0
#define RB_PROJECTS 0
static const double RB_SAMPLE_TIME = 0.002;
static const double RB_INNER_STEP = 0.001;
static const double RB_START[] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
#define RB_ADAPTIVE 0
#define RB_EXPLICIT 1
#define RB_IMPLICIT 0
#define RB_LINEARLY_IMPLICIT 0
#define RB_COLLOCATION 0
#define RB_EXACT_SLOPES 0
enum { RB_STAGES = 4 };
static const double RB_A[5][4] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double RB_A_POSITION[5][4] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double RB_C[] = {0.0, 0.5, 0.5, 1.0};
static const unsigned char RB_POSITION[RB_NX + 1] = {0};
static inline void derivative(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static inline void initial(const double *in, double *out)
{
    (void)in;
    (void)out;
    out[0] = in[11]; /* buffer[1,1,1], y[1,1] */
    out[1] = in[12]; /* buffer[1,1,2], y[1,2] */
    out[2] = in[13]; /* buffer[1,1,3], y[1,3] */
    out[3] = in[14]; /* buffer[1,1,4], y[1,4] */
    out[4] = in[15]; /* buffer[1,1,5], y[1,5] */
    out[5] = in[16]; /* buffer[1,2,1], y[2,1] */
    out[6] = in[17]; /* buffer[1,2,2], y[2,2] */
    out[7] = in[18]; /* buffer[1,2,3], y[2,3] */
    out[8] = in[19]; /* buffer[1,2,4], y[2,4] */
    out[9] = in[20]; /* buffer[1,2,5], y[2,5] */
    out[10] = in[21]; /* buffer[2,1,1], buffer[1,1,1] */
    out[11] = in[22]; /* buffer[2,1,2], buffer[1,1,2] */
    out[12] = in[23]; /* buffer[2,1,3], buffer[1,1,3] */
    out[13] = in[24]; /* buffer[2,1,4], buffer[1,1,4] */
    out[14] = in[25]; /* buffer[2,1,5], buffer[1,1,5] */
    out[15] = in[26]; /* buffer[2,2,1], buffer[1,2,1] */
    out[16] = in[27]; /* buffer[2,2,2], buffer[1,2,2] */
    out[17] = in[28]; /* buffer[2,2,3], buffer[1,2,3] */
    out[18] = in[29]; /* buffer[2,2,4], buffer[1,2,4] */
    out[19] = in[30]; /* buffer[2,2,5], buffer[1,2,5] */
    out[20] = in[31]; /* buffer[3,1,1], buffer[2,1,1] */
    out[21] = in[32]; /* buffer[3,1,2], buffer[2,1,2] */
    out[22] = in[33]; /* buffer[3,1,3], buffer[2,1,3] */
    out[23] = in[34]; /* buffer[3,1,4], buffer[2,1,4] */
    out[24] = in[35]; /* buffer[3,1,5], buffer[2,1,5] */
    out[25] = in[36]; /* buffer[3,2,1], buffer[2,2,1] */
    out[26] = in[37]; /* buffer[3,2,2], buffer[2,2,2] */
    out[27] = in[38]; /* buffer[3,2,3], buffer[2,2,3] */
    out[28] = in[39]; /* buffer[3,2,4], buffer[2,2,4] */
    out[29] = in[40]; /* buffer[3,2,5], buffer[2,2,5] */
    out[30] = in[41]; /* u[1,1], buffer[3,1,1] */
    out[31] = in[42]; /* u[1,2], buffer[3,1,2] */
    out[32] = in[43]; /* u[1,3], buffer[3,1,3] */
    out[33] = in[44]; /* u[1,4], buffer[3,1,4] */
    out[34] = in[45]; /* u[1,5], buffer[3,1,5] */
    out[35] = in[46]; /* u[2,1], buffer[3,2,1] */
    out[36] = in[47]; /* u[2,2], buffer[3,2,2] */
    out[37] = in[48]; /* u[2,3], buffer[3,2,3] */
    out[38] = in[49]; /* u[2,4], buffer[3,2,4] */
    out[39] = in[50]; /* u[2,5], buffer[3,2,5] */
}

static inline void update(const double *in, double *out)
{
    (void)in;
    (void)out;
    out[0] = in[11]; /* buffer[1,1,1], y[1,1] */
    out[1] = in[12]; /* buffer[1,1,2], y[1,2] */
    out[2] = in[13]; /* buffer[1,1,3], y[1,3] */
    out[3] = in[14]; /* buffer[1,1,4], y[1,4] */
    out[4] = in[15]; /* buffer[1,1,5], y[1,5] */
    out[5] = in[16]; /* buffer[1,2,1], y[2,1] */
    out[6] = in[17]; /* buffer[1,2,2], y[2,2] */
    out[7] = in[18]; /* buffer[1,2,3], y[2,3] */
    out[8] = in[19]; /* buffer[1,2,4], y[2,4] */
    out[9] = in[20]; /* buffer[1,2,5], y[2,5] */
    out[10] = in[21]; /* buffer[2,1,1], buffer[1,1,1] */
    out[11] = in[22]; /* buffer[2,1,2], buffer[1,1,2] */
    out[12] = in[23]; /* buffer[2,1,3], buffer[1,1,3] */
    out[13] = in[24]; /* buffer[2,1,4], buffer[1,1,4] */
    out[14] = in[25]; /* buffer[2,1,5], buffer[1,1,5] */
    out[15] = in[26]; /* buffer[2,2,1], buffer[1,2,1] */
    out[16] = in[27]; /* buffer[2,2,2], buffer[1,2,2] */
    out[17] = in[28]; /* buffer[2,2,3], buffer[1,2,3] */
    out[18] = in[29]; /* buffer[2,2,4], buffer[1,2,4] */
    out[19] = in[30]; /* buffer[2,2,5], buffer[1,2,5] */
    out[20] = in[31]; /* buffer[3,1,1], buffer[2,1,1] */
    out[21] = in[32]; /* buffer[3,1,2], buffer[2,1,2] */
    out[22] = in[33]; /* buffer[3,1,3], buffer[2,1,3] */
    out[23] = in[34]; /* buffer[3,1,4], buffer[2,1,4] */
    out[24] = in[35]; /* buffer[3,1,5], buffer[2,1,5] */
    out[25] = in[36]; /* buffer[3,2,1], buffer[2,2,1] */
    out[26] = in[37]; /* buffer[3,2,2], buffer[2,2,2] */
    out[27] = in[38]; /* buffer[3,2,3], buffer[2,2,3] */
    out[28] = in[39]; /* buffer[3,2,4], buffer[2,2,4] */
    out[29] = in[40]; /* buffer[3,2,5], buffer[2,2,5] */
    out[30] = in[41]; /* u[1,1], buffer[3,1,1] */
    out[31] = in[42]; /* u[1,2], buffer[3,1,2] */
    out[32] = in[43]; /* u[1,3], buffer[3,1,3] */
    out[33] = in[44]; /* u[1,4], buffer[3,1,4] */
    out[34] = in[45]; /* u[1,5], buffer[3,1,5] */
    out[35] = in[46]; /* u[2,1], buffer[3,2,1] */
    out[36] = in[47]; /* u[2,2], buffer[3,2,2] */
    out[37] = in[48]; /* u[2,3], buffer[3,2,3] */
    out[38] = in[49]; /* u[2,4], buffer[3,2,4] */
    out[39] = in[50]; /* u[2,5], buffer[3,2,5] */
}

static inline void output(const double *in, double *out)
{
    (void)in;
    (void)out;
}

#endif
