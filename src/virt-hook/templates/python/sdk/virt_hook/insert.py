"""Adds elements by path: once, and where libvirt's schema wants them."""

# The few elements whose children have an order in libvirt's schema.
ORDERS = (
    ("resource", ("partition", "fibrechannel")),
    ("model", ("acceleration", "resolution")),
    ("source", ("vendor", "product", "address")),
    ("source", ("slices", "dataStore")),
    ("source", ("reconnect", "clipboard", "mouse", "seclabel")),
    ("launchSecurity", ("cbitpos", "reducedPhysBits")),
)


def order_of(parent, name):
    """The order in which libvirt's schema has the children of `parent`, if it has one for this name."""
    return next((order for element, order in ORDERS if parent == element and name in order), None)


def parent_path(path):
    """A path without its last step. Slashes in predicates separate nothing."""
    depth, quote, last = 0, None, 0
    for at, c in enumerate(path):
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "[]":
            depth += 1 if c == "[" else -1
        elif c == "/" and depth == 0:
            last = at
    return path[:last]
