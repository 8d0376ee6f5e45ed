"""Joints that a user names: where they have their variables."""

from collections.abc import Iterable

from rigidblocks.model.tree import Tree


def chosen_joints(tree: Tree, joints: Iterable[str | int], purpose: str) -> list[int]:
    """The joints 0 .. nb-1 that are given by name or by number, without duplicates and in the order
    given.

    Raises ValueError, with the `purpose`, for one that there is not.
    """
    numbers = []
    for joint in joints:
        known = joint in tree.joint_names if isinstance(joint, str) else 0 <= joint < tree.nb
        if not known:
            raise ValueError(
                f"model '{tree.name}' has no joint {joint!r} to be {purpose}; its joints are "
                f"{', '.join(tree.joint_names)}, "
                f"or 0 .. {tree.nb - 1}"
            )
        numbers.append(tree.joint_names.index(joint) if isinstance(joint, str) else int(joint))
    return list(dict.fromkeys(numbers))


def velocity_columns(tree: Tree, joints: Iterable[str | int], purpose: str) -> list[int]:
    """Where these joints have their velocity variables among all nv."""
    places = [tree.v_slices[i] for i in chosen_joints(tree, joints, purpose)]
    return [column for place in places for column in range(place.start, place.stop)]


def velocity_names(model: Tree) -> tuple[str, ...]:
    """The names of the velocity variables (nv,): that of the joint, with a number where a joint has
    several.
    """
    return tuple(
        name if joint.nv == 1 else f"{name}[{k}]"
        for name, joint in zip(model.joint_names, model.joint, strict=True)
        for k in range(joint.nv)
    )
