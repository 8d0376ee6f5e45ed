"""JavaScript from an expression graph: what is traced for C, for the script of a page."""

from rigidblocks.tracing.ccode import statements
from rigidblocks.tracing.trace import Graph

_CONSTANT = "const double "  # how a C statement begins that gives a value its name


def javascript_function(graph: Graph) -> str:
    """The text of the JavaScript function of (inputs, out) that the graph describes, flat arrays of
    doubles: the statements of its C, in the same order.
    """
    inputs = [f"x[{k}]" for k in range(graph.function.nnz_in())]
    outputs = [f"out[{k}]" for k in range(graph.function.nnz_out())]
    lines = (
        line.replace(_CONSTANT, "const ", 1).replace("INFINITY", "Infinity")
        for line in statements(graph.function, inputs, outputs)
    )
    body = "\n".join(lines)
    return (
        "(x, out) => {\n"
        "const { sin, cos, tan, asin, acos, atan, atan2, sqrt, exp, log, pow, tanh, floor, ceil, "
        "abs: fabs } = Math;\n"
        f"{body}\n}}"
    )
