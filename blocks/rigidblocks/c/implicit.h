/* The step of a linearly implicit integrator, in the place of the explicit one of step.h: the arithmetic of implicit.py.

   (1 - gamma h J) k_i = gamma (derivative(t + c_i h, x + h sum a_ij k_j) + sum coupling_ij k_j + time_i h df/dt)

   with rate_slopes = [J by rows | df/dt] at the start of the step. */

/* The factors of W in its place, by elimination with the largest pivot of each column; its row is kept in `pivot`. */
static void factorize(double W[NX + 1][NX + 1], int *pivot)
{
    for (int j = 0; j < NX; j++) {
        pivot[j] = j;
        for (int i = j + 1; i < NX; i++)
            if (fabs(W[i][j]) > fabs(W[pivot[j]][j]))
                pivot[j] = i;
        for (int c = j; c < NX && pivot[j] != j; c++) {
            const double exchanged = W[j][c];
            W[j][c] = W[pivot[j]][c];
            W[pivot[j]][c] = exchanged;
        }
        for (int i = j + 1; i < NX; i++)
            if (W[i][j] != 0.0) {
                W[i][j] /= W[j][j];
                for (int c = j + 1; c < NX; c++)
                    W[i][c] -= W[i][j] * W[j][c];
            }
    }
}

/* W^-1 b in the place of b. */
static void solve(double W[NX + 1][NX + 1], const int *pivot, double *b)
{
    for (int j = 0; j < NX; j++) {
        const double exchanged = b[pivot[j]];
        b[pivot[j]] = b[j];
        b[j] = exchanged;
        for (int i = j + 1; i < NX; i++)
            b[i] -= W[i][j] * exchanged;
    }
    for (int j = NX - 1; j >= 0; j--) {
        b[j] /= W[j][j];
        for (int i = 0; i < j; i++)
            b[i] -= W[i][j] * b[j];
    }
}

static double weighted(const double *weights, double k[STAGES][NX + 1], int n, int i)
{
    double sum = 0.0;
    for (int r = 0; r < n; r++)
        sum += weights[r] * k[r][i];
    return sum;
}

/* One step from t: x + h sum b_i k_i. */
static void integrate(double *m, double t, double h)
{
    double x[NX + 1], k[STAGES][NX + 1], W[NX + 1][NX + 1], slopes[NX * NX + NX + 1];
    int pivot[NX + 1];
    m[T] = t;
    rate_slopes(m, slopes);
    for (int i = 0; i < NX; i++) {
        x[i] = m[X + i];
        for (int j = 0; j < NX; j++)
            W[i][j] = (i == j) - GAMMA * h * slopes[i * NX + j];
    }
    factorize(W, pivot);
    for (int s = 0; s <= STAGES; s++) {
        for (int i = 0; i < NX; i++)
            m[X + i] = x[i] + h * weighted(A[s], k, s, i);
        if (s < STAGES) {
            m[T] = t + C[s] * h;
            derivative(m, k[s]);
            for (int i = 0; i < NX; i++)
                k[s][i] = GAMMA * (k[s][i] + weighted(COUPLING[s], k, s, i) + TIME[s] * h * slopes[NX * NX + i]);
            solve(W, pivot, k[s]);
        }
    }
}
