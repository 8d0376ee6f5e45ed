"""Directed graphs of parts and ports: reachability, components and topological order.

A graph maps each node to the nodes that it reads.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

T = TypeVar("T")


def strong_components(reads: Mapping[T, Collection[T]]) -> list[frozenset[T]]:
    """Return the strongly connected components of a graph, sorted by their dependencies.

    Each component follows the components that it reads.

    Source: Tarjan, Depth-first search and linear graph algorithms, 1972.
    """
    order: Callable[[Iterable[T]], list[T]] = sorted  # type: ignore[assignment]
    index: dict[T, int] = {}
    lowest: dict[T, int] = {}
    stack: list[T] = []
    found: list[frozenset[T]] = []
    placed = set[T]()
    for root in reads:
        work = [] if root in index else [(root, iter([root]))]
        while work:
            node, more = work[-1]
            if node not in index:
                index[node] = lowest[node] = len(index)
                stack.append(node)
                more = iter(order(reads.get(node, ())))
                work[-1] = node, more
            for other in more:
                if other not in index:
                    work.append((other, iter([other])))
                    break
                if other not in placed:
                    lowest[node] = min(lowest[node], index[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == index[node]:
                    component = {stack.pop()}
                    while node not in component:
                        component.add(stack.pop())
                    found.append(frozenset(component))
                    placed |= component
    return found


def components_by_node(reads: Mapping[T, Collection[T]]) -> dict[T, frozenset[T]]:
    """Map each node of the graph `reads` to its strongly connected component."""
    order: Callable[[Iterable[T]], list[T]] = sorted  # type: ignore[assignment]
    nodes = dict.fromkeys(one for node, some in reads.items() for one in (node, *order(some)))
    component_of = {node: one for one in strong_components(reads) for node in one}
    return {node: component_of[node] for node in nodes}


def ordered_components(
    reads: Mapping[str, set[str]], preferred: Mapping[str, set[str]] | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the strongly connected components of a graph in topological order.

    Each component follows the components that it reads. `preferred` maps a node to further
    nodes that should precede this node. The function ignores `preferred` if it contradicts the
    dependencies.
    """
    group_of = {name: tuple(sorted(group)) for name, group in components_by_node(reads).items()}
    graph = {
        group: {group_of[one] for name in group for one in reads[name]} - {group}
        for group in sorted(set(group_of.values()))
    }
    wanted = {name: (preferred or {}).get(name, set()) & reads.keys() for name in reads}
    ordered = {
        group: some | {group_of[one] for name in group for one in wanted[name]} - {group}
        for group, some in graph.items()
    }
    with contextlib.suppress(CycleError):
        return tuple(TopologicalSorter(ordered).static_order())
    return tuple(TopologicalSorter(graph).static_order())


def contains_cycle(component: frozenset[T], reads: Mapping[T, Collection[T]]) -> bool:
    """Return True if a strongly connected component of the graph `reads` contains a cycle."""
    return len(component) > 1 or any(node in reads.get(node, ()) for node in component)


def has_cycle(reads: Mapping[T, Collection[T]]) -> bool:
    """Return True if the graph `reads` contains a cycle."""
    return any(contains_cycle(component, reads) for component in strong_components(reads))


def reachable(node: T, reads: Mapping[T, set[T]], within: Collection[T] | None = None) -> set[T]:
    """Return the nodes that a node reads, directly or through other nodes.

    If `within` is given, the search is restricted to the nodes in `within`. The result contains
    `node` only if the node is in a cycle.
    """
    found, more = set[T](), [node]
    while more:
        new = reads[more.pop()] - found
        if within is not None:
            new = {one for one in new if one in within}
        found |= new
        more += new
    return found
