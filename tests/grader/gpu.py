"""The gpu lane, inside the worker."""


class Card:
    pass
