// Compiled kernel of a system as WebAssembly: memory, initialization and steps.

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

  /** View of the memory of the block; create a new view for each access, because the buffer may be reallocated. */
  get memory() { return new Float64Array(this.own.memory.buffer, this.own.rb_page_memory(), this.own.rb_page_size()); }

  /** Reset all variables to their start values, except the variables in `set` (index, value), and initialize. */
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
