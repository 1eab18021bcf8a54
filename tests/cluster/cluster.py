"""A cluster that `control-plane`, `node` and `kubevirt` have started, and the VMs of the tests in it."""

import json
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOMAIN = "hooks.corp.example"
REGISTRY = "registry.corp.example"
MANUFACTURER = "smbios.vm.kubevirt.io/baseBoardManufacturer"
# Not every build of kube-apiserver serves the documents that kubectl validates with; `make test-apiserver` validates.
VALIDATE = "--validate=false"
# Longer than any start, end or migration of a small guest on two busy cores.
SOON = 240


class Failed(Exception):
    """A row did not go as it should; the text says how."""


class Cluster:
    """Commands in the cluster of one state directory."""

    def __init__(self, state, environment):
        self.state = Path(state)
        self.environment = environment

    # ---- processes ----

    def script(self, name, *arguments, seconds=600):
        """Runs one of the scripts beside this file."""
        self._run([HERE / name, *arguments], seconds)

    def in_node(self, number, *command, seconds=60, check=True, text=None):
        """Runs a command in the namespaces of a node."""
        return self._run([*self._enter(number, "--mount", "--pid"), *command], seconds, check, text)

    def kubectl(self, *arguments, seconds=60, check=True, text=None):
        return self._run([*self._enter(1), "kubectl", f"--request-timeout={seconds}s", *arguments], seconds + 10, check, text)

    def virtctl(self, *arguments, seconds=60, check=True):
        return self._run([*self._enter(1), "virtctl", *arguments], seconds, check)

    def _enter(self, number, *namespaces):
        pid = (self.state / f"node{number}/init.pid").read_text().strip()
        return ["nsenter", "--target", pid, "--net", *namespaces, "--wd=/", "--"] if namespaces else \
            ["nsenter", "--target", pid, "--net", "--"]

    def _run(self, command, seconds, check=True, text=None):
        command = [str(word) for word in command]
        try:
            done = subprocess.run(command, env=self.environment, input=text, stdin=None if text is not None else subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(command[-6:])}: no end within {seconds} s") from None
        if check and done.returncode:
            raise Failed(f"{' '.join(command[-8:])}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-800:]}")
        return done.stdout if check else done.stdout + done.stderr

    # ---- objects ----

    def get(self, kind, *arguments):
        """An object as JSON, or None."""
        found = self.kubectl("get", kind, *arguments, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found.strip() else None

    def items(self, kind, *arguments):
        return (self.get(kind, *arguments) or {}).get("items", [])

    def apply(self, manifest, *arguments, check=True):
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl("apply", VALIDATE, *arguments, "-f", "-", text=text, check=check)

    def delete(self, kind, *names, namespace="default"):
        self.kubectl("-n", namespace, "delete", "--ignore-not-found", "--timeout=120s", kind, *names, seconds=130)

    def overlay(self, name, verb="apply"):
        """Applies or deletes what the guide's command for an overlay of deploy/ renders."""
        rendered = self.kubectl("kustomize", HERE.parents[1] / "deploy/overlays" / name)
        rendered = rendered.replace("wasm-hooks.example.com", DOMAIN).replace("registry.example/", f"{REGISTRY}/")
        options = ["--ignore-not-found"] if verb == "delete" else [VALIDATE]
        self.kubectl(verb, *options, "-f", "-", text=rendered, seconds=120)

    def patch_kubevirt(self, patch):
        """A merge patch of the KubeVirt object; waits until virt-operator has rolled it out."""
        text = patch if isinstance(patch, str) else json.dumps(patch)
        self.kubectl("-n", "kubevirt", "patch", "kubevirt", "kubevirt", "--type", "merge", "--patch-file", "/dev/stdin", text=text)
        self.settle()

    def settle(self):
        """Waits until virt-operator has seen the last change of the KubeVirt object and everything is available."""
        def settled():
            object = self.get("kubevirt", "-n", "kubevirt", "kubevirt")
            conditions = {c["type"]: c["status"] for c in object.get("status", {}).get("conditions", [])}
            return (object["status"].get("observedGeneration") == object["metadata"]["generation"]
                    and conditions.get("Available") == "True" and conditions.get("Progressing") == "False")
        wait("KubeVirt is available again", settled, 300)
        for kind in ("deployment/virt-controller", "deployment/virt-api", "daemonset/virt-handler"):
            self.kubectl("-n", "kubevirt", "rollout", "status", kind, "--timeout=240s", seconds=250)

    def launcher_image(self):
        """The image that virt-controller gives launchers."""
        container = self.get("deployment", "-n", "kubevirt", "virt-controller")["spec"]["template"]["spec"]["containers"][0]
        return container["args"][container["args"].index("--launcher-image") + 1]


def wait(what, condition, seconds=SOON):
    """Asks until `condition` gives something true, which is returned."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(0.5)


class Vm:
    """One VM with the small guest of the tests."""

    def __init__(self, cluster, name, hooks=None, canary=True, annotations=None, labels=None, edit=None):
        self.cluster, self.name = cluster, name
        self.labels = {**({f"{DOMAIN}/canary": "true"} if canary else {}), **(labels or {})}
        self.annotations = {**{f"{DOMAIN}/{key}": value for key, value in (hooks or {}).items()}, **(annotations or {})}
        # Changes the VMI's spec before it is used.
        self.edit = edit

    def manifest(self):
        manifest = self._manifest()
        if self.edit:
            self.edit(manifest["spec"]["template"]["spec"])
        return manifest

    def _manifest(self):
        disks = [{"name": "disk", "disk": {"bus": "virtio"}}, {"name": "cloudinit", "disk": {"bus": "virtio"}}]
        return {
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {"runStrategy": "Always", "template": {
                "metadata": {"labels": self.labels, "annotations": self.annotations},
                "spec": {
                    "terminationGracePeriodSeconds": 30,
                    "readinessProbe": {"guestAgentPing": {}, "initialDelaySeconds": 2, "periodSeconds": 5,
                                       "failureThreshold": 30, "timeoutSeconds": 5},
                    "domain": {
                        "cpu": {"cores": 1}, "memory": {"guest": "256Mi"},
                        "resources": {"requests": {"memory": "256Mi", "cpu": "100m"}},
                        "firmware": {
                            "uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223",
                            "kernelBoot": {"kernelArgs": "console=ttyS0 dhcp", "container": {
                                "image": f"{REGISTRY}/guest-boot:1", "imagePullPolicy": "IfNotPresent",
                                "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd"}}},
                        "devices": {"disks": disks, "rng": {}, "interfaces": [
                            {"name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:01"}]}},
                    "networks": [{"name": "default", "pod": {}}],
                    "volumes": [
                        {"name": "disk", "containerDisk": {"image": f"{REGISTRY}/guest-disk:1", "imagePullPolicy": "IfNotPresent"}},
                        {"name": "cloudinit", "cloudInitNoCloud": {"userData": f"#cloud-config\nhostname: {self.name}\n"}}]}}}}

    def start(self):
        """Makes the VM and waits until its agent has answered the readiness probe."""
        self.cluster.apply(self.manifest())
        self.ready()
        return self

    def ready(self, seconds=SOON):
        def ready():
            vmi = self.vmi()
            conditions = self.conditions(vmi)
            if vmi and vmi.get("status", {}).get("phase") == "Failed":
                raise Failed(f"{self.name} has failed: {self.told()}")
            return vmi and conditions.get("AgentConnected") == "True" and conditions.get("Ready") == "True" and vmi
        return wait(f"{self.name} is ready", ready, seconds)

    def vmi(self):
        return self.cluster.get("vmi", self.name)

    @staticmethod
    def conditions(vmi):
        return {c["type"]: c["status"] for c in (vmi or {}).get("status", {}).get("conditions", [])}

    def pods(self):
        return self.cluster.items("pod", "-l", f"vm.kubevirt.io/name={self.name}")

    def pod(self):
        running = [pod for pod in self.pods() if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]
        if not running:
            raise Failed(f"{self.name} has no running pod")
        node = (self.vmi() or {}).get("status", {}).get("nodeName")
        return next((pod for pod in running if pod["spec"]["nodeName"] == node), running[0])

    def image(self):
        """The image of the launcher's container."""
        return next(c["image"] for c in self.pod()["spec"]["containers"] if c["name"] == "compute")

    def domain_xml(self):
        return self.in_compute("virsh", "dumpxml", f"default_{self.name}")

    def in_compute(self, *command, seconds=60):
        return self.cluster.kubectl("exec", self.pod()["metadata"]["name"], "-c", "compute", "--", *command, seconds=seconds)

    def log(self, container="compute", pod=None):
        return self.cluster.kubectl("logs", pod or self.pod()["metadata"]["name"], "-c", container, "--tail=-1", check=False)

    def events(self):
        """Events of the VMI and the VM: type, reason, message."""
        events = self.cluster.items("events", "--field-selector", f"involvedObject.name={self.name}")
        events.sort(key=lambda event: event.get("firstTimestamp") or event.get("eventTime") or "")
        return [(event["type"], event["reason"], event["message"]) for event in events]

    def told(self):
        """What the warnings say."""
        return "; ".join(f"{reason}: {message}" for kind, reason, message in self.events() if kind == "Warning")

    def event(self, reason, part, seconds=60):
        """Waits for an event; returns its message."""
        def found():
            return next((message for _, told, message in self.events() if told == reason and part in message), None)
        return wait(f"event {reason} of {self.name} with {part!r}", found, seconds)

    def describe(self):
        return self.cluster.kubectl("describe", "vmi", self.name, check=False)

    def guest(self, command, seconds=40):
        """Types a command on the guest's console, through virtctl; returns what the guest printed."""
        mark = f"END{time.monotonic_ns()}"
        primary, secondary = pty.openpty()
        process = subprocess.Popen([*self.cluster._enter(1), "virtctl", "console", self.name], env=self.cluster.environment,
                                   stdin=secondary, stdout=secondary, stderr=secondary, start_new_session=True)
        os.close(secondary)
        text, end = "", time.monotonic() + seconds
        # Typed again if a guest that is just starting has lost it.
        next_try = time.monotonic() + 3
        try:
            while time.monotonic() < end:
                if time.monotonic() > next_try:
                    os.write(primary, f"\n{command}; echo {mark[:3]}''{mark[3:]}\n".encode())
                    next_try = time.monotonic() + 8
                if select.select([primary], [], [], 0.5)[0]:
                    try:
                        text += os.read(primary, 1 << 16).decode(errors="replace")
                    except OSError:
                        break
                if mark in text:
                    lines = text[:text.index(mark)].replace("\r", "").split("\n")
                    return "\n".join(line for line in lines if "''" not in line)
        finally:
            process.terminate()
            process.wait(10)
            os.close(primary)
        raise Failed(f"the console of {self.name} did not answer {command!r} within {seconds} s: {text[-300:]!r}")

    def boot_id(self):
        found = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", self.guest("cat /proc/sys/kernel/random/boot_id"))
        if not found:
            raise Failed(f"the guest of {self.name} printed no boot ID")
        return found[0]

    def serial_log(self):
        """What the guest has printed since its start, of the lines for tests."""
        return [line.split("GUEST ", 1)[1].strip() for line in self.log("guest-console-log").splitlines() if "GUEST " in line]

    def kill_in_pod(self, program):
        """kill -9 of a program in the container `compute`."""
        container = next(c for c in self.pod()["status"]["containerStatuses"] if c["name"] == "compute")
        name = container["containerID"].rsplit("/", 1)[1]
        for processes in Path("/sys/fs/cgroup").glob(f"**/{name}/cgroup.procs"):
            for pid in processes.read_text().split():
                if Path(f"/proc/{pid}/comm").read_text().strip() == program[:15]:
                    os.kill(int(pid), 9)
                    return
        raise Failed(f"no process {program} in the pod of {self.name}")

    def migrate(self):
        """Migrates the VM; returns the node that it came to."""
        name = f"{self.name}-{time.monotonic_ns()}"
        self.cluster.apply({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
                            "metadata": {"name": name, "namespace": "default"}, "spec": {"vmiName": self.name}})

        def ended():
            phase = self.cluster.get("vmim", name).get("status", {}).get("phase")
            return phase if phase in ("Succeeded", "Failed") else None
        if wait(f"the migration of {self.name} has ended", ended) == "Failed":
            state = self.vmi()["status"].get("migrationState", {})
            raise Failed(f"the migration of {self.name} failed: {state.get('failureReason')}; {self.told()}")
        wait(f"{self.name} has arrived", lambda: self.vmi()["status"]["nodeName"] == self.vmi()["status"]["migrationState"]["targetNode"])
        return self.vmi()["status"]["nodeName"]

    def delete(self):
        self.cluster.delete("vm", self.name)
        wait(f"{self.name} has no pod any more", lambda: not self.pods())
