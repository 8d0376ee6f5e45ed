// Compiled kernel of a system in this page: memory, steps, and values that are set during a run.

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

  /** Return a view of the memory, which may move when it grows. */
  get memory() { return new Float64Array(this.own.memory.buffer, this.own.rb_page_memory(), this.own.rb_page_size()); }

  /** Reset everything to its start values, except the values in `set`. */
  reset(set = new Map()) {
    this.own.rb_page_reset();
    for (const [k, value] of set) this.memory[k] = value;
    this.steps = 0;
    this.failed = this.own.rb_page_initialize() !== 0;
  }

  /** Take one communication step; return false if it fails. */
  step() {
    if (this.failed || this.own.rb_page_step(this.steps, this.dt) !== 0) this.failed = true;
    else this.steps++;
    return !this.failed;
  }
}
