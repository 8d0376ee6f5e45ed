#ifndef RB_PARTS_H
#define RB_PARTS_H

#define STATIC_WORKSPACES
enum { RUNNER_PARTS = 2, RUNNER_FMUS = 2,
       RUNNER_SIMULTANEOUS = 0 };
static double memory[5 + 1];
static const double RUNNER_START[] = {1.0, 0.0, 0.0, 3.0, 0.0, 0.0};
static const uint32_t FMU_START_REFERENCES_0_0[] = {1};
static int32_t FMU_START_0_0[] = {3};
static const Constant FMU_0_START[] = {
    {"Integer", 1, 1, FMU_START_REFERENCES_0_0, FMU_START_0_0, 0},
    {0}};
static const uint32_t FMU_REFERENCES_0_IN_0[] = {2};
static const int FMU_PLACES_0_IN_0[] = {0};
static int32_t FMU_VALUES_0_IN_0[1];
static double FMU_LAST_0_IN_0[1];
static const Group FMU_0_INPUTS[] = {
    {"Boolean", RB_INTEGER_BOOLEAN, 0, 0, 1, 1, FMU_REFERENCES_0_IN_0, FMU_PLACES_0_IN_0, FMU_VALUES_0_IN_0, FMU_LAST_0_IN_0},
    {0}};
static const uint32_t FMU_REFERENCES_0_OUT_0[] = {3};
static const int FMU_PLACES_0_OUT_0[] = {1};
static double FMU_VALUES_0_OUT_0[1];
static double FMU_LAST_0_OUT_0[1];
static const Group FMU_0_OUTPUTS[] = {
    {"Real", RB_FLOAT64, 0, 0, 1, 1, FMU_REFERENCES_0_OUT_0, FMU_PLACES_0_OUT_0, FMU_VALUES_0_OUT_0, FMU_LAST_0_OUT_0},
    {0}};
static const uint32_t FMU_START_REFERENCES_1_0[] = {3};
static char * FMU_START_1_0[] = {"one"};
static const uint32_t FMU_START_REFERENCES_1_1[] = {4};
static uint8_t * FMU_START_1_1[] = {(uint8_t[]){0, 255, 0}};
static const size_t FMU_SIZES_1_1[] = {2};
static const Constant FMU_1_START[] = {
    {"String", 1, 1, FMU_START_REFERENCES_1_0, FMU_START_1_0, 0},
    {"Binary", 1, 1, FMU_START_REFERENCES_1_1, FMU_START_1_1, FMU_SIZES_1_1},
    {0}};
static const uint32_t FMU_REFERENCES_1_IN_0[] = {1};
static const int FMU_PLACES_1_IN_0[] = {2};
static double FMU_VALUES_1_IN_0[1];
static double FMU_LAST_1_IN_0[1];
static const uint32_t FMU_REFERENCES_1_IN_1[] = {2};
static const int FMU_PLACES_1_IN_1[] = {3};
static uint8_t FMU_VALUES_1_IN_1[1];
static double FMU_LAST_1_IN_1[1];
static const Group FMU_1_INPUTS[] = {
    {"Float64", RB_FLOAT64, 0, 0, 1, 1, FMU_REFERENCES_1_IN_0, FMU_PLACES_1_IN_0, FMU_VALUES_1_IN_0, FMU_LAST_1_IN_0},
    {"UInt8", RB_UINT8, 1, 0, 1, 1, FMU_REFERENCES_1_IN_1, FMU_PLACES_1_IN_1, FMU_VALUES_1_IN_1, FMU_LAST_1_IN_1},
    {0}};
static const uint32_t FMU_REFERENCES_1_OUT_0[] = {5};
static const int FMU_PLACES_1_OUT_0[] = {4};
static float FMU_VALUES_1_OUT_0[1];
static double FMU_LAST_1_OUT_0[1];
static const Group FMU_1_OUTPUTS[] = {
    {"Float32", RB_FLOAT32, 0, 0, 1, 1, FMU_REFERENCES_1_OUT_0, FMU_PLACES_1_OUT_0, FMU_VALUES_1_OUT_0, FMU_LAST_1_OUT_0},
    {0}};
static const FmuPlan FMUS[] = {
    {"fmu_2", 2, 0, 0.0, "turntable.fmus/0", "binaries/linux64/one.so", "{1}", 1, 1, 1, FMU_0_START, FMU_0_INPUTS, FMU_0_OUTPUTS},
    {"fmu_3", 3, 1, 0.0, "turntable.fmus/1", "binaries/x86_64-linux/one.so", "{1}", 2, 2, 1, FMU_1_START, FMU_1_INPUTS, FMU_1_OUTPUTS},
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
static const Part PARTS[] = {
    {.kind = RB_HOSTED, .number = 0, .instance = memory + 0, .wires = WIRES_0, .n_wires = 0, .scales = SCALES_0, .n_scales = 0},
    {.kind = RB_HOSTED, .number = 1, .instance = memory + 2, .wires = WIRES_1, .n_wires = 1, .scales = SCALES_1, .n_scales = 0},
    {0}};
static int (*const STARTS[])(double *m, double t) = {0, 0, 0};
static const int FIRST[] = {0, 2, 5, 0};
static const int PLACES_0_0[] = {1, 0};
static const Evaluation EVALUATIONS_0[] = {
    {0, 1, PLACES_0_0},
    {0}};
static const int GROUP_0[] = {0, 0};
static const int PLACES_1_0[] = {4, 0};
static const Evaluation EVALUATIONS_1[] = {
    {1, 1, PLACES_1_0},
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
    {memory + 4, memory + 4, 1},
    {0}};
enum { RUNNER_CHECKED = 2 };

#endif
