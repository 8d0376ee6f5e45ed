/* Cost of a step of the runner on a Cortex-M7 without an operating system. qemu runs with -icount
   shift=0, so that an instruction takes 1 ns. The SysTick timer of 25 MHz counts the instructions.
   The number of bytes of stack follows from the bytes that a step overwrites. */

#include <stdint.h>
#include <stdio.h>

#include "bare_metal_step.h"

enum { TICK = 40, PAINTED = 16384, PAINT = 0x5a };

#define SYSTICK ((volatile uint32_t *)0xE000E010u) /* control, reload, value */

extern void _start(void);

static void reset(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: enable the floating-point unit */
    __asm volatile("dsb\nisb");
    _start();
}

/* initial stack pointer and reset handler */
__attribute__((section(".vectors"), used)) static void *const VECTORS[16] = {(void *)0x20300000,
                                                                             (void *)reset};

/* Return the number of bytes below this frame that a step overwrites. */
static int stack_of_step(int *wrong)
{
    uint8_t *top;
    __asm volatile("mov %0, sp" : "=r"(top));
    volatile uint8_t *bytes = top - PAINTED;
    for (int k = 0; k < PAINTED; k++)
        bytes[k] = PAINT;
    *wrong |= rb_runner_step(STEPS * RUNNER_DT);
    int kept = 0;
    while (kept < PAINTED && bytes[kept] == PAINT)
        kept++;
    return PAINTED - kept;
}

int main(void)
{
    int wrong = rb_runner_start(0.0);
    uint64_t sum = 0;
    uint32_t most = 0;
    for (long k = 0; k < STEPS && !wrong; k++) {
        SYSTICK[1] = 0xffffff;
        SYSTICK[2] = 0;
        SYSTICK[0] = 5; /* use the processor clock, without interrupts */
        wrong = rb_runner_step((double)k * RUNNER_DT);
        const uint32_t took = (0xffffff - (SYSTICK[2] & 0xffffff)) * TICK;
        sum += took;
        most = took > most ? took : most;
    }
    const int stack = stack_of_step(&wrong);
    printf("%lu %lu %d\n", (unsigned long)(sum / STEPS), (unsigned long)most, stack);
    return wrong;
}
