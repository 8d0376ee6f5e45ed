"""Numbers of curves, read from the SVG of charts."""

import re
import xml.etree.ElementTree as ET

import numpy as np

SVG = "{http://www.w3.org/2000/svg}"


def plots_of(html):
    """Return the charts of a page."""
    found = re.findall(r'<figure class="chart">(.*?)</figure>', html, re.DOTALL)
    return [ET.fromstring(svg) for svg in found]


def classed(svg, kind):
    return (node for node in svg.iter() if kind in node.get("class", "").split())


def legend(svg):
    """Return the colour class of each line by its name, for charts with a legend."""
    names = {}
    for entry in classed(svg, "legend"):
        kind = entry.find(f"{SVG}rect").get("class").split()[0]
        names[entry.findtext(f"{SVG}text")] = kind
    return names


def marks(svg, axis):
    """Return the values (n,) and the positions (n,) of the ticks of axis x or y."""
    (group,) = (one for one in classed(svg, "axis") if axis in one.get("class").split())
    found = []
    for guide in classed(group, "guides"):
        place = re.match(r"M(\S+) (\S+)", guide.find(f"{SVG}path").get("d"))
        value = float(guide.findtext(f"{SVG}text").removesuffix(" s"))
        found.append((value, float(place["xy".index(axis) + 1])))
    return np.array(found).T


def curves_in(svg):
    """Return the points (n, 2) of each line, in the order of their numbers."""
    found = []
    for group in classed(svg, "series"):
        for path in group.findall(f"{SVG}path"):
            numbers = re.findall(r"-?[\d.]+", path.get("d"))
            found.append(np.array(numbers, dtype=float).reshape(-1, 2))
    return found


def values_of(svg):
    """Return t (n,) and y (n,) of each line, scaled by the ticks of its axes."""
    scales = [np.polynomial.Polynomial.fit(*marks(svg, axis)[::-1], 1) for axis in "xy"]
    return [
        tuple(scale(c) for scale, c in zip(scales, curve.T, strict=True))
        for curve in curves_in(svg)
    ]
