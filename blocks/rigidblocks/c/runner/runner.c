/* Real-time runner of a system, with links, recording and a report.

   The results equal the results of `simulate`: links exchange packets at the time t, and received
   inputs are held until t + dt. */

#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bare_metal_step.h"
#include "link.h"
#include "recorder.h"
#include "scenario.h"
#include "xcp_udp.h"

#include "links.h"
#include "xcp_plan.h"

/* ---- time and priority ---- */

/* [ns] last part of a wait, in which the program spins, because sleeping threads wake up late */
enum { SPIN = 50000 };

/* Wait until `due` [ns], or until a signal arrives. Returns the time. */
static int64_t wait_until(int64_t due, const volatile int *stop)
{
    const int64_t sleep = due - SPIN;
    const struct timespec until = {(time_t)(sleep / 1000000000), (long)(sleep % 1000000000)};
    int64_t time = rb_clock_nanoseconds();
    if (time < sleep)
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    for (time = rb_clock_nanoseconds(); time < due && !*stop; time = rb_clock_nanoseconds())
        ;
    return time;
}

/* Spend time in a loop that accesses no memory except its counter. */
static void spin(int64_t rounds)
{
    for (volatile int64_t k = 0; k < rounds; k++)
        ;
}

/* Return the number of `spin` rounds that take a given time [us] without interruption. */
static int64_t spin_rounds(double us)
{
    enum { TRIES = 200, ROUNDS = 1000 };
    int64_t least = INT64_MAX;
    for (int k = 0; k < TRIES; k++) {
        const int64_t began = rb_clock_nanoseconds();
        spin(ROUNDS);
        const int64_t took = rb_clock_nanoseconds() - began;
        if (took < least)
            least = took;
    }
    return (int64_t)(1e3 * us * ROUNDS / (double)(least > 0 ? least : 1)) + 1;
}

/* Request SCHED_FIFO, a processor, and locked memory. Print each refusal. */
static void ask_for_real_time(int priority, int processor, FILE *said)
{
    if (priority > 0) {
        const struct sched_param parameter = {.sched_priority = priority};
        if (sched_setscheduler(0, SCHED_FIFO, &parameter) != 0)
            (void)fprintf(said,
                          "no SCHED_FIFO with priority %d: %s; deadlines depend on the load\n",
                          priority, strerror(errno));
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            (void)fprintf(said, "cannot lock the memory: %s\n", strerror(errno));
    }
    if (processor >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((unsigned)processor, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            (void)fprintf(said, "cannot stay on processor %d: %s\n", processor, strerror(errno));
    }
}

/* ---- histogram of durations with bins of 3 %, so that a step does not allocate memory ---- */

/* 2^(1/24) is 1.03; 40 octaves of 1 ns reach 1100 s */
enum { BINS_PER_OCTAVE = 24, OCTAVES = 40, BINS = BINS_PER_OCTAVE * OCTAVES };

typedef struct {
    uint64_t counts[BINS], n;
    int64_t longest;
} Times;

static void count_time(Times *times, int64_t ns)
{
    const int bin = ns <= 1 ? 0 : (int)(BINS_PER_OCTAVE * log2((double)ns));
    times->counts[bin < BINS ? bin : BINS - 1]++;
    times->n++;
    if (ns > times->longest)
        times->longest = ns;
}

/* Return the duration [us] that a fraction `share` of the durations does not exceed. Its error is
   at most 3 %. */
static double quantile(const Times *times, double share)
{
    const double wanted = share * (double)times->n;
    uint64_t sum = 0;
    for (int bin = 0; bin < BINS; bin++) {
        sum += times->counts[bin];
        if (sum > 0 && (double)sum >= wanted)
            return fmin(1e-3 * exp2((double)(bin + 1) / BINS_PER_OCTAVE),
                        1e-3 * (double)times->longest);
    }
    return 1e-3 * (double)times->longest;
}

/* Write the quantiles [us] and the histogram by octaves to the report. */
static void report_times(FILE *file, const char *name, const Times *times)
{
    (void)fprintf(file,
                  "  \"%s\": {\"median\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f, \"max\": %.3f, "
                  "\"octaves\": [",
                  name, quantile(times, 0.5), quantile(times, 0.99), quantile(times, 0.999),
                  1e-3 * (double)times->longest);
    int last = 0;
    for (int bin = 0; bin < BINS; bin++)
        if (times->counts[bin])
            last = bin / BINS_PER_OCTAVE;
    for (int octave = 0; octave <= last; octave++) {
        uint64_t sum = 0;
        for (int k = 0; k < BINS_PER_OCTAVE; k++)
            sum += times->counts[octave * BINS_PER_OCTAVE + k];
        (void)fprintf(file, "%s%llu", octave ? ", " : "", (unsigned long long)sum);
    }
    (void)fprintf(file, "]},\n");
}

/* ---- run ---- */

enum { CATCH_UP, SKIP, STOP };

enum { NOT_ANSWERED = RUNNER_FAILED + 1 }; /* status of a run: the partner of a link is silent */

typedef struct {
    double stop, rate; /* [s] stop time; simulated seconds per second, 0: as fast as possible */
    int every, overrun, priority, processor;
    const char *record, *report, *scenario, *xcp, *tap;
    double tap_rate; /* [1/s] rows per second of simulation time */
    double
        empty; /* [us] duration of empty work next to each step, to measure the machine; 0: none */
    int n_tapped;
    const char *tapped[TAP_NAMES];
} Options;

typedef struct {
    uint64_t steps, late, missed, skipped;
    int status;
    int64_t wall;
    Times starts, work, empty;
    int64_t rounds; /* number of spin rounds of the empty work */
    Record record;
    Link links[RUNNER_LINKS + 1];
    XcpServer xcp;
    Tap tap;
    Scenario scenario;
} Run;

static volatile int stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void usage(FILE *stream, const char *program)
{
    (void)fprintf(
        stream,
        "usage: %s [options]: runs %s in steps of %g s\n"
        "  -h, --help      print this text\n"
        "  --stop S        stop time [s]; default: run until a termination signal\n"
        "  --rate R        simulated seconds per second; 0: as fast as possible; default 1\n"
        "  --overrun WHAT  after a missed deadline: catch-up (default), skip or stop\n"
        "  --fifo P        priority of SCHED_FIFO, with locked memory\n"
        "  --cpu N         processor on which the program runs\n"
        "  --scenario FILE CSV file of new values: time, and inputs and parameters by name\n"
        "  --record FILE   CSV file of the signals\n"
        "  --every N       record every N-th step; default 1\n"
        "  --report FILE   report as JSON; default: standard output\n"
        "  --empty US      in each step, also measure an empty section of US microseconds\n"
        "  --xcp ADDRESS   address of the XCP server, or off; default: "
        "%s\n"
        "  --tap ADDRESS   send signals as JSON by UDP, for example to PlotJuggler\n"
        "  --tap-rate N    datagrams per simulated second; default 20\n"
        "  --tap-signal S  send signals whose names begin with S, up to 16 times; default: all\n",
        program, RUNNER_NAME, RUNNER_DT, RUNNER_XCP[0] ? RUNNER_XCP : "off");
}

/* Parse the number of an option. The program exits if it is not a number. */
static double parse_number(const char *text, double least, int *bad)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= least)) {
        (void)fprintf(stderr, "'%s' must be a number of at least %g\n", text, least);
        *bad = 1;
    }
    return value;
}

static int overrun_duration(const char *text, int *bad)
{
    static const char *const names[] = {"catch-up", "skip", "stop"};
    for (int k = 0; k < 3; k++)
        if (strcmp(text, names[k]) == 0)
            return k;
    (void)fprintf(stderr, "--overrun must be catch-up, skip or stop, not '%s'\n", text);
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
    static const struct option known[] = {{"stop", required_argument, 0, 's'},
                                          {"rate", required_argument, 0, 'r'},
                                          {"every", required_argument, 0, 'e'},
                                          {"overrun", required_argument, 0, 'o'},
                                          {"fifo", required_argument, 0, 'f'},
                                          {"cpu", required_argument, 0, 'c'},
                                          {"scenario", required_argument, 0, 'S'},
                                          {"record", required_argument, 0, 'w'},
                                          {"report", required_argument, 0, 'j'},
                                          {"xcp", required_argument, 0, 'x'},
                                          {"tap", required_argument, 0, 't'},
                                          {"tap-rate", required_argument, 0, 'T'},
                                          {"tap-signal", required_argument, 0, 'n'},
                                          {"empty", required_argument, 0, 'i'},
                                          {"help", no_argument, 0, 'h'},
                                          {0, 0, 0, 0}};
    int letter, bad = 0;
    *options = (Options){.stop = -1.0,
                         .rate = 1.0,
                         .every = 1,
                         .processor = -1,
                         .xcp = RUNNER_XCP,
                         .tap_rate = 20.0};
    while ((letter = getopt_long(argc, argv, "h", known, NULL)) != -1)
        switch (letter) {
        case 's': options->stop = parse_number(optarg, 0.0, &bad); break;
        case 'r': options->rate = parse_number(optarg, 0.0, &bad); break;
        case 'e': options->every = (int)parse_number(optarg, 1.0, &bad); break;
        case 'o': options->overrun = overrun_duration(optarg, &bad); break;
        case 'f': options->priority = (int)parse_number(optarg, 1.0, &bad); break;
        case 'c': options->processor = (int)parse_number(optarg, 0.0, &bad); break;
        case 'S': options->scenario = optarg; break;
        case 'w': options->record = optarg; break;
        case 'j': options->report = optarg; break;
        case 'i': options->empty = parse_number(optarg, 0.0, &bad); break;
        case 't': options->tap = optarg; break;
        case 'T': options->tap_rate = parse_number(optarg, 1e-9, &bad); break;
        case 'n': add_tapped(options, optarg, &bad); break;
        case 'x': options->xcp = strcmp(optarg, "off") == 0 ? "" : optarg; break;
        case 'h': usage(stdout, argv[0]); exit(0);
        default: bad = 1;
        }
    if (!bad && optind == argc)
        return 0;
    usage(stderr, argv[0]);
    return 2;
}

/* Exchange the signals of all links. Sets the status if a partner did not answer. */
static void exchange_all(Run *run, double t)
{
    for (int k = 0; k < RUNNER_LINKS && run->status == 0; k++)
        if (rb_link_exchange(&run->links[k], rb_runner_memory(), t) != LINK_OK)
            run->status = NOT_ANSWERED;
}

static void keep_row(Run *run, const Options *options, double t)
{
    if (options->record && run->steps % (uint64_t)options->every == 0)
        rb_record_add(&run->record, t, rb_runner_memory(), RUNNER_PLACES);
}

/* Measure the delay that the machine adds to work of a known duration. The work is done before one
   step and after the next, because delays after a wake-up affect the first work. */
static void time_known_work(Run *run, uint64_t turn)
{
    if (run->rounds == 0 || run->steps % 2 != turn)
        return;
    const int64_t began = rb_clock_nanoseconds();
    spin(run->rounds);
    count_time(&run->empty, rb_clock_nanoseconds() - began);
}

/* Do one step that is due at the time `due`. Record its duration and its lateness. Returns the time
   at its end. */
static int64_t timed_step(Run *run, int64_t due, int paced)
{
    const double t = (double)run->steps * RUNNER_DT;
    const int64_t began = paced ? wait_until(due, &stopped) : rb_clock_nanoseconds();
    if (stopped)
        return began;
    serve_xcp(&run->xcp);
    if (run->steps > 0) {
        rb_scenario_apply(&run->scenario, run->steps, RUNNER_DT, rb_runner_memory());
        exchange_all(run, t);
    }
    if (stopped || run->status)
        return began;
    time_known_work(run, 0);
    const int64_t computes = rb_clock_nanoseconds();
    run->status = rb_runner_step(t);
    const int64_t ended = rb_clock_nanoseconds();
    count_time(&run->work, ended - computes);
    time_known_work(run, 1);
    if (paced) {
        count_time(&run->starts, began - due);
        run->late += began - due > (int64_t)(1e8 * RUNNER_DT); /* late by over 10 % of a step */
    }
    run->steps++;
    return ended;
}

/* Do the steps of a run. The memory must contain the start of the run. */
static void run_steps(Run *run, const Options *options)
{
    const uint64_t last =
        options->stop < 0.0 ? UINT64_MAX : (uint64_t)(options->stop / RUNNER_DT + 0.5);
    const int paced = options->rate > 0.0;
    const double length = paced ? 1e9 * RUNNER_DT / options->rate : 0.0;
    int64_t start = rb_clock_nanoseconds();
    uint64_t origin = 0; /* number of the step that is due at `start` */
    const int64_t began = start;
    while (run->steps < last && !stopped && run->status == 0) {
        const int64_t due = start + (int64_t)((double)(run->steps - origin) * length);
        const int64_t ended = timed_step(run, due, paced);
        if (stopped || run->status)
            break;
        keep_row(run, options, (double)run->steps * RUNNER_DT);
        send_signals(&run->xcp, (double)run->steps * RUNNER_DT);
        rb_tap_add(&run->tap, run->steps, (double)run->steps * RUNNER_DT, rb_runner_memory(),
                   RUNNER_PLACES);
        if (paced && (double)(ended - due) > length) {
            run->missed++;
            if (options->overrun == STOP)
                break;
            if (options->overrun == SKIP) { /* the simulation time does not catch up */
                run->skipped += (uint64_t)((double)(ended - due) / length);
                start = ended;
                origin = run->steps;
            }
        }
    }
    run->wall = rb_clock_nanoseconds() - began;
}

static const char *end_reason(int status)
{
    if (status == NOT_ANSWERED)
        return "a partner has not answered";
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
        rb_link_report(file, &run->links[k], k == RUNNER_LINKS - 1);
    (void)fprintf(file, "  },\n  \"ended\": \"%s\"\n}\n", end_reason(run->status));
}

static int open_tap(Tap *tap, const Options *options)
{
    const double every = floor(1.0 / (options->tap_rate * RUNNER_DT) + 0.5);
    if (rb_tap_select(tap, RUNNER_SIGNALS, RUNNER_N_SIGNALS, options->tapped, options->n_tapped) !=
        0)
        return -1;
    return rb_tap_start(tap, options->tap, every < 1.0 ? 1 : (uint64_t)every);
}

/* Start the XCP server. Prints a message and returns -1 on failure. */
static int start_server(XcpServer *server, const char *address)
{
    struct sockaddr_in own;
    if (rb_parse_address(address, &own) != 0) {
        (void)fprintf(stderr, "--xcp must be an address such as 127.0.0.1:5555, not '%s'\n",
                      address);
        return -1;
    }
    if (start_xcp(server, &RUNNER_XCP_PLAN, &own, rb_runner_memory()) == 0)
        return 0;
    (void)fprintf(stderr, "XCP cannot listen on %s: %s\n", address, strerror(errno));
    return -1;
}

static int open_all(Run *run, const Options *options)
{
    if (options->scenario && rb_scenario_read(&run->scenario, options->scenario, RUNNER_SETTABLE,
                                              RUNNER_N_SETTABLE) != 0)
        return -1;
    for (int k = 0; k < RUNNER_LINKS; k++)
        if (rb_link_open(&run->links[k], &RUNNER_LINK_PLANS[k], &stopped) != 0)
            return -1;
    if (options->xcp[0] && start_server(&run->xcp, options->xcp) != 0)
        return -1;
    if (options->tap && open_tap(&run->tap, options) != 0)
        return -1;
    if (!options->record)
        return 0;
    return rb_record_start(&run->record, options->record, RUNNER_SIGNALS, RUNNER_N_SIGNALS,
                           options->rate <= 0.0);
}

/* Close all files and sockets and report the result. Returns the exit code. */
static int close_all(Run *run, const Options *options)
{
    int code = run->status ? 1 : 0;
    if (options->record && rb_record_end(&run->record) != 0) {
        (void)fprintf(stderr, "the record %s is incomplete\n", options->record);
        code = 1;
    }
    if (options->xcp[0])
        end_xcp(&run->xcp);
    if (options->tap)
        rb_tap_end(&run->tap);
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
        rb_link_close(&run->links[k]);
    free(run->scenario.changes);
    rb_runner_end();
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
    run.rounds = options.empty > 0.0 ? spin_rounds(options.empty) : 0;
    run.status = rb_runner_start(0.0);
    (void)printf("ready\n");
    (void)fflush(stdout);
    rb_scenario_apply(&run.scenario, 0, RUNNER_DT, rb_runner_memory());
    exchange_all(&run, 0.0);
    if ((RUNNER_LINKS || options.scenario) && run.status == 0)
        run.status = rb_runner_outputs(0.0);
    if (run.status == 0)
        run.status = rb_runner_begin();
    keep_row(&run, &options, 0.0);
    if (run.status == 0)
        run_steps(&run, &options);
    return close_all(&run, &options);
}
