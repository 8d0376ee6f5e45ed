#ifndef RB_PARTS_H
#define RB_PARTS_H

#define STATIC_WORKSPACES
enum { RUNNER_PARTS = 2, RUNNER_FMUS = 2,
       RUNNER_SIMULTANEOUS = 0 };
static double memory[8 + 1];
static const double RUNNER_START[] = {1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 1.0, 0.0};
static const uint32_t FMU_0_HELD_0_REFERENCES[] = {2, 0};
static const int64_t FMU_0_HELD_0_PLACES[] = {0, 0};
static int32_t FMU_0_HELD_0_BUFFER[1];
static Variables FMU_0_HELD[] = {{.references = FMU_0_HELD_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_INTEGER_BOOLEAN, .places = FMU_0_HELD_0_PLACES, .buffer = FMU_0_HELD_0_BUFFER}, {.n = 0}};
static const char *const FMU_0_HELD_TYPES[] = {"Boolean", 0};
enum { FMU_0_HELD_COUNT = 1 };
static Variables FMU_0_DISCRETE[] = {{.n = 0}};
static const char *const FMU_0_DISCRETE_TYPES[] = {0};
enum { FMU_0_DISCRETE_COUNT = 0 };
static Variables FMU_0_PARAMETERS[] = {{.n = 0}};
static const char *const FMU_0_PARAMETERS_TYPES[] = {0};
enum { FMU_0_PARAMETERS_COUNT = 0 };
static const uint32_t FMU_0_OUTPUTS_0_REFERENCES[] = {3, 0};
static const int64_t FMU_0_OUTPUTS_0_PLACES[] = {1, 0};
static double FMU_0_OUTPUTS_0_BUFFER[1];
static Variables FMU_0_OUTPUTS[] = {{.references = FMU_0_OUTPUTS_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_FLOAT64, .places = FMU_0_OUTPUTS_0_PLACES, .buffer = FMU_0_OUTPUTS_0_BUFFER}, {.n = 0}};
static const char *const FMU_0_OUTPUTS_TYPES[] = {"Real", 0};
enum { FMU_0_OUTPUTS_COUNT = 1 };
static const uint32_t FMU_0_START_0_REFERENCES[] = {1};
static int32_t FMU_0_START_0_VALUES[] = {3};
static const Constant FMU_0_START[] = {{"Integer", 1, 1, FMU_0_START_0_REFERENCES, FMU_0_START_0_VALUES, 0}, {0}};
static const Constant FMU_0_SIZES[] = {{0}};
static double FMU_0_LAST_PARAMETERS[1];
static const uint32_t FMU_1_HELD_0_REFERENCES[] = {1, 0};
static const int64_t FMU_1_HELD_0_PLACES[] = {2, 0};
static double FMU_1_HELD_0_BUFFER[1];
static Variables FMU_1_HELD[] = {{.references = FMU_1_HELD_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_FLOAT64, .places = FMU_1_HELD_0_PLACES, .buffer = FMU_1_HELD_0_BUFFER}, {.n = 0}};
static const char *const FMU_1_HELD_TYPES[] = {"Float64", 0};
enum { FMU_1_HELD_COUNT = 1 };
static const uint32_t FMU_1_DISCRETE_0_REFERENCES[] = {2, 0};
static const int64_t FMU_1_DISCRETE_0_PLACES[] = {3, 0};
static uint8_t FMU_1_DISCRETE_0_BUFFER[1];
static Variables FMU_1_DISCRETE[] = {{.references = FMU_1_DISCRETE_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_UINT8, .places = FMU_1_DISCRETE_0_PLACES, .buffer = FMU_1_DISCRETE_0_BUFFER}, {.n = 0}};
static const char *const FMU_1_DISCRETE_TYPES[] = {"UInt8", 0};
enum { FMU_1_DISCRETE_COUNT = 1 };
static const uint32_t FMU_1_PARAMETERS_0_REFERENCES[] = {10, 0};
static const int64_t FMU_1_PARAMETERS_0_PLACES[] = {7, 0};
static double FMU_1_PARAMETERS_0_BUFFER[1];
static Variables FMU_1_PARAMETERS[] = {{.references = FMU_1_PARAMETERS_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_FLOAT64, .places = FMU_1_PARAMETERS_0_PLACES, .buffer = FMU_1_PARAMETERS_0_BUFFER}, {.n = 0}};
static const char *const FMU_1_PARAMETERS_TYPES[] = {"Float64", 0};
enum { FMU_1_PARAMETERS_COUNT = 1 };
static const uint32_t FMU_1_OUTPUTS_0_REFERENCES[] = {5, 0};
static const int64_t FMU_1_OUTPUTS_0_PLACES[] = {5, 0};
static float FMU_1_OUTPUTS_0_BUFFER[1];
static Variables FMU_1_OUTPUTS[] = {{.references = FMU_1_OUTPUTS_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_FLOAT32, .places = FMU_1_OUTPUTS_0_PLACES, .buffer = FMU_1_OUTPUTS_0_BUFFER}, {.n = 0}};
static const char *const FMU_1_OUTPUTS_TYPES[] = {"Float32", 0};
enum { FMU_1_OUTPUTS_COUNT = 1 };
static const uint32_t FMU_1_START_0_REFERENCES[] = {3};
static char * FMU_1_START_0_VALUES[] = {"one"};
static const uint32_t FMU_1_START_1_REFERENCES[] = {4};
static uint8_t * FMU_1_START_1_VALUES[] = {(uint8_t[]){0, 255, 0}};
static const size_t FMU_1_START_1_LENGTHS[] = {2};
static const Constant FMU_1_START[] = {{"String", 1, 1, FMU_1_START_0_REFERENCES, FMU_1_START_0_VALUES, 0}, {"Binary", 1, 1, FMU_1_START_1_REFERENCES, FMU_1_START_1_VALUES, FMU_1_START_1_LENGTHS}, {0}};
static const Constant FMU_1_SIZES[] = {{0}};
static double FMU_1_LAST_PARAMETERS[2];
static const uint32_t FMU_1_TRIGGERS_0_REFERENCES[] = {8, 0};
static const int64_t FMU_1_TRIGGERS_0_PLACES[] = {4, 0};
static bool FMU_1_TRIGGERS_0_BUFFER[1];
static Variables FMU_1_TRIGGERS[] = {{.references = FMU_1_TRIGGERS_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_BOOLEAN, .places = FMU_1_TRIGGERS_0_PLACES, .buffer = FMU_1_TRIGGERS_0_BUFFER}, {.n = 0}};
static const char *const FMU_1_TRIGGERS_TYPES[] = {"Clock", 0};
enum { FMU_1_TRIGGERS_COUNT = 1 };
static const uint32_t FMU_1_TICKED_0_REFERENCES[] = {9, 0};
static const int64_t FMU_1_TICKED_0_PLACES[] = {6, 0};
static bool FMU_1_TICKED_0_BUFFER[1];
static Variables FMU_1_TICKED[] = {{.references = FMU_1_TICKED_0_REFERENCES, .n = 1, .values = memory, .n_values = 1, .type = RB_BOOLEAN, .places = FMU_1_TICKED_0_PLACES, .buffer = FMU_1_TICKED_0_BUFFER}, {.n = 0}};
static const char *const FMU_1_TICKED_TYPES[] = {"Clock", 0};
enum { FMU_1_TICKED_COUNT = 1 };
static const uint32_t FMU_1_CLOCK_REFERENCES[] = {6, 7, 0};
static const int64_t FMU_1_CLOCK_KINDS[] = {RB_COUNTDOWN, RB_FIXED_INTERVAL, 0};
static ClockTicks FMU_1_TICKS[3];
static NextTick FMU_1_NEXT_TICK = {INFINITY, 1.0};
static int64_t FMU_1_DUE[3];
static uint32_t FMU_1_DUE_REFERENCES[3];
static const bool FMU_1_ACTIVE[] = {1, 1, 0};
static Clocks FMU_1_CLOCKS = {.n = 2, .references = FMU_1_CLOCK_REFERENCES, .kinds = FMU_1_CLOCK_KINDS, .ticks = FMU_1_TICKS, .next_tick = &FMU_1_NEXT_TICK, .triggers = FMU_1_TRIGGERS, .n_triggers = FMU_1_TRIGGERS_COUNT, .outputs = FMU_1_TICKED, .n_outputs = FMU_1_TICKED_COUNT, .due = FMU_1_DUE, .due_references = FMU_1_DUE_REFERENCES, .active = FMU_1_ACTIVE};
static const ClockStart FMU_1_CLOCK_STARTS[] = {{"tick", NAN, 0.0, 0}, {"sample", 0.004, 0.0, 0}, {0}};
static double FMU_1_LAST_INPUTS[2];
static Events FMU_1_EVENTS = {.set = FMU_1_DISCRETE, .n_set = FMU_1_DISCRETE_COUNT, .last = FMU_1_LAST_INPUTS};
static const FmuPlan FMUS[] = {
    {"fmu_2", 0, 2, 0, 0.0, "turntable.fmus/0", "binaries/linux64/one.so", "{1}", 0, FMU_0_SIZES, 1, FMU_0_START, {FMU_0_HELD, FMU_0_HELD_TYPES, 1}, {FMU_0_DISCRETE, FMU_0_DISCRETE_TYPES, 0}, {FMU_0_PARAMETERS, FMU_0_PARAMETERS_TYPES, 0}, {FMU_0_OUTPUTS, FMU_0_OUTPUTS_TYPES, 1}, FMU_0_LAST_PARAMETERS, 0, 0, 0},
    {"fmu_3", 1, 3, 0, 0.0, "turntable.fmus/1", "binaries/x86_64-linux/one.so", "{1}", 0, FMU_1_SIZES, 2, FMU_1_START, {FMU_1_HELD, FMU_1_HELD_TYPES, 1}, {FMU_1_DISCRETE, FMU_1_DISCRETE_TYPES, 1}, {FMU_1_PARAMETERS, FMU_1_PARAMETERS_TYPES, 1}, {FMU_1_OUTPUTS, FMU_1_OUTPUTS_TYPES, 1}, FMU_1_LAST_PARAMETERS, &FMU_1_EVENTS, &FMU_1_CLOCKS, FMU_1_CLOCK_STARTS},
    {0}};
static const Copy WIRES_0[] = {
    {0}};
static const Scale SCALES_0[] = {
    {0}};
static const Copy WIRES_1[] = {
    {memory + 1, memory + 2, 1},
    {0}};
static const Scale SCALES_1[] = {
    {0}};
static Part PARTS[] = {
    {.number = 0, .kind = RB_FMI2, .set = FMU_0_HELD, .n_set = FMU_0_HELD_COUNT, .get = FMU_0_OUTPUTS, .n_get = FMU_0_OUTPUTS_COUNT, .may_roll_back = &MAY_ROLL_BACK, .wires = WIRES_0, .n_wires = 0, .scales = SCALES_0, .n_scales = 0},
    {.number = 1, .kind = RB_FMI3, .set = FMU_1_HELD, .n_set = FMU_1_HELD_COUNT, .get = FMU_1_OUTPUTS, .n_get = FMU_1_OUTPUTS_COUNT, .may_roll_back = &MAY_ROLL_BACK, .events = &FMU_1_EVENTS, .clocks = &FMU_1_CLOCKS, .wires = WIRES_1, .n_wires = 1, .scales = SCALES_1, .n_scales = 0},
    {0}};
static int (*const STARTS[])(double *m, double t) = {0, 0, 0};
static const int FIRST[] = {0, 2, 8, 0};
static const int PLACES_0_0[] = {1, 0};
static const Evaluation EVALUATIONS_0[] = {
    {0, 1, PLACES_0_0},
    {0}};
static const int GROUP_0[] = {0, 0};
static const int PLACES_1_0[] = {6, 5, 0};
static const Evaluation EVALUATIONS_1[] = {
    {1, 2, PLACES_1_0},
    {0}};
static const int GROUP_1[] = {1, 0};
static const StartGroup GROUPS[] = {
    {1, 1, GROUP_0, EVALUATIONS_0, ""},
    {1, 1, GROUP_1, EVALUATIONS_1, ""},
    {0}};
enum { RUNNER_GROUPS = 2 };
static const int FMU_OF[] = {0, 1, 0};
static const Copy CHECKED[] = {
    {memory + 1, memory + 1, 1},
    {memory + 5, memory + 5, 1},
    {memory + 6, memory + 6, 1},
    {0}};
enum { RUNNER_CHECKED = 3 };

#endif
