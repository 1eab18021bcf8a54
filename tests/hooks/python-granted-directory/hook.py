"""The title of a domain is the team of its namespace, from a file of a granted directory."""

from pathlib import Path

from virt_hook import Hook, export

TEAMS = Path("/etc/teams")


class Team(Hook):
    name = "team"
    version = "0.1.0"
    paths = ["/domain/title"]
    directories = [str(TEAMS)]

    def on_define_domain(self, vmi, domain):
        # The first line of the file of the VM's namespace.
        domain.set("title", (TEAMS / vmi.namespace).read_text().splitlines()[0])


export(Team)
