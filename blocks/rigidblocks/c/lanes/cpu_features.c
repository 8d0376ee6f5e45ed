/* Detection of the vector width: the largest number of doubles that the processor and the operating
   system support in one operation. */

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

RB_EXPORT int rb_widest(void);

#if defined(__x86_64__)

#include <cpuid.h>

/* Return the set of registers that the operating system saves (XCR0). */
static unsigned kept(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

RB_EXPORT int rb_widest(void)
{
    const unsigned avx = 1u << 28, osxsave = 1u << 27, fma = 1u << 12, movbe = 1u << 22,
                   f16c = 1u << 29;
    /* AVX2 needs BMI1 and BMI2 too */
    const unsigned avx2 = 1u << 5 | 1u << 3 | 1u << 8;
    /* AVX-512 subsets F, DQ, CD, BW, VL */
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    const unsigned v3 = avx | osxsave | fma | movbe | f16c;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & v3) != v3 || (kept() & 6) != 6)
        return 2;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & avx2) != avx2)
        return 2;
    return (b & avx512) == avx512 && (kept() & 0xe6) == 0xe6 ? 8 : 4;
}

#else

RB_EXPORT int rb_widest(void)
{
    return 2;
}

#endif
