"""Run all benchmarks; each comparison is measured within one run."""

import batches
import contact
import costs
import derivatives
import grounded
import hosting
import in_cpp
import kernels
import loops
import masters
import steps

if __name__ == "__main__":
    kernels.main()
    kernels.public_calls()
    kernels.large()
    print()
    derivatives.main()
    print()
    in_cpp.main()
    print()
    batches.main()
    print()
    loops.main()
    print()
    masters.main()
    print()
    steps.main()
    print()
    costs.main()
    print()
    hosting.main()
    print()
    contact.main()
    print()
    grounded.main()
