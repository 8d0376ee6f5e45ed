"""What two fingers, a block and the table under it do to each other."""

from rigidblocks.contact import ContactPair, Plane
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import BodyContact
from rigidblocks.robots import gripper


class GripperContact(BlockSlave):
    """The block touches both fingers and the table with its corners."""

    def __init__(self, **kwargs):
        model = gripper()
        fingers = (ContactPair(3, finger, model.contact[finger][0]) for finger in (1, 2))
        super().__init__(
            BodyContact(model, (*fingers, ContactPair(3, -1, Plane())), 1e4, 20.0, 0.5), **kwargs
        )
