/*
 * Gaussian process regression; see gaussian.h. After new values, a fit factors their covariance K +
 * noise^2 I into L L' (Cholesky). A belief is then two triangular solves. There are some dozens of
 * values in two dimensions: a linear algebra library would be a dependency for forty lines, and its
 * blocking pays only from hundreds on.
 */
#include "worker/autotune/core/gaussian.h"

#include <math.h>
#include <stdbool.h>

#include "base/mem.h"

#define JITTER 1e-8 /* keeps the factorisation possible for values at the same place */

static const double lengths[] = {0.1, 0.2, 0.35, 0.6, 1.0};
#define N_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))
#define N_NOISES 4 /* the given noise, half of it, and so on */

struct hvd_gaussian {
    double noise;
    int n;
    double at[HVD_GAUSSIAN_MAX][HVD_GAUSSIAN_DIMS];
    double values[HVD_GAUSSIAN_MAX];

    /* the fit to the values so far */
    bool is_fitted;
    double mean;
    double deviation;
    double length;
    double fitted_noise;
    double best; /* mean, scaled */
    int best_index;
    double weights[HVD_GAUSSIAN_MAX]; /* (K + noise^2 I)^-1 values */
    double solved[HVD_GAUSSIAN_MAX];  /* scratch */
    double factor[HVD_GAUSSIAN_MAX][HVD_GAUSSIAN_MAX];
};

hvd_status_t hvd_gaussian_create(double noise, struct hvd_gaussian **out)
{
    struct hvd_gaussian *g = hvd_calloc(1, sizeof(*g));

    if (!g)
        return HVD_ERR_NOMEM;
    g->noise = noise;
    *out = g;
    return HVD_OK;
}

void hvd_gaussian_destroy(struct hvd_gaussian *g)
{
    hvd_free(g);
}

void hvd_gaussian_add(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS], double value)
{
    if (g->n == HVD_GAUSSIAN_MAX)
        return;
    for (int d = 0; d < HVD_GAUSSIAN_DIMS; d++)
        g->at[g->n][d] = at[d];
    g->values[g->n++] = value;
    g->is_fitted = false;
}

static double kernel(const double *a, const double *b, double length)
{
    double distance = 0;

    for (int d = 0; d < HVD_GAUSSIAN_DIMS; d++)
        distance += (a[d] - b[d]) * (a[d] - b[d]);
    return exp(-distance / (2 * length * length));
}

/* Computes mean and deviation of the values; the deviation of equal values is 1. */
static void normalise(struct hvd_gaussian *g)
{
    double sum = 0;
    double squares = 0;

    for (int i = 0; i < g->n; i++)
        sum += g->values[i];
    g->mean = sum / g->n;
    for (int i = 0; i < g->n; i++)
        squares += (g->values[i] - g->mean) * (g->values[i] - g->mean);
    g->deviation = sqrt(squares / g->n);
    if (!(g->deviation > fabs(g->mean) * 1e-12))
        g->deviation = 1;
}

static void factorise(struct hvd_gaussian *g)
{
    for (int i = 0; i < g->n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = kernel(g->at[i], g->at[j], g->length);
            if (i == j)
                sum += g->fitted_noise * g->fitted_noise + JITTER;
            for (int k = 0; k < j; k++)
                sum -= g->factor[i][k] * g->factor[j][k];
            g->factor[i][j] = i == j ? sqrt(fmax(sum, JITTER)) : sum / g->factor[j][j];
        }
    }
}

/* Solves L x = b in place. */
static void solve_lower(const struct hvd_gaussian *g, double *x)
{
    for (int i = 0; i < g->n; i++) {
        for (int k = 0; k < i; k++)
            x[i] -= g->factor[i][k] * x[k];
        x[i] /= g->factor[i][i];
    }
}

/* Solves L' x = b in place. */
static void solve_upper(const struct hvd_gaussian *g, double *x)
{
    for (int i = g->n - 1; i >= 0; i--) {
        for (int k = i + 1; k < g->n; k++)
            x[i] -= g->factor[k][i] * x[k];
        x[i] /= g->factor[i][i];
    }
}

/* Fits with that length and noise. Returns the logarithm of the values' likelihood, up to a
 * constant. */
static double fit_with(struct hvd_gaussian *g, double length, double noise)
{
    double likelihood = 0;

    g->length = length;
    g->fitted_noise = noise;
    factorise(g);
    for (int i = 0; i < g->n; i++)
        g->weights[i] = (g->values[i] - g->mean) / g->deviation;
    solve_lower(g, g->weights);
    for (int i = 0; i < g->n; i++)
        likelihood -= g->weights[i] * g->weights[i] / 2 + log(g->factor[i][i]);
    solve_upper(g, g->weights);
    return likelihood;
}

/* Returns the belief at a place, with scaled mean and deviation. */
static struct hvd_belief believe_scaled(struct hvd_gaussian *g, const double *at)
{
    struct hvd_belief belief = {.mean = 0};
    double variance = 1;

    for (int i = 0; i < g->n; i++) {
        g->solved[i] = kernel(g->at[i], at, g->length);
        belief.mean += g->solved[i] * g->weights[i];
    }
    solve_lower(g, g->solved);
    for (int i = 0; i < g->n; i++)
        variance -= g->solved[i] * g->solved[i];
    belief.deviation = sqrt(fmax(variance, 0));
    return belief;
}

static void fit(struct hvd_gaussian *g)
{
    double best_length = lengths[0];
    double best_noise = g->noise;
    double best = -HUGE_VAL;

    if (g->is_fitted)
        return;
    normalise(g);
    for (size_t i = 0; i < N_LENGTHS * N_NOISES; i++) {
        const double length = lengths[i % N_LENGTHS];
        const double noise = ldexp(g->noise, -(int)(i / N_LENGTHS));
        const double likelihood = fit_with(g, length, noise);
        if (likelihood > best) {
            best = likelihood;
            best_length = length;
            best_noise = noise;
        }
    }
    fit_with(g, best_length, best_noise);
    g->best = -HUGE_VAL;
    for (int i = 0; i < g->n; i++) {
        const double mean = believe_scaled(g, g->at[i]).mean;
        if (mean > g->best) {
            g->best = mean;
            g->best_index = i;
        }
    }
    g->is_fitted = true;
}

struct hvd_belief hvd_gaussian_believe(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS])
{
    fit(g);
    struct hvd_belief belief = believe_scaled(g, at);
    belief.mean = belief.mean * g->deviation + g->mean;
    belief.deviation *= g->deviation;
    return belief;
}

double hvd_gaussian_improvement(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS],
                                double margin)
{
    fit(g);
    const struct hvd_belief belief = believe_scaled(g, at);
    const double gain = belief.mean - g->best - margin;

    if (!(belief.deviation > 1e-9))
        return 0;
    const double z = gain / belief.deviation;
    const double below = erfc(-z / sqrt(2.0)) / 2;
    const double density = exp(-z * z / 2) / sqrt(2 * acos(-1.0));
    return (gain * below + belief.deviation * density) * g->deviation;
}

int hvd_gaussian_best(struct hvd_gaussian *g)
{
    fit(g);
    return g->best_index;
}
