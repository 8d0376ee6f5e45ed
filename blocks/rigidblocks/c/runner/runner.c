/* The runner of a system: its steps at the pace of the clock, with links, a record and a report.

   The numbers are those of `simulate`: packets are exchanged at the time t, and what has come is
   held until t + dt. */

#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */

#include <getopt.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "core.h"
#include "link.h"
#include "record.h"
#include "tap.h"
#include "times.h"
#include "xcp_udp.h"

#include "links.h"
#include "xcp_plan.h"

enum { CATCH_UP, SKIP, STOP };

typedef struct {
    double stop, rate; /* [s] of simulation; seconds of it in one second, 0 as fast as possible */
    int every, overrun, priority, processor;
    const char *record, *report, *xcp, *tap;
    double tap_rate; /* 1/s of simulation */
    double empty;    /* us of a section beside each step that only counts; 0 for none */
    int n_tapped;
    const char *tapped[TAP_NAMES];
} Options;

typedef struct {
    uint64_t steps, late, missed, skipped;
    int status;
    int64_t wall;
    Times starts, work, empty;
    int64_t rounds; /* of the empty section */
    Record record;
    Link links[RUNNER_LINKS + 1];
    XcpServer xcp;
    Tap tap;
} Run;

static volatile int stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static int usage(const char *program)
{
    (void)fprintf(
        stderr,
        "usage: %s [options]: runs %s in steps of %g s\n"
        "  --stop S        seconds of simulation; default: until a signal comes\n"
        "  --rate R        of them in one second of the clock; 0: as fast as possible; default 1\n"
        "  --overrun WHAT  catch-up (default), skip or stop, when a step ends after the next is "
        "due\n"
        "  --fifo P        priority of SCHED_FIFO, with locked memory\n"
        "  --cpu N         the processor to stay on\n"
        "  --record FILE   the signals as CSV, each --every'th step\n"
        "  --every N       default 1\n"
        "  --report FILE   the report as JSON; default: to the standard output\n"
        "  --empty US      beside each step, times a section that takes so long and does nothing\n"
        "  --xcp ADDRESS   where tools for measurement and calibration connect, or off; default: "
        "%s\n"
        "  --tap ADDRESS   sends signals as JSON by UDP, for PlotJuggler and others\n"
        "  --tap-rate N    so many times in a second of simulation; default 20\n"
        "  --tap-signal S  those whose names begin so, up to 16 times; default all\n",
        program, RUNNER_NAME, RUNNER_DT, RUNNER_XCP[0] ? RUNNER_XCP : "off");
    return 2;
}

/* A number of an option; the run does not begin where it is none. */
static double number(const char *text, double least, int *bad)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= least)) {
        (void)fprintf(stderr, "'%s' must be a number of at least %g\n", text, least);
        *bad = 1;
    }
    return value;
}

static int overrun_of(const char *text, int *bad)
{
    static const char *const names[] = {"catch-up", "skip", "stop"};
    for (int k = 0; k < 3; k++)
        if (strcmp(text, names[k]) == 0)
            return k;
    (void)fprintf(stderr, "--overrun is catch-up, skip or stop, not '%s'\n", text);
    *bad = 1;
    return 0;
}

static void add_tapped(Options *options, const char *name, int *bad)
{
    if (options->n_tapped < TAP_NAMES)
        options->tapped[options->n_tapped++] = name;
    else
        *bad = 1;
}

static int parse(int argc, char **argv, Options *options)
{
    static const struct option known[] = {
        {"stop", required_argument, 0, 's'},     {"rate", required_argument, 0, 'r'},
        {"every", required_argument, 0, 'e'},    {"overrun", required_argument, 0, 'o'},
        {"fifo", required_argument, 0, 'f'},     {"cpu", required_argument, 0, 'c'},
        {"record", required_argument, 0, 'w'},   {"report", required_argument, 0, 'j'},
        {"xcp", required_argument, 0, 'x'},      {"tap", required_argument, 0, 't'},
        {"tap-rate", required_argument, 0, 'T'}, {"tap-signal", required_argument, 0, 'n'},
        {"empty", required_argument, 0, 'i'},    {0, 0, 0, 0}};
    int letter, bad = 0;
    *options = (Options){.stop = -1.0,
                         .rate = 1.0,
                         .every = 1,
                         .processor = -1,
                         .xcp = RUNNER_XCP,
                         .tap_rate = 20.0};
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (letter) {
        case 's': options->stop = number(optarg, 0.0, &bad); break;
        case 'r': options->rate = number(optarg, 0.0, &bad); break;
        case 'e': options->every = (int)number(optarg, 1.0, &bad); break;
        case 'o': options->overrun = overrun_of(optarg, &bad); break;
        case 'f': options->priority = (int)number(optarg, 1.0, &bad); break;
        case 'c': options->processor = (int)number(optarg, 0.0, &bad); break;
        case 'w': options->record = optarg; break;
        case 'j': options->report = optarg; break;
        case 'i': options->empty = number(optarg, 0.0, &bad); break;
        case 't': options->tap = optarg; break;
        case 'T': options->tap_rate = number(optarg, 1e-9, &bad); break;
        case 'n': add_tapped(options, optarg, &bad); break;
        case 'x': options->xcp = strcmp(optarg, "off") == 0 ? "" : optarg; break;
        default: bad = 1;
        }
    return bad || optind < argc ? usage(argv[0]) : 0;
}

static void exchange_all(Run *run, double t)
{
    for (int k = 0; k < RUNNER_LINKS; k++)
        exchange(&run->links[k], runner_memory(), t);
}

static void keep_row(Run *run, const Options *options, double t)
{
    if (options->record && run->steps % (uint64_t)options->every == 0)
        add_row(&run->record, t, runner_memory(), RUNNER_PLACES);
}

/* What the machine adds to work of a known time. Before one step and after the next, since what has
   waited for the program to wake up hits what comes first. */
static void time_nothing(Run *run, uint64_t turn)
{
    if (run->rounds == 0 || run->steps % 2 != turn)
        return;
    const int64_t began = now();
    spin(run->rounds);
    count_time(&run->empty, now() - began);
}

/* One step, `due` at a time: what it took and how late it began is counted. Returns when it
   ended. */
static int64_t timed_step(Run *run, int64_t due, int paced)
{
    const double t = (double)run->steps * RUNNER_DT;
    const int64_t began = paced ? wait_until(due, &stopped) : now();
    if (stopped)
        return began;
    serve_xcp(&run->xcp);
    if (run->steps > 0)
        exchange_all(run, t);
    time_nothing(run, 0);
    const int64_t computes = now();
    run->status = runner_step(t);
    const int64_t ended = now();
    count_time(&run->work, ended - computes);
    time_nothing(run, 1);
    if (paced) {
        count_time(&run->starts, began - due);
        run->late += began - due > (int64_t)(1e8 * RUNNER_DT); /* a tenth of a step */
    }
    run->steps++;
    return ended;
}

/* The steps of a run, from a memory that has been started. */
static void go(Run *run, const Options *options)
{
    const uint64_t last =
        options->stop < 0.0 ? UINT64_MAX : (uint64_t)(options->stop / RUNNER_DT + 0.5);
    const int paced = options->rate > 0.0;
    const double length = paced ? 1e9 * RUNNER_DT / options->rate : 0.0;
    int64_t start = now();
    uint64_t origin = 0; /* the step that was due at `start` */
    const int64_t began = start;
    while (run->steps < last && !stopped && run->status == 0) {
        const int64_t due = start + (int64_t)((double)(run->steps - origin) * length);
        const int64_t ended = timed_step(run, due, paced);
        if (stopped || run->status)
            break;
        keep_row(run, options, (double)run->steps * RUNNER_DT);
        send_signals(&run->xcp, (double)run->steps * RUNNER_DT);
        tap_row(&run->tap, run->steps, (double)run->steps * RUNNER_DT, runner_memory(),
                RUNNER_PLACES);
        if (paced && (double)(ended - due) > length) {
            run->missed++;
            if (options->overrun == STOP)
                break;
            if (options->overrun == SKIP) { /* the clock of the simulation stands still meanwhile */
                run->skipped += (uint64_t)((double)(ended - due) / length);
                start = ended;
                origin = run->steps;
            }
        }
    }
    run->wall = now() - began;
}

static const char *how_ended(int status)
{
    if (status == RUNNER_FAILED)
        return "a part has failed";
    if (status != RUNNER_OK)
        return "a value is not finite";
    return stopped ? "by a signal" : "at its end";
}

static void report(FILE *file, const Run *run, const Options *options)
{
    (void)fprintf(file, "{\n  \"system\": \"%s\",\n  \"dt\": %.17g,\n  \"steps\": %llu,\n",
                  RUNNER_NAME, RUNNER_DT, (unsigned long long)run->steps);
    (void)fprintf(file, "  \"seconds\": %.6f,\n  \"rate\": %g,\n", 1e-9 * (double)run->wall,
                  options->rate);
    (void)fprintf(
        file,
        "  \"late starts\": %llu,\n  \"missed deadlines\": %llu,\n  \"skipped steps\": %llu,\n",
        (unsigned long long)run->late, (unsigned long long)run->missed,
        (unsigned long long)run->skipped);
    (void)fprintf(file, "  \"rows dropped\": %llu,\n", (unsigned long long)run->record.dropped);
    report_times(file, "start after due (us)", &run->starts);
    report_times(file, "step (us)", &run->work);
    if (run->rounds)
        report_times(file, "empty section (us)", &run->empty);
    if (options->xcp[0])
        report_xcp(file, &run->xcp);
    if (options->tap)
        (void)fprintf(file, "  \"tap\": {\"sent\": %llu, \"left out\": %llu},\n",
                      (unsigned long long)run->tap.sent, (unsigned long long)run->tap.left_out);
    (void)fprintf(file, "  \"links\": {\n");
    for (int k = 0; k < RUNNER_LINKS; k++)
        report_link(file, &run->links[k], k == RUNNER_LINKS - 1);
    (void)fprintf(file, "  },\n  \"ended\": \"%s\"\n}\n", how_ended(run->status));
}

static int open_tap(Tap *tap, const Options *options)
{
    const double every = floor(1.0 / (options->tap_rate * RUNNER_DT) + 0.5);
    if (choose_signals(tap, RUNNER_SIGNALS, RUNNER_N_SIGNALS, options->tapped, options->n_tapped) !=
        0)
        return -1;
    return start_tap(tap, options->tap, every < 1.0 ? 1 : (uint64_t)every);
}

static int open_all(Run *run, const Options *options)
{
    for (int k = 0; k < RUNNER_LINKS; k++)
        if (open_link(&run->links[k], &RUNNER_LINK_PLANS[k]) != 0)
            return -1;
    if (options->xcp[0] &&
        start_xcp(&run->xcp, &RUNNER_XCP_PLAN, options->xcp, runner_memory()) != 0)
        return -1;
    if (options->tap && open_tap(&run->tap, options) != 0)
        return -1;
    if (!options->record)
        return 0;
    return start_record(&run->record, options->record, RUNNER_SIGNALS, RUNNER_N_SIGNALS,
                        options->rate <= 0.0);
}

/* Closes what is open and says how it went; the exit code. */
static int ending(Run *run, const Options *options)
{
    int code = run->status ? 1 : 0;
    if (options->record && end_record(&run->record) != 0) {
        (void)fprintf(stderr, "the record %s is not whole\n", options->record);
        code = 1;
    }
    if (options->xcp[0])
        end_xcp(&run->xcp);
    if (options->tap)
        end_tap(&run->tap);
    FILE *file = options->report ? fopen(options->report, "w") : stdout;
    if (file) {
        report(file, run, options);
        code |= fflush(file) != 0;
    } else {
        perror(options->report);
        code = 1;
    }
    if (file && options->report)
        (void)fclose(file);
    for (int k = 0; k < RUNNER_LINKS; k++)
        close_link(&run->links[k]);
    runner_end();
    return options->overrun == STOP && run->missed ? 1 : code;
}

int main(int argc, char **argv)
{
    static Run run;
    Options options;
    const int bad = parse(argc, argv, &options);
    if (bad)
        return bad;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (open_all(&run, &options) != 0)
        return 2;
    ask_for_real_time(options.priority, options.processor, stderr);
    run.rounds = options.empty > 0.0 ? rounds_of(options.empty) : 0;
    run.status = runner_start(0.0);
    exchange_all(&run, 0.0);
    if (RUNNER_LINKS && run.status == 0)
        run.status = runner_outputs(0.0);
    if (run.status == 0)
        run.status = runner_begin();
    keep_row(&run, &options, 0.0);
    if (run.status == 0)
        go(&run, &options);
    return ending(&run, &options);
}
