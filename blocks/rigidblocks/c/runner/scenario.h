/* Scenario of a program: a CSV file with new values of inputs and parameters at given times. */

#ifndef RB_SCENARIO_H
#define RB_SCENARIO_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for getline; NOLINT(bugprone-reserved-identifier) */
#endif

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Input or parameter that a scenario can set. */
typedef struct {
    const char *name;
    int place; /* position in the memory */
    double low, high;
} Settable;

typedef struct {
    double time, value; /* [s]; value of the memory at `place` */
    int place;
} ScenarioChange;

typedef struct {
    ScenarioChange *changes; /* with times that do not decrease */
    size_t n, next;          /* number of changes, and the first one that is not applied */
} Scenario;

/* A column sets one element, or all elements of a port. */
typedef struct {
    const char *name; /* valid only while the first line is read */
    int first, n;     /* elements in the table of settable values; n is 0 for the time */
} ScenarioColumn;

/* Return the next cell of a CSV line, without quotes and surrounding spaces, or NULL after the last
   cell. `line` moves to the first character after the comma of the cell. */
static char *next_cell(char **line)
{
    char *from = *line;
    if (!from)
        return NULL;
    from += strspn(from, " \t");
    char *to = from, *cell = from;
    int quoted = 0;
    for (; *from && (quoted || *from != ','); from++) {
        if (*from == '"' && quoted && from[1] == '"')
            *to++ = *from++; /* two quotes mean one */
        else if (*from == '"')
            quoted = !quoted;
        else
            *to++ = *from;
    }
    *line = *from ? from + 1 : NULL;
    while (to > cell && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\n' || to[-1] == '\r'))
        to--;
    *to = 0;
    return cell;
}

/* Find the elements of a column. Prints a message and returns -1 for an unknown name. */
static int find_column(ScenarioColumn *column, const char *name, const Settable *settable, int n)
{
    const size_t size = strlen(name);
    *column = (ScenarioColumn){name, 0, 0};
    if (strcmp(name, "time") == 0)
        return 0;
    for (int k = 0; k < n; k++) {
        const char *own = settable[k].name;
        if (strcmp(own, name) == 0) {
            *column = (ScenarioColumn){name, k, 1};
            return 0;
        }
        if (strncmp(own, name, size) == 0 && own[size] == '[') {
            if (column->n == 0)
                column->first = k;
            column->n++;
        }
    }
    if (column->n > 0)
        return 0;
    (void)fprintf(stderr, "the scenario cannot set '%s'; the program has", name);
    for (int k = 0; k < n; k++)
        (void)fprintf(stderr, "%s %s", k ? "," : "", settable[k].name);
    (void)fprintf(stderr, "%s\n", n ? "" : " no inputs and parameters");
    return -1;
}

static int add_change(Scenario *scenario, double time, double value, int place)
{
    if ((scenario->n & (scenario->n + 1)) == 0) { /* the room is 2^k - 1 */
        ScenarioChange *grown =
            realloc(scenario->changes, (2 * scenario->n + 1) * sizeof *scenario->changes);
        if (!grown) {
            (void)fprintf(stderr, "the scenario does not fit into the memory\n");
            return -1;
        }
        scenario->changes = grown;
    }
    scenario->changes[scenario->n++] = (ScenarioChange){time, value, place};
    return 0;
}

/* Add the values of one row, and set `last` to its time [s]. Prints a message and returns -1 on
   failure. */
static int read_row(Scenario *scenario, char *line, const ScenarioColumn *columns, int n_columns,
                    const Settable *settable, int number, double *last)
{
    const size_t before = scenario->n;
    double time = NAN;
    int k = 0;
    for (char *cell; (cell = next_cell(&line)); k++) {
        char *end;
        const double value = strtod(cell, &end);
        if (k >= n_columns || *end || strpbrk(cell, "xX")) { /* no hexadecimal numbers */
            (void)fprintf(stderr, "line %d of the scenario: unexpected cell '%s'\n", number, cell);
            return -1;
        }
        if (!*cell) /* keeps the previous value */
            continue;
        if (columns[k].n == 0)
            time = value;
        for (int i = columns[k].first; i < columns[k].first + columns[k].n; i++) {
            if (!(value >= settable[i].low && value <= settable[i].high)) {
                (void)fprintf(stderr,
                              "line %d of the scenario: %s must be from %g to %g, not '%s'\n",
                              number, settable[i].name, settable[i].low, settable[i].high, cell);
                return -1;
            }
            if (add_change(scenario, 0.0, value, settable[i].place) != 0)
                return -1;
        }
    }
    if (k != n_columns || !isfinite(time) || time < *last) {
        (void)fprintf(stderr,
                      "line %d of the scenario needs %d cells, and a time that does not decrease\n",
                      number, n_columns);
        return -1;
    }
    for (size_t i = before; i < scenario->n; i++)
        scenario->changes[i].time = time;
    *last = time;
    return 0;
}

/* Read the columns of a scenario. Returns their number; -1 with a message on failure. */
static int read_head(char *line, ScenarioColumn *columns, const Settable *settable, int n)
{
    int count = 0, has_time = 0;
    for (char *cell; (cell = next_cell(&line)); count++) {
        if (find_column(&columns[count], cell, settable, n) != 0)
            return -1;
        for (int k = 0; k < count; k++)
            if (strcmp(columns[k].name, cell) == 0) {
                (void)fprintf(stderr, "the first line of the scenario contains '%s' twice\n", cell);
                return -1;
            }
        has_time |= columns[count].n == 0;
    }
    if (!has_time)
        (void)fprintf(stderr, "the first line of a scenario needs a column 'time'\n");
    return has_time ? count : -1;
}

/* Read a scenario. Prints a message and returns -1 on failure. */
static inline int rb_scenario_read(Scenario *scenario, const char *path, const Settable *settable,
                                   int n)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        (void)fprintf(stderr, "cannot read the scenario %s: %s\n", path, strerror(errno));
        return -1;
    }
    /* each name occurs once: time, n elements, at most n ports, and one name that is rejected */
    ScenarioColumn *columns = calloc(2 * (size_t)n + 2, sizeof *columns);
    char *line = NULL;
    size_t room = 0;
    double last = NAN; /* time of the previous row [s]; NaN before the first row */
    int count = -1, status = columns ? 0 : -1;
    if (!columns)
        (void)fprintf(stderr, "the columns of the scenario do not fit into the memory\n");
    for (int number = 1; status == 0 && getline(&line, &room, file) >= 0; number++) {
        /* spreadsheets begin UTF-8 files with a byte-order mark */
        char *text = number == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? line + 3 : line;
        if (text[strspn(text, " \t\r\n,")] == 0)
            continue;
        if (count >= 0)
            status = read_row(scenario, text, columns, count, settable, number, &last);
        else if ((count = read_head(text, columns, settable, n)) < 0)
            status = -1;
    }
    if (status == 0 && isnan(last)) {
        (void)fprintf(stderr,
                      count < 0 ? "the scenario %s is empty\n"
                                : "the scenario %s has no row with a time\n",
                      path);
        status = -1;
    }
    free(line);
    free(columns);
    (void)fclose(file);
    return status;
}

/* Set the values that are due at the communication point with the given number. A value is set at
   the first point at its time or later. */
static inline void rb_scenario_apply(Scenario *scenario, uint64_t number, double dt, double *m)
{
    while (scenario->next < scenario->n) {
        const ScenarioChange *change = &scenario->changes[scenario->next];
        const double count = change->time / dt;
        /* a quotient that exceeds an integer by rounding errors counts as this integer */
        if (ceil(count - (1e-6 + 4 * DBL_EPSILON * fabs(count))) > (double)number)
            return;
        m[change->place] = change->value;
        scenario->next++;
    }
}

#endif
