// Sliders with a number field.

class Slider {
  constructor({ name, unit, low, high, value }, change) {
    this.unit = unit && unit !== "1" ? ` ${unit}` : "";
    this.range = node("input", { type: "range", min: low, max: high, step: "any", "aria-label": name });
    this.number = node("input", { type: "number", step: "any", "aria-label": `${name}, number` });
    this.range.addEventListener("input", () => change(+this.range.value));
    this.number.addEventListener("change", () => {
      if (this.number.value === "" || !Number.isFinite(+this.number.value)) return;
      this.show(+this.number.value);
      change(+this.number.value);
    });
    this.label = node("label", {}, name + (this.unit && ` [${unit}]`), this.number, this.range);
    this.show(value);
  }

  show(value) {
    if (value < +this.range.min) this.range.min = value;
    if (value > +this.range.max) this.range.max = value;
    this.range.value = value;
    if (document.activeElement !== this.number) this.number.value = +value.toPrecision(6);
  }
}
