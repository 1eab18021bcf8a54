"""At every hook point something that the guest, or the test, can see."""

from virt_hook import Hook, Veto, export, invocation, log

ANNOTATION = "board.example.com/manufacturer"


class Board(Hook):
    name = "python-board"
    version = "0.1.0"
    priority = 7
    paths = ["/domain/sysinfo/baseBoard/**", "/domain/os/smbios/@mode"]

    def pre_start(self, vmi):
        if vmi.annotation(ANNOTATION) == "":
            raise Veto("a board without a manufacturer")

    def pre_cloud_init_iso(self, vmi, data_source, documents):
        documents["user-data"] += f"# Python, {data_source}, {invocation('reason')}\n"

    def on_define_domain(self, vmi, domain):
        entry = domain.ensure("sysinfo/baseBoard/entry")
        entry.set_attr("name", "manufacturer").text = vmi.annotation(ANNOTATION)

    def shutdown(self):
        log("the end, in Python")


export(Board)
