// Make scrollable code and tables reachable with the tab key, and name the toolbars of code blocks. The theme adds these
// elements after the page is loaded.
function nameAndFocus() {
  for (const area of document.querySelectorAll("pre > code, .md-typeset__scrollwrap"))
    if (area.scrollWidth > area.clientWidth) area.tabIndex = 0;
    else area.removeAttribute("tabindex");
  document.querySelectorAll(".md-code__nav").forEach((toolbar, k) => {
    toolbar.ariaLabel = `toolbar of code block ${k + 1}`;
  });
}
new MutationObserver(nameAndFocus).observe(document.body, { childList: true, subtree: true });
window.addEventListener("resize", nameAndFocus);
nameAndFocus();
