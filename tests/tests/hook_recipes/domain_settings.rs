//! Recipes that change settings of the domain: processors, memory, disks, interfaces, firmware and QEMU arguments.

use hooks_sdk::{Domain, Element, Result, Vmi, pod};

pub(crate) fn pinning_and_numa(vmi: &Vmi, domain: &mut Domain) -> Result {
    // Processors that the node keeps free for this VM: vCPU n runs on the nth of them.
    let Some(processors) = vmi.annotation("example.com/pin-to") else {
        return Ok(());
    };
    for (vcpu, processor) in processors.split(',').enumerate() {
        let path = format!("cputune/vcpupin[@vcpu='{vcpu}']");
        domain.ensure(&path)?.set_attr("cpuset", processor);
    }
    let memory = domain.ensure("numatune/memory")?;
    memory.set_attr("mode", "strict").set_attr("nodeset", "0");
    Ok(())
}

pub(crate) fn huge_pages(_vmi: &Vmi, domain: &mut Domain) -> Result {
    let page = domain.ensure("memoryBacking/hugepages/page")?;
    page.set_attr("size", "2").set_attr("unit", "M");
    Ok(())
}

pub(crate) fn disk_queues_and_io_thread(vmi: &Vmi, domain: &mut Domain) -> Result {
    let queues = vmi.vcpus().to_string();
    domain.set_if_absent("iothreads", "1")?;
    for disk in domain.devices_of_mut("disk") {
        if disk.value("target/@bus")?.as_deref() == Some("virtio") {
            let driver = disk.ensure("driver")?;
            driver.set_attr("queues", &queues).set_attr("iothread", "1");
        }
    }
    Ok(())
}

pub(crate) fn interface_queues(vmi: &Vmi, domain: &mut Domain) -> Result {
    // Otherwise the tap device has one queue, and QEMU cannot open a second one.
    let multiqueue = vmi.get("spec.domain.devices.networkInterfaceMultiqueue");
    let is_multiqueue = multiqueue.is_some_and(|value| value.as_bool() == Some(true));
    if !is_multiqueue || vmi.vcpus() < 2 {
        return Ok(());
    }
    let queues = vmi.vcpus().min(8).to_string();
    for wanted in vmi.interfaces() {
        let Some(interface) = domain.interface_mut(wanted.name()) else {
            continue;
        };
        if interface
            .value("model/@type")?
            .is_some_and(|model| model.starts_with("virtio"))
        {
            let driver = interface.ensure("driver")?;
            driver.set_attr("name", "vhost").set_attr("queues", &queues);
        }
    }
    Ok(())
}

pub(crate) fn interface_model(_vmi: &Vmi, domain: &mut Domain) -> Result {
    // An old guest without virtio drivers.
    if let Some(interface) = domain.interface_mut("default") {
        interface.set("model/@type", "e1000e")?;
    }
    Ok(())
}

pub(crate) fn cpu_features(_vmi: &Vmi, domain: &mut Domain) -> Result {
    for (feature, policy) in [("invtsc", "require"), ("hle", "disable")] {
        let path = format!("cpu/feature[@name='{feature}']");
        domain.ensure(&path)?.set_attr("policy", policy);
    }
    Ok(())
}

pub(crate) fn hide_kvm(_vmi: &Vmi, domain: &mut Domain) -> Result {
    domain.set("features/kvm/hidden/@state", "on")?;
    domain.set("cpu/feature[@name='hypervisor']/@policy", "disable")?;
    Ok(())
}

pub(crate) fn board_serial_number(vmi: &Vmi, domain: &mut Domain) -> Result {
    domain.set("os/smbios/@mode", "sysinfo")?;
    let board = "sysinfo[@type='smbios']/baseBoard/entry";
    domain.set(&format!("{board}[@name='manufacturer']"), "Example Corp.")?;
    domain.set(&format!("{board}[@name='serial']"), vmi.uid())?;
    Ok(())
}

pub(crate) fn firmware_configuration(_vmi: &Vmi, domain: &mut Domain) -> Result {
    // The guest reads /sys/firmware/qemu_fw_cfg/by_name/opt/com.example/role/raw.
    let entry = "sysinfo[@type='fwcfg']/entry[@name='opt/com.example/role']";
    domain.set(entry, "database")?;
    Ok(())
}

pub(crate) fn qemu_arguments(_vmi: &Vmi, domain: &mut Domain) -> Result {
    domain.add_qemu_args(["-global", "ICH9-LPC.disable_s3=1"]);
    Ok(())
}

pub(crate) fn not_on_a_migration_target(_vmi: &Vmi, domain: &mut Domain) -> Result {
    // The guest that arrives keeps the devices that it left with.
    if hooks_sdk::host::reason() == hooks_sdk::host::Reason::MigrationTarget {
        return Ok(());
    }
    domain.insert_if_absent("devices/input[@type='keyboard'][@bus='virtio']", || {
        Element::new("input")
            .with_attr("type", "keyboard")
            .with_attr("bus", "virtio")
    })?;
    Ok(())
}

pub(crate) fn disk_limit_of_the_pod(_vmi: &Vmi, domain: &mut Domain) -> Result {
    // What a webhook or a scheduler has given to this pod. A migration's target has its own.
    let Some(limit) = pod::annotation_if_set("example.com/disk-iops")? else {
        return Ok(());
    };
    for disk in domain.devices_of_mut("disk") {
        disk.set("iotune/total_iops_sec", &limit)?;
    }
    Ok(())
}
