"""XML texts with random mistakes."""

import re

JUNK = ["", "<", ">", "<link>", "&amp;", "nan", "-1", "1e400", '""', "\0", "é", "<a/>", "]]>"]


def mutated_pieces(pieces, junk, rng):
    """Return a text with a few of its pieces omitted, duplicated, exchanged or replaced."""
    for _ in range(rng.integers(1, 5)):
        k, other = rng.integers(len(pieces), size=2)
        match rng.integers(5):
            case 0:
                del pieces[k]
            case 1:
                pieces.insert(k, pieces[other])
            case 2:
                pieces[k], pieces[other] = pieces[other], pieces[k]
            case 3:
                pieces[k] = str(rng.choice(junk))
            case _:
                pieces[k] = re.sub(r"\d", lambda _: str(rng.integers(-9, 10)), pieces[k])
    return "".join(pieces)
