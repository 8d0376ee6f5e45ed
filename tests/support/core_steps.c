/* Steps of a runner's core, and the bits of its signals after each; also on a Cortex-M7 of its own. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bare_metal_step.h"

#if defined(__ARM_ARCH_7EM__)

extern void _start(void);

static void reset(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: the floating-point unit is on */
    __asm volatile("dsb\nisb");
    _start();
}

/* the first stack, and what runs after a reset */
__attribute__((section(".vectors"), used)) static void *const VECTORS[16] = {(void *)0x20300000, (void *)reset};

#endif

int main(void)
{
    int wrong = rb_runner_start(0.0);
    for (long k = 0; k < STEPS && !wrong; k++) {
        wrong = rb_runner_step((double)k * RUNNER_DT);
        for (int i = 0; i < RUNNER_N_SIGNALS; i++) {
            uint64_t bits;
            memcpy(&bits, rb_runner_memory() + RUNNER_PLACES[i], sizeof bits);
            printf("%08lx%08lx\n", (unsigned long)(bits >> 32), (unsigned long)(bits & 0xffffffffu));
        }
    }
    return wrong;
}
