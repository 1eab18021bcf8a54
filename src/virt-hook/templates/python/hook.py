"""Puts the title that an annotation names into the domain, where virt-manager and `virsh` show it."""

from virt_hook import Hook, Veto, export

ANNOTATION = "{{name}}.example.com/title"


class Title(Hook):
    """What the hook is called and what it changes; anything else is refused."""

    name = "{{name}}"
    version = "0.1.0"
    paths = ["/domain/title"]

    def pre_start(self, vmi):
        """Before anything is prepared: the place for a "no"."""
        if "\n" in (vmi.annotation(ANNOTATION) or ""):
            raise Veto("the title must be one line")

    def on_define_domain(self, vmi, domain):
        """Before the domain is defined. Run again on its own work, it must change nothing more."""
        title = vmi.annotation(ANNOTATION)
        if title:
            domain.set("title", title)


export(Title)
