"""A block's kernel as WebAssembly, which browsers run."""

import tempfile
from pathlib import Path

from rigidblocks.block.adaptive import Method, longest_step
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.fingerprint import fingerprint
from rigidblocks.kernels.kernel import KERNEL, model_header
from rigidblocks.tracing.cache import (
    cached_library,
    digest,
    keep_text,
    key_of,
    known_library,
    known_text,
)
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.compiler import PORTABLE_FLAGS, cross_compiler, run_compiler, version
from rigidblocks.tracing.waits import told

TARGET = "wasm32-wasi"
LINK = ("-mexec-model=reactor", "-s")


def wasm_kernel(memory: Memory, method: Method = RK4, h: float | None = None) -> bytes:
    """The WebAssembly module of a block's kernel: `page_memory`, `page_size`, `page_reset`,
    `page_initialize` and `page_step(k, dt)`, from the cache when it is there.

    The arithmetic is that of the native kernel, sines and cosines those of another C library.
    Raises CompilerError without the package `ziglang`.
    """
    command, h = cross_compiler(TARGET), longest_step(method, h)
    known = fingerprint("page", memory, method, h, command, version(command))
    if known and (text := known_text(known)) and (path := known_library(text)):
        return path.read_bytes()
    sources = {"model.h": model_header(TracedEvaluator(memory), method, h)}
    sources |= {name: c_text(f"kernel/{name}") for name in KERNEL}
    sources["page.c"] = c_text("page/page.c")
    options = (*PORTABLE_FLAGS, *LINK, "page.c", "-o", "page.wasm")
    texts = (part for item in sorted(sources.items()) for part in item)
    key = digest("\0".join((*command, version(command), *options, *texts)).encode())
    path = cached_library(key, lambda: _built(sources, (*command, *options)))
    if known:
        keep_text(known, key_of(path))
    return path.read_bytes()


def _built(sources: dict[str, str], command: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rigidblocks-build-") as folder:
        for name, text in sources.items():
            Path(folder, name).write_text(text)
        with told("compiling the page's kernel to WebAssembly"):
            run_compiler(command, folder)
        return Path(folder, "page.wasm").read_bytes()
