"""The parameters of a migration."""


class Migration(dict):
    """The parameters of a migration to another node, to be changed in place: bandwidth (bytes in a second, 0 for no
    limit), parallel-connections (0 for one that carries everything), allow-post-copy, allow-auto-converge,
    completion-timeout (seconds for each GiB, 0 for never) and max-downtime (milliseconds). Values are int or bool."""

    @classmethod
    def from_parameters(cls, parameters):
        """From the texts of the host."""
        return cls((name, _value(text)) for name, text in parameters)

    def parameters(self):
        """As the host reads them."""
        return [(name, _text(value)) for name, value in self.items()]


def _value(text):
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdecimal() else text


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)
