/* Recipes for processors, memory, disks, interfaces and firmware. */
#include "recipes.h"

bool pinning_and_numa(text vmi, text *domain) {
    /* Processors that the node keeps free for this VM: vCPU n runs on the nth of them. */
    text rest, processor;
    if (!vmi_annotation(vmi, "example.com/pin-to", &rest)) return true;
    for (size_t vcpu = 0; rest.length > 0; vcpu++) {
        if (!text_cut(rest, ",", &processor, &rest)) processor = rest, rest = text_of("");
        const char *path = path_join(text_of("domain/cputune/vcpupin[@vcpu='"), text_of_number(vcpu), text_of("']/@cpuset"));
        xml_set(domain, path, processor);
    }
    xml_set(domain, "domain/numatune/memory/@mode", text_of("strict"));
    xml_set(domain, "domain/numatune/memory/@nodeset", text_of("0"));
    return true;
}

bool huge_pages(text vmi, text *domain) {
    (void)vmi;
    xml_set(domain, "domain/memoryBacking/hugepages/page/@size", text_of("2"));
    xml_set(domain, "domain/memoryBacking/hugepages/page/@unit", text_of("M"));
    return true;
}

bool disk_queues_and_io_thread(text vmi, text *domain) {
    xml_set_if_absent(domain, "domain/iothreads", text_of("1"));
    for (xml_element at = {0}; xml_next(*domain, "domain/devices/disk[target/@bus='virtio']", &at);) {
        text disk = text_part(*domain, at.start, at.end);
        xml_set(&disk, "disk/driver/@queues", text_of_number(vmi_vcpus(vmi)));
        xml_set(&disk, "disk/driver/@iothread", text_of("1"));
        xml_replace(domain, &at, disk);
    }
    return true;
}

bool interface_queues(text vmi, text *domain) {
    text multiqueue, wanted, interface = {0}, name, model, prefix;
    size_t vcpus = vmi_vcpus(vmi);
    /* Otherwise the tap device has one queue, and QEMU cannot open a second one. */
    const char *const path_of_multiqueue[] = {"spec", "domain", "devices", "networkInterfaceMultiqueue", NULL};
    if (!json_find(vmi, path_of_multiqueue, &multiqueue) || !text_is(multiqueue, "true") || vcpus < 2) return true;
    if (!json_find(vmi, (const char *const[]){"spec", "domain", "devices", "interfaces", NULL}, &wanted)) return true;
    while (json_next(wanted, &interface)) {
        if (!json_find(interface, (const char *const[]){"name", NULL}, &name)) continue;
        text path = text_join(text_of("domain/devices/interface[alias/@name='ua-"), name, text_of("']"));
        if (!xml_value(*domain, path_join(path, text_of("/model/@type")), &model)) continue;
        if (!text_cut(model, "virtio", &prefix, &model) || prefix.length > 0) continue;
        xml_set(domain, path_join(path, text_of("/driver/@name")), text_of("vhost"));
        xml_set(domain, path_join(path, text_of("/driver/@queues")), text_of_number(vcpus < 8 ? vcpus : 8));
    }
    return true;
}

bool interface_model(text vmi, text *domain) {
    /* An old guest without virtio drivers. */
    (void)vmi;
    xml_element found;
    const char *interface = "domain/devices/interface[alias/@name='ua-default']";
    if (xml_find(*domain, interface, &found)) xml_set(domain, path_join(text_of(interface), text_of("/model/@type")), text_of("e1000e"));
    return true;
}

bool cpu_features(text vmi, text *domain) {
    (void)vmi;
    xml_set(domain, "domain/cpu/feature[@name='invtsc']/@policy", text_of("require"));
    xml_set(domain, "domain/cpu/feature[@name='hle']/@policy", text_of("disable"));
    return true;
}

bool hide_kvm(text vmi, text *domain) {
    (void)vmi;
    xml_set(domain, "domain/features/kvm/hidden/@state", text_of("on"));
    xml_set(domain, "domain/cpu/feature[@name='hypervisor']/@policy", text_of("disable"));
    return true;
}

#define BOARD "domain/sysinfo[@type='smbios']/baseBoard/entry"

bool board_serial_number(text vmi, text *domain) {
    text uid;
    if (!json_find(vmi, (const char *const[]){"metadata", "uid", NULL}, &uid)) return true;
    xml_set(domain, "domain/os/smbios/@mode", text_of("sysinfo"));
    xml_set(domain, BOARD "[@name='manufacturer']", text_of("Example Corp."));
    xml_set(domain, BOARD "[@name='serial']", uid);
    return true;
}

bool firmware_configuration(text vmi, text *domain) {
    /* The guest reads /sys/firmware/qemu_fw_cfg/by_name/opt/com.example/role/raw. */
    (void)vmi;
    xml_set(domain, "domain/sysinfo[@type='fwcfg']/entry[@name='opt/com.example/role']", text_of("database"));
    return true;
}

bool qemu_arguments(text vmi, text *domain) {
    (void)vmi;
    xml_set(domain, "domain/@xmlns:qemu", text_of("http://libvirt.org/schemas/domain/qemu/1.0"));
    xml_element found;
    const char *path = "domain/qemu:commandline/qemu:arg[@value='ICH9-LPC.disable_s3=1']";
    if (xml_find(*domain, path, &found)) return true;
    xml_insert(domain, "domain/qemu:commandline", text_of("<qemu:arg value='-global'/>"));
    xml_insert(domain, "domain/qemu:commandline", text_of("<qemu:arg value='ICH9-LPC.disable_s3=1'/>"));
    return true;
}

bool not_on_a_migration_target(text vmi, text *domain) {
    /* The guest that arrives keeps the devices that it left with. */
    (void)vmi;
    text reason;
    if (hook_invocation("reason", &reason) && text_is(reason, "migration-target")) return true;
    xml_insert_if_absent(domain, "domain/devices/input[@type='keyboard'][@bus='virtio']",
                         text_of("<input type='keyboard' bus='virtio'/>"));
    return true;
}

bool disk_limit_of_the_pod(text vmi, text *domain) {
    /* What a webhook or a scheduler has given to this pod. A migration's target has its own. */
    (void)vmi;
    text limit;
    pod_answer answer = pod_annotation("example.com/disk-iops", false, &limit);
    if (answer == POD_NONE) return true;
    if (answer != POD_FACT) return hook_fail(limit);
    for (xml_element at = {0}; xml_next(*domain, "domain/devices/disk", &at);) {
        text disk = text_part(*domain, at.start, at.end);
        xml_set(&disk, "disk/iotune/total_iops_sec", limit);
        xml_replace(domain, &at, disk);
    }
    return true;
}
