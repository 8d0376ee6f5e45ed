"""Accessibility of a page in the browser: rules of axe-core, colours of plots, focus and sizes."""

from importlib.resources import files

# Web Content Accessibility Guidelines 2.1, levels A and AA; recommendations of axe-core
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
CHECK = """
const [tags, done] = arguments;
axe.run(document, { runOnly: tags, iframes: false, preload: false }).then(
  ({ violations, passes }) => done({
    passes: passes.map(({ id }) => id),
    violations: violations.flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary}`)),
  }),
  (error) => done({ passes: [], violations: [String(error)] }));
"""
# axe-core does not check text in drawings; the plots have a white background
FAINT = """
const luminance = (colour) => colour.match(/\\d+/g).slice(0, 3)
  .map((one) => one / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
  .reduce((sum, x, k) => sum + [0.2126, 0.7152, 0.0722][k] * x, 0);
return [...document.querySelectorAll("svg text")]
  .filter((text) => text.textContent.trim() && text.getClientRects().length)
  .map((text) => [text.textContent, 1.05 / (luminance(getComputedStyle(text).fill) + 0.05)]);
"""
FOCUS = """
const one = document.activeElement, style = getComputedStyle(one);
const box = one.getBoundingClientRect();
const all = [...document.querySelectorAll("*")];
return { place: all.indexOf(one), tag: one.tagName, name: one.ariaLabel ?? one.textContent.trim(),
         outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
         seen: box.width > 0 && box.height > 0 };
"""
TAB_KEY = "\ue004"


def accessibility(tab):
    """Return the violated axe-core rules with their elements, and the names of the other rules."""
    tab.run(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    body = {"script": CHECK, "args": [RULES]}
    reported = tab.call("POST", "/execute/async", body)
    return reported["violations"], reported["passes"]


def text_contrasts(tab):
    """Return the texts in drawings with their contrast to white."""
    return tab.run(FAINT)


def focused_elements(tab, most=200):
    """Return the elements that the tab key selects, in this order, until the first one returns."""
    tab.run("document.activeElement.blur(); window.scrollTo(0, 0);")
    found = []
    for _ in range(most):
        keys = [{"type": "keyDown", "value": TAB_KEY}, {"type": "keyUp", "value": TAB_KEY}]
        actions = [{"type": "key", "id": "keyboard", "actions": keys}]
        tab.call("POST", "/actions", {"actions": actions})
        one = tab.run(FOCUS)
        if one["tag"] == "BODY" or (found and one["place"] == found[0]["place"]):
            return found
        found.append(one)
    raise AssertionError(f"the tab key does not return to the first element: {found[-5:]}")
