"""Contact forces between two fingers, a block and the table under it."""

from rigidblocks.contact import BodyContact, ContactPair, Plane
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.robot.robots import gripper


class GripperContact(BlockSlave):
    """Contacts of the block's corners with both fingers and the table."""

    def __init__(self, **kwargs):
        model = gripper()
        fingers = (ContactPair(3, finger, model.contact[finger][0]) for finger in (1, 2))
        super().__init__(
            BodyContact(model, (*fingers, ContactPair(3, -1, Plane())), 1e4, 20.0, 0.5), **kwargs
        )
