"""Recipes for processors, memory, disks, interfaces and firmware."""

from virt_hook import Element, invocation, pod


def pinning_and_numa(vmi, domain):
    # Processors that the node keeps free for this VM: vCPU n runs on the nth of them.
    processors = vmi.annotation("example.com/pin-to")
    if processors is None:
        return
    for vcpu, processor in enumerate(processors.split(",")):
        domain.set(f"cputune/vcpupin[@vcpu='{vcpu}']/@cpuset", processor)
    domain.ensure("numatune/memory").set_attr("mode", "strict").set_attr("nodeset", "0")


def huge_pages(vmi, domain):
    domain.ensure("memoryBacking/hugepages/page").set_attr("size", "2").set_attr("unit", "M")


def disk_queues_and_io_thread(vmi, domain):
    domain.set_if_absent("iothreads", 1)
    for disk in domain.devices_of("disk"):
        if disk.value("target/@bus") == "virtio":
            disk.ensure("driver").set_attr("queues", vmi.vcpus).set_attr("iothread", 1)


def interface_queues(vmi, domain):
    # Otherwise the tap device has one queue, and QEMU cannot open a second one.
    if not vmi.get_path("spec.domain.devices.networkInterfaceMultiqueue") or vmi.vcpus < 2:
        return
    for wanted in vmi.interfaces:
        interface = domain.interface(wanted["name"])
        if interface is not None and (interface.value("model/@type") or "").startswith("virtio"):
            driver = interface.ensure("driver")
            driver.set_attr("name", "vhost").set_attr("queues", min(vmi.vcpus, 8))


def interface_model(vmi, domain):
    # An old guest without virtio drivers.
    interface = domain.interface("default")
    if interface is not None:
        interface.set("model/@type", "e1000e")


def cpu_features(vmi, domain):
    for feature, policy in [("invtsc", "require"), ("hle", "disable")]:
        domain.set(f"cpu/feature[@name='{feature}']/@policy", policy)


def hide_kvm(vmi, domain):
    domain.set("features/kvm/hidden/@state", "on")
    domain.set("cpu/feature[@name='hypervisor']/@policy", "disable")


def board_serial_number(vmi, domain):
    domain.set("os/smbios/@mode", "sysinfo")
    board = "sysinfo[@type='smbios']/baseBoard/entry"
    domain.set(f"{board}[@name='manufacturer']", "Example Corp.")
    domain.set(f"{board}[@name='serial']", vmi.uid)


def firmware_configuration(vmi, domain):
    # The guest reads /sys/firmware/qemu_fw_cfg/by_name/opt/com.example/role/raw.
    domain.set("sysinfo[@type='fwcfg']/entry[@name='opt/com.example/role']", "database")


def qemu_arguments(vmi, domain):
    domain.add_qemu_args("-global", "ICH9-LPC.disable_s3=1")


def not_on_a_migration_target(vmi, domain):
    # The guest that arrives keeps the devices that it left with.
    if invocation("reason") == "migration-target":
        return
    keyboard = Element("input", {"type": "keyboard", "bus": "virtio"})
    domain.insert_if_absent("devices/input[@type='keyboard'][@bus='virtio']", keyboard)


def disk_limit_of_the_pod(vmi, domain):
    # What a webhook or a scheduler has given to this pod. A migration's target has its own.
    limit = pod.annotation("example.com/disk-iops", wait=False)
    if limit is not None:
        for disk in domain.devices_of("disk"):
            disk.set("iotune/total_iops_sec", limit)
