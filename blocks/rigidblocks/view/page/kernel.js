// A system's compiled kernel in this page: its memory, its steps, and what is set while it runs.

class Kernel {
  constructor(bytes, dt) {
    this.dt = dt;
    const module = new WebAssembly.Module(bytes), needed = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module))
      (needed[from] ??= {})[name] = () => { throw new Error(`the kernel called ${name}`); };
    this.own = new WebAssembly.Instance(module, needed).exports;
    this.own._initialize?.();
    this.reset();
  }

  /** A view of the memory, which may move when it grows. */
  get memory() { return new Float64Array(this.own.memory.buffer, this.own.page_memory(), this.own.page_size()); }

  /** Everything at its start values, but what `set` is given for. */
  reset(set = new Map()) {
    this.own.page_reset();
    for (const [k, value] of set) this.memory[k] = value;
    this.steps = 0;
    this.failed = this.own.page_initialize() !== 0;
  }

  /** One communication step; false when it cannot be taken. */
  step() {
    if (this.failed || this.own.page_step(this.steps, this.dt) !== 0) this.failed = true;
    else this.steps++;
    return !this.failed;
  }
}
