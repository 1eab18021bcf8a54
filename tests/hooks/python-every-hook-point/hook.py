"""At every hook point something that the guest, or the test, can see."""

from virt_hook import Hook, Veto, export, invocation, log, pod

ANNOTATION = "board.example.com/manufacturer"


class Board(Hook):
    name = "python-board"
    version = "0.1.0"
    priority = 7
    paths = ["/domain/sysinfo/baseBoard/**", "/domain/os/smbios/@mode"]
    pod_facts = ["annotations/a.example/*", "network-status/*", "default-network", "network-info"]

    def pre_start(self, vmi):
        if vmi.annotation(ANNOTATION) == "":
            raise Veto("a board without a manufacturer")
        if vmi.annotation(ANNOTATION) == "the pod":
            self.tell_facts()
        return Veto("it is lost") if vmi.annotation(ANNOTATION) == "a returned veto" else None

    def tell_facts(self):
        lab = pod.networks("infra/lab")
        assert pod.annotation("a.example/none", wait=False) is None
        for fact, kind in [
            (lambda: pod.label("rack"), "denied"),
            (pod.network_info, "absent"),
        ]:
            try:
                fact()
            except pod.FactError as error:
                assert error.kind == kind, error
        facts = [pod.annotation("a.example/b"), lab[0].mac, lab[-1].mac, lab[0].ips[-1]]
        raise Veto(" ".join(facts + [pod.default_network().name]))

    def pre_cloud_init_iso(self, vmi, data_source, documents):
        documents["user-data"] += f"# Python, {data_source}, {invocation('reason')}\n"

    def on_define_domain(self, vmi, domain):
        entry = domain.ensure("sysinfo/baseBoard/entry")
        entry.set_attr("name", "manufacturer").text = vmi.annotation(ANNOTATION)

    def shutdown(self):
        log("the end, in Python")


export(Board)
