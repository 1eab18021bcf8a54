"""The rows of `make test-cluster`: each is a function that gets the test's setting, raises `Failed`, and returns what was seen."""

import difflib
import json
import re
import time

from cluster import DOMAIN, MANUFACTURER, REGISTRY, Failed, Vm, wait

# Of VMs that are alike in all else.
CHANGING = {"uid", "creationTimestamp", "resourceVersion", "lastProbeTime", "lastTransitionTime", "phaseTransitionTimestamp",
            "phaseTransitionTimestamps", "ipAddress", "ipAddresses", "activePods", "nodeName", "launcherContainerImageVersion", "virtualMachineRevisionName"}
ROWS, CORE = {}, []


def row(core=False):
    def add(function):
        name = function.__name__.replace("_", "-")
        ROWS[name] = function
        if core:
            CORE.append(name)
        return function
    return add


def expect(true, text):
    if not true:
        raise Failed(text)


def same(what, stock, ours):
    """Fails with the difference of two texts or JSON values."""
    texts = [text if isinstance(text, str) else json.dumps(text, indent=1, sort_keys=True) for text in (stock, ours)]
    if texts[0] != texts[1]:
        difference = difflib.unified_diff(*(text.splitlines() for text in texts), "stock", "ours", n=1, lineterm="")
        raise Failed(f"{what} differ:\n" + "\n".join(list(difference)[:40]))


def without_changing(value):
    if isinstance(value, dict):
        return {key: without_changing(member) for key, member in value.items() if key not in CHANGING}
    return [without_changing(member) for member in value] if isinstance(value, list) else value


def comparable_xml(xml):
    """A running domain without what no two VMs share: IDs, names of terminals."""
    xml = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", xml)
    return re.sub(r"/dev/pts/\d+|(?<=<domain type='qemu' id=')\d+", "N", xml)


# Of hooks, and of a probe that may come before a slow guest's agent.
NOT_COMPARED = {"HookApplied", "GuestAgentPingFailed"}


def comparable_events(events):
    pods = re.compile(r"virt-launcher-[a-z0-9-]+")
    return sorted({(kind, reason, pods.sub("POD", message)) for kind, reason, message in events if reason not in NOT_COMPARED})


def on_both(test, name, life, edit=None):
    """Lives the same life on KubeVirt's launcher and on ours, and returns what both gave."""
    seen = []
    for canary in (False, True):
        vm = test.vm(name, canary=canary, edit=edit).start()
        seen.append(life(vm))
        vm.delete()
        test.cluster.kubectl("delete", "events", "--field-selector", f"involvedObject.name={name}")
    return seen


def manufacturer_is(vm, value):
    """The hook's change is in the domain, and the guest sees it."""
    xml = vm.domain_xml()
    expect(f"<entry name='manufacturer'>{value}</entry>" in xml, f"the domain has no manufacturer {value}")
    wait("the guest's log", lambda: "READY" in vm.serial_log())
    expect(f"board_vendor: {value}" in vm.serial_log(), f"the guest sees another board_vendor: {vm.serial_log()[:12]}")


def smbios_vm(test, name, value, hooks=None, **options):
    return test.vm(name, hooks=hooks, annotations={MANUFACTURER: value}, **options)


# ---- core: hooks by every route ----


@row(core=True)
def canary_and_stock_are_alike(test):
    def life(vm):
        time.sleep(15)  # virt-handler's next reading of the guest
        # What depends on the time of the last reading.
        return without_changing(vm.vmi()["status"]), comparable_xml(vm.domain_xml()), comparable_events(vm.events()), vm.image(), vm.serial_log()
    stock, ours = on_both(test, "alike", life)
    expect(stock[3] != ours[3] == test.launcher, f"launchers: {stock[3]}, {ours[3]}")
    for what, left, right in zip(("statuses", "domains", "events"), stock, ours):
        same(what, left, right)
    expect(any("dhcp address: 10.0.2.2" in line for line in ours[4]), f"no DHCP address: {ours[4]}")
    return f"status, domain and {len(ours[2])} events equal; agent, probe and DHCP work"


@row(core=True)
def standing_hook_from_image(test):
    vm = smbios_vm(test, "standing", "ACME", {"image": test.hooks, "standing": "smbios"}).start()
    message = vm.event("HookApplied", "hook smbios")
    manufacturer_is(vm, "ACME")
    return message


@row(core=True)
def counted_hook_from_image(test):
    vm = test.vm("counted", hooks={"image": test.hooks, "hooks": "cloud-init"}).start()
    message = vm.event("HookApplied", "cloud-init")
    wait("the guest's log", lambda: "READY" in vm.serial_log())
    expect(any("/etc/kubevirt-hook" in line for line in vm.serial_log()), "the guest's user data lacks the hook's file")
    return message


@row(core=True)
def standing_hook_from_config_map(test):
    made = test.cluster.kubectl("create", "configmap", "from-map", f"--from-file=hook.wasm={test.module('smbios')}",
                                "--dry-run=client", "-o", "yaml")
    test.cluster.apply(made, "--server-side")
    vm = smbios_vm(test, "config-map", "MAP", {"config-maps": "from-map"}).start()
    message = vm.event("HookApplied", "from-map")
    manufacturer_is(vm, "MAP")
    return message


@row(core=True)
def deploy_prints_what_runs(test):
    told = []
    for route in ("configmap", "image"):
        vm = smbios_vm(test, f"deploy-{route}", route.upper())
        test.deploy("smbios", vm, route, *(["--image", test.hooks] if route == "image" else []))
        vm.ready()
        told.append(vm.event("HookApplied", "smbios"))
        manufacturer_is(vm, route.upper())
        vm.delete()
    return "; ".join(told)


@row(core=True)
def serve_under_stock(test):
    vm = smbios_vm(test, "serve", "SIDECAR", canary=False)
    test.deploy("smbios", vm, "sidecar", "--image", test.serve)
    vm.ready()
    expect(vm.image().startswith("quay.io/kubevirt/"), f"the launcher is {vm.image()}")
    manufacturer_is(vm, "SIDECAR")
    lines = [line for line in vm.log("hook-sidecar-0").splitlines() if "change" in line]
    expect(lines, "the sidecar's log tells of no change")
    return lines[-1][-120:]


@row(core=True)
def plugin(test):
    vm = smbios_vm(test, "plugin", "PLUGIN", labels={"plugin": "smbios"})
    printed = test.deploy("smbios", None, "plugin", "--image", test.hooks, "--label", "plugin=smbios", *test.policy_version())
    try:
        vm.start()
        message = vm.event("HookApplied", "plugin/smbios")
        manufacturer_is(vm, "PLUGIN")
    finally:
        test.cluster.kubectl("delete", "--ignore-not-found", "-f", "-", text=printed)
    return message


@row(core=True)
def refusals_are_found(test):
    """Each refusal is in `kubectl describe vmi` and, as the container's message, in `kubectl describe pod`."""
    refusals = {"not-granted": ("HookDenied", "does not allow"), "truncated": ("HookFailed", "truncated"),
                "bad-hook-yaml": ("HookFailed", "hook.yaml"), "no-module": ("HookFailed", "no-module")}
    for name, (reason, part) in refusals.items():
        vm = test.vm(f"refused-{name}", hooks={"image": test.hooks, "standing": name})
        manifest = vm.manifest()
        manifest["spec"]["runStrategy"] = "Once"
        test.cluster.apply(manifest)
        message = vm.event(reason, part, 120)
        wait(f"{vm.name} has failed", lambda: (vm.vmi() or {}).get("status", {}).get("phase") == "Failed", 120)
        described = vm.describe()
        expect(message[:60] in described, f"kubectl describe vmi lacks {message!r}")
        wait(f"kubectl describe pod has {part!r}", lambda: part in test.cluster.kubectl(
            "describe", "pod", "-l", f"vm.kubevirt.io/name={vm.name}", check=False), 60)
        vm.delete()
    return f"{len(refusals)} kinds in describe vmi and describe pod"


@row(core=True)
def guard_refuses(test):
    vm = test.vm("foreign", hooks={"image": "elsewhere.example/hooks:1", "standing": "smbios"})
    answer = test.cluster.apply(vm.manifest(), check=False)
    expect("wasm-hooks-guard" in answer and "denied" in answer, f"kubectl apply: {answer}")
    vm = test.vm("no-canary", hooks={"image": test.hooks, "standing": "smbios"}, canary=False)
    test.cluster.apply(vm.manifest())
    message = vm.event("FailedCreate", "not the launcher that runs them", 120)
    expect(not vm.pods(), "a pod was made")
    return message[-160:]


# ---- core: a VM's life ----


@row(core=True)
def disk_is_hotplugged(test):
    test.claim("hot", "64Mi")
    for node in (1, 2):
        test.cluster.in_node(node, "sh", "-c", "mkdir -p /var/lib/kubevirt-volumes/hot && cd /var/lib/kubevirt-volumes/hot && "
                             "printf 'the hotplugged disk' >disk.img && truncate -s 33554432 disk.img && chown -R 107:107 .")

    def life(vm):
        test.cluster.virtctl("addvolume", vm.name, "--volume-name=hot")

        def status():
            return next((v for v in vm.vmi()["status"].get("volumeStatus", []) if v["name"] == "hot"), {})
        ready = wait("the volume is ready", lambda: status().get("phase") == "Ready" and status())
        text = vm.guest("head -c 19 /dev/sda")
        expect("the hotplugged disk" in text, f"the guest reads {text!r}")
        test.cluster.virtctl("removevolume", vm.name, "--volume-name=hot")
        wait("the volume is gone", lambda: not status())
        wait("its pod is gone", lambda: not [p for p in test.cluster.items("pod") if p["metadata"]["name"].startswith("hp-volume")])
        return without_changing({key: ready.get(key) for key in ("phase", "reason", "target")})
    stock, ours = on_both(test, "hotplug", life)
    same("volume statuses", stock, ours)
    return f"{ours['target']} read and detached, as on stock"


@row(core=True)
def deleted_vm_and_pod(test):
    def life(vm):
        first = vm.vmi()["metadata"]["uid"]
        test.cluster.delete("pod", vm.pod()["metadata"]["name"])
        wait("the VM has been started again", lambda: (vm.vmi() or {"metadata": {"uid": first}})["metadata"]["uid"] != first)
        vm.ready()
        begin = time.monotonic()
        vm.delete()
        return comparable_events(vm.events()), time.monotonic() - begin
    (_, stock), (events, ours) = on_both(test, "ends", life)
    failed = [message for _, reason, message in events if reason == "SyncFailed"]
    expect(not failed, f"SyncFailed: {failed}")
    return f"deleted within {ours:.0f} s (stock {stock:.0f} s), no SyncFailed"


@row(core=True)
def kills(test):
    def life(vm):
        times = {}
        for program in ("qemu-system-x86", "virt-launcher"):
            first, begin = vm.vmi()["metadata"]["uid"], time.monotonic()
            vm.kill_in_pod(program)
            wait(f"a new VMI after the end of {program}", lambda: (vm.vmi() or {"metadata": {"uid": first}})["metadata"]["uid"] != first)
            vm.ready()
            times[program] = time.monotonic() - begin
        vm.kill_in_pod("virtqemud")
        wait("pause works again", lambda: "was scheduled to pause" in test.cluster.virtctl("pause", "vmi", vm.name, check=False), 60)
        wait("it is paused", lambda: vm.conditions(vm.vmi()).get("Paused") == "True", 60)
        test.cluster.virtctl("unpause", "vmi", vm.name)
        return times
    stock, ours = on_both(test, "kills", life)
    return ", ".join(f"{program}: ready again after {ours[program]:.0f} s (stock {stock[program]:.0f} s)" for program in ours)


@row(core=True)
def migrations_and_rollback(test):
    """The whole cluster's patch, with which VMs of KubeVirt's launcher move to ours, and its rollback."""
    vm = test.vm("moves", canary=False).start()
    expect(vm.image().startswith("quay.io/kubevirt/"), f"the launcher is {vm.image()}")
    boot, steps = vm.boot_id(), []
    with test.whole_cluster():
        for step in ("stock to ours", "ours to ours"):
            vm.migrate()
            expect(vm.image() == test.launcher, f"{step}: the launcher is {vm.image()}")
            expect(vm.boot_id() == boot, f"{step}: the guest was started again")
            steps.append(step)
        new = smbios_vm(test, "whole", "WHOLE", {"image": test.hooks, "standing": "smbios"}, canary=False).start()
        manufacturer_is(new, "WHOLE")
        new.migrate()
        expect("<entry name='manufacturer'>WHOLE</entry>" in new.domain_xml(), "the hook's change is gone")
        new.delete()
        steps.append("with a hook")
    vm.migrate()
    expect(vm.image().startswith("quay.io/kubevirt/"), f"after the rollback the launcher is {vm.image()}")
    expect(vm.boot_id() == boot, "ours to stock: the guest was started again")
    return ", ".join([*steps, "ours to stock"]) + ": the same boot"


# ---- further rows ----


@row()
def commands(test):
    def life(vm):
        answers = {}
        for verb in ("guestosinfo", "userlist", "fslist"):
            answers[verb] = json.loads(test.cluster.virtctl(verb, vm.name))
        for verb, state in (("pause", "True"), ("unpause", None)):
            test.cluster.virtctl(verb, "vmi", vm.name)
            wait(f"{verb} is seen", lambda: vm.conditions(vm.vmi()).get("Paused") == state, 60)
        picture = test.work / f"{vm.name}.png"
        test.cluster.virtctl("vnc", "screenshot", vm.name, "-f", picture)
        answers["screenshot"] = picture.read_bytes()[:8].hex()
        boot = vm.boot_id()
        test.cluster.virtctl("soft-reboot", vm.name)
        wait("the guest has been restarted", lambda: vm.boot_id() != boot)
        for counted in ("totalBytes", "usedBytes", "usedInodes"):
            for item in answers["fslist"].get("items", []):
                item.pop(counted, None)
        return without_changing(answers)
    stock, ours = on_both(test, "commands", life)
    same("answers", stock, ours)
    return "guestosinfo, userlist, fslist, pause, screenshot, console, soft-reboot as on stock"


@row()
def uefi_and_tpm(test):
    def edit(spec):
        spec["domain"]["firmware"]["bootloader"] = {"efi": {"secureBoot": False}}
        spec["domain"]["devices"]["tpm"] = {}

    def life(vm):
        return comparable_xml(vm.domain_xml()), comparable_events(vm.events())
    stock, ours = on_both(test, "uefi", life, edit)
    same("domains and events", "\n".join(map(str, stock)), "\n".join(map(str, ours)))
    expect("<tpm " in ours[0] and "pflash" in ours[0], "the domain has no TPM or no UEFI")
    return "the domain is stock's, and the guest boots"


@row()
def memory_dump(test):
    test.cluster.apply((test.here / "manifests/cdi-config.yaml").read_text())
    test.claim("dump", "2Gi")
    for node in (1, 2):
        test.cluster.in_node(node, "sh", "-c", "mkdir -p /var/lib/kubevirt-volumes/dump && chown 107:107 /var/lib/kubevirt-volumes/dump")

    def life(vm):
        test.cluster.virtctl("memory-dump", "get", vm.name, "--claim-name=dump")

        def phase():
            return (test.cluster.get("vm", vm.name)["status"].get("memoryDumpRequest") or {}).get("phase")
        ended = wait("the dump has ended", lambda: phase() in ("Completed", "Failed") and phase())
        expect(ended == "Completed", f"the dump: {test.cluster.get('vm', vm.name)['status']['memoryDumpRequest']}")
        test.cluster.virtctl("memory-dump", "remove", vm.name)
        wait("the dump's volume is gone", lambda: not phase())
        return ended
    return f"{on_both(test, 'dump', life)[1]} on both"


@row()
def hooks_of_a_namespace(test):
    test.cluster.kubectl("annotate", "--overwrite", "namespace", "default", f"{DOMAIN}/image={test.hooks}", f"{DOMAIN}/standing=smbios")
    try:
        vm = smbios_vm(test, "by-namespace", "NAMESPACE").start()
        message = vm.event("HookApplied", "namespace-smbios")
        manufacturer_is(vm, "NAMESPACE")
    finally:
        test.cluster.kubectl("annotate", "namespace", "default", f"{DOMAIN}/image-", f"{DOMAIN}/standing-")
    return message


@row()
def hooks_by_label_with_pod_info(test):
    text = test.admission("standing-hooks-by-label.yaml").replace(f"{REGISTRY}/gpu-hooks:1", test.hooks)
    text = text.replace("['vfio', 'numa']", "['smbios']") + "\n---\n" + test.admission("pod-info.yaml")
    test.cluster.apply(text)
    try:
        vm = smbios_vm(test, "by-label", "LABEL", labels={"tier": "gpu"}).start()
        message = vm.event("HookApplied", "gpu-smbios")
        manufacturer_is(vm, "LABEL")
        labels = vm.in_compute("cat", "/etc/virt-launcher/pod-info/labels")
        expect('tier="gpu"' in labels, f"pod-info has {labels!r}")
    finally:
        test.cluster.kubectl("delete", "--ignore-not-found", "-f", "-", text=text)
    return message


@row()
def hooks_of_a_claim(test):
    test.claim("hooks", "64Mi")
    module = test.module("smbios")
    for node in (1, 2):
        directory = "/var/lib/kubevirt-volumes/hooks/smbios"
        test.cluster.in_node(node, "sh", "-c", f"mkdir -p {directory} && cp {module} {directory}/hook.wasm && chmod -R a+rX {directory}")
    vm = smbios_vm(test, "by-claim", "CLAIM", {"claim": "hooks", "claim-hooks": "smbios"}).start()
    message = vm.event("HookApplied", "smbios")
    manufacturer_is(vm, "CLAIM")
    return message


@row()
def node_is_drained(test):
    vm = test.vm("drained", edit=lambda spec: spec.update(evictionStrategy="LiveMigrate")).start()
    boot, node = vm.boot_id(), vm.vmi()["status"]["nodeName"]
    try:
        test.cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=240s",
                             f"--pod-selector=vm.kubevirt.io/name={vm.name}", seconds=260)
        wait("the VM has moved", lambda: vm.vmi()["status"]["nodeName"] != node)
        expect(vm.boot_id() == boot, "the guest was started again")
    finally:
        test.cluster.kubectl("uncordon", node)
    return f"moved from {node} by its eviction, the same boot"


@row()
def virt_handler_and_kubelet_restart(test):
    vm = test.vm("outlives").start()
    boot = vm.boot_id()
    test.cluster.kubectl("-n", "kubevirt", "rollout", "restart", "daemonset/virt-handler")
    test.cluster.kubectl("-n", "kubevirt", "rollout", "status", "daemonset/virt-handler", "--timeout=240s", seconds=250)
    number = vm.vmi()["status"]["nodeName"].removeprefix("node")
    test.cluster.in_node(number, "pkill", "-x", "kubelet")
    test.cluster.script("node", "kubelet", number)
    wait("the node is ready", lambda: "True" in test.cluster.kubectl(
        "get", "node", f"node{number}", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"))
    test.cluster.virtctl("pause", "vmi", vm.name)
    wait("it is paused", lambda: vm.conditions(vm.vmi()).get("Paused") == "True", 90)
    test.cluster.virtctl("unpause", "vmi", vm.name)
    wait("it runs", lambda: vm.conditions(vm.vmi()).get("Paused") is None, 90)
    expect(vm.boot_id() == boot, "the guest was started again")
    return "the VM answers its new virt-handler and kubelet"


# Rows that no machine of this kind can run, with the reason.
NOT_RUN = {
    "bridge binding": "needs the kernel's dummy devices",
    "NIC hotplug": "needs Multus",
    "IPv6 and dual stack": "the cluster's pod network has IPv4 only",
    "snapshot, backup, export": "need CDI and a CSI driver with snapshots",
    "cgroup v2": "the machine decides between cgroup v1 and v2",
}
