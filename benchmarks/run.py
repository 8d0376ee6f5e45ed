"""All benchmarks; every comparison is made within one run."""

import kernels
import steps

if __name__ == "__main__":
    kernels.main()
    print()
    steps.main()
