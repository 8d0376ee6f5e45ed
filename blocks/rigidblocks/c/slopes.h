/* Derivatives of inputs by time, which FMI 2.0 has: in the next step an input follows the polynomial of them. */

static Status set_slopes(Instance *fmu, const char *function, const Reference vr[], size_t n, const int order[],
                         const double values[])
{
    if (!allowed(fmu, function, BEFORE_THE_RUN | STEPPING) || !known(fmu, function, vr, n) ||
        !given(fmu, function, order, n) || !given(fmu, function, values, n))
        return FAILURE;
    if (fmu->modes == MODEL_EXCHANGE)
        return report(fmu, FAILURE, "%s is not for model exchange", function);
    for (size_t i = 0; i < n; i++) {
        if (!within(vr[i], U, NU))
            return report(fmu, FAILURE, "%s: %s is no input", function, NAMES[vr[i]]);
        if (order[i] < 1 || order[i] > COURSE_ORDER)
            return report(fmu, FAILURE, "%s: the order of a derivative of %s must be from 1 to %d, not %d", function,
                          NAMES[vr[i]], COURSE_ORDER, order[i]);
        if (!isfinite(values[i]))
            return report(fmu, FAILURE, "%s: a derivative of %s must be finite, not %g", function, NAMES[vr[i]], values[i]);
    }
    for (size_t i = 0; i < n; i++)
        fmu->now.slope[(order[i] - 1) * NU + (int)vr[i] - U] = values[i];
    fmu->now.slopes_given |= n > 0;
    return OK;
}
