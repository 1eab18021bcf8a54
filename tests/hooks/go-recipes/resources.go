package main

import (
	"strconv"
	"strings"

	"virt-hook/hooks"
)

// Recipes for processors, memory, disks, interfaces and firmware.

func pinningAndNUMA(vmi *hooks.VMI, domain *hooks.Domain) error {
	// Processors that the node keeps free for this VM: vCPU n runs on the nth of them.
	processors, ok := vmi.Annotation("example.com/pin-to")
	if !ok {
		return nil
	}
	for vcpu, processor := range strings.Split(processors, ",") {
		domain.Set("cputune/vcpupin[@vcpu='"+strconv.Itoa(vcpu)+"']/@cpuset", processor)
	}
	domain.Ensure("numatune/memory").SetAttr("mode", "strict").SetAttr("nodeset", "0")
	return nil
}

func hugePages(_ *hooks.VMI, domain *hooks.Domain) error {
	domain.Ensure("memoryBacking/hugepages/page").SetAttr("size", "2").SetAttr("unit", "M")
	return nil
}

func diskQueuesAndIOThread(vmi *hooks.VMI, domain *hooks.Domain) error {
	domain.SetIfAbsent("iothreads", "1")
	for _, disk := range domain.FindAll("devices/disk[target/@bus='virtio']") {
		disk.Ensure("driver").SetAttr("queues", strconv.Itoa(vmi.VCPUs())).SetAttr("iothread", "1")
	}
	return nil
}

func interfaceQueues(vmi *hooks.VMI, domain *hooks.Domain) error {
	// Otherwise the tap device has one queue, and QEMU cannot open a second one.
	if !vmi.Get("spec.domain.devices.networkInterfaceMultiqueue").IsTrue() || vmi.VCPUs() < 2 {
		return nil
	}
	queues := strconv.Itoa(min(vmi.VCPUs(), 8))
	for _, wanted := range vmi.Interfaces() {
		device := domain.Interface(wanted.Name())
		if model, _ := device.Value("model/@type"); !strings.HasPrefix(model, "virtio") {
			continue
		}
		device.Ensure("driver").SetAttr("name", "vhost").SetAttr("queues", queues)
	}
	return nil
}

func interfaceModel(_ *hooks.VMI, domain *hooks.Domain) error {
	// An old guest without virtio drivers.
	if device := domain.Interface("default"); device != nil {
		device.Set("model/@type", "e1000e")
	}
	return nil
}

func cpuFeatures(_ *hooks.VMI, domain *hooks.Domain) error {
	domain.Set("cpu/feature[@name='invtsc']/@policy", "require")
	domain.Set("cpu/feature[@name='hle']/@policy", "disable")
	return nil
}

func hideKVM(_ *hooks.VMI, domain *hooks.Domain) error {
	domain.Set("features/kvm/hidden/@state", "on")
	domain.Set("cpu/feature[@name='hypervisor']/@policy", "disable")
	return nil
}

func boardSerialNumber(vmi *hooks.VMI, domain *hooks.Domain) error {
	domain.Set("os/smbios/@mode", "sysinfo")
	const board = "sysinfo[@type='smbios']/baseBoard/entry"
	domain.Set(board+"[@name='manufacturer']", "Example Corp.")
	domain.Set(board+"[@name='serial']", vmi.UID())
	return nil
}

func firmwareConfiguration(_ *hooks.VMI, domain *hooks.Domain) error {
	// The guest reads /sys/firmware/qemu_fw_cfg/by_name/opt/com.example/role/raw.
	domain.Set("sysinfo[@type='fwcfg']/entry[@name='opt/com.example/role']", "database")
	return nil
}

func qemuArguments(_ *hooks.VMI, domain *hooks.Domain) error {
	domain.AddQEMUArgs("-global", "ICH9-LPC.disable_s3=1")
	return nil
}

func notOnAMigrationTarget(_ *hooks.VMI, domain *hooks.Domain) error {
	// The guest that arrives keeps the devices that it left with.
	if reason, _ := hooks.Invocation("reason"); reason == "migration-target" {
		return nil
	}
	keyboard := hooks.NewElement("input").SetAttr("type", "keyboard").SetAttr("bus", "virtio")
	domain.InsertIfAbsent("devices/input[@type='keyboard'][@bus='virtio']", keyboard)
	return nil
}

func diskLimitOfThePod(_ *hooks.VMI, domain *hooks.Domain) error {
	// What a webhook or a scheduler has given to this pod. A migration's target has its own.
	limit, ok, err := hooks.PodAnnotationIfSet("example.com/disk-iops")
	if err != nil || !ok {
		return err
	}
	for _, disk := range domain.FindAll("devices/disk") {
		disk.Set("iotune/total_iops_sec", limit)
	}
	return nil
}
