"""Numbers in sentences."""


def plural(count: int, noun: str) -> str:
    """ "1 element", "1,024 elements"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def are(count: int) -> str:
    """The verb behind it."""
    return "is" if count == 1 else "are"
