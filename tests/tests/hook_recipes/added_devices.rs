//! Recipes that add devices to the domain.

use hooks_sdk::{Context, Domain, Element, Result, Vmi, veto};

/// A number with this many hexadecimal digits, with or without 0x, as lsusb and lspci print it.
fn hex_number(text: &str, digits: usize) -> Option<String> {
    let number = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = number.len() == digits && number.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| number.to_ascii_lowercase())
}

pub(crate) fn usb_device(vmi: &Vmi, domain: &mut Domain) -> Result {
    // 046d:0825, as lsusb prints it.
    let Some(id) = vmi.annotation("example.com/usb") else {
        return Ok(());
    };
    let numbers = id
        .split_once(':')
        .and_then(|(vendor, product)| hex_number(vendor, 4).zip(hex_number(product, 4)));
    let Some((vendor, product)) = numbers else {
        return Err(veto(format!(
            "the annotation example.com/usb is VENDOR:PRODUCT, each of four hexadecimal digits, \
             such as 046d:0825, and not {id}"
        )));
    };
    let source = format!("hostdev/source[vendor/@id='0x{vendor}'][product/@id='0x{product}']");
    let devices = domain.devices_mut();
    if devices.find(&source)?.is_none() {
        devices.append(Element::parse(&format!(
            "<hostdev mode='subsystem' type='usb' managed='no'>
               <source><vendor id='0x{vendor}'/><product id='0x{product}'/></source>
               <alias name='ua-usb-{vendor}-{product}'/>
             </hostdev>"
        ))?);
    }
    // The guest needs a controller; KubeVirt writes one without ports if nothing uses USB.
    domain.set("devices/controller[@type='usb']/@model", "qemu-xhci")?;
    Ok(())
}

pub(crate) fn pci_device(vmi: &Vmi, domain: &mut Domain) -> Result {
    // 0000:3b:00.0, as lspci -D prints it.
    let Some(address) = vmi.annotation("example.com/pci") else {
        return Ok(());
    };
    let parts: Vec<&str> = address.split([':', '.']).collect();
    let numbers = parts.iter().zip([4, 2, 2, 1]);
    let numbers: Vec<String> = numbers
        .filter_map(|(part, digits)| hex_number(part, digits))
        .collect();
    let ([host_domain, bus, slot, function], 4) = (&numbers[..], parts.len()) else {
        return Err(veto(format!(
            "the annotation example.com/pci is DOMAIN:BUS:SLOT.FUNCTION, of four, two, two and one \
             hexadecimal digits, such as 0000:3b:00.0, and not {address}"
        )));
    };
    let path = format!(
        "devices/hostdev/source/address[@domain='0x{host_domain}'][@bus='0x{bus}'][@slot='0x{slot}'][@function='0x{function}']"
    );
    if domain.find(&path)?.is_none() {
        domain.devices_mut().append(Element::parse(&format!(
            "<hostdev mode='subsystem' type='pci' managed='no'>
               <source>
                 <address domain='0x{host_domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/>
               </source>
               <alias name='ua-pci-{bus}-{slot}-{function}'/>
             </hostdev>"
        ))?);
    }
    Ok(())
}

pub(crate) fn vgpu_display(vmi: &Vmi, domain: &mut Domain) -> Result {
    // The vGPU that the VMI asks for becomes the guest's display.
    let Some(gpu) = vmi.gpus().next() else {
        return Ok(());
    };
    let Some(device) = domain.host_device_mut(gpu.name()) else {
        return Ok(());
    };
    device.set("@display", "on")?;
    device.set("@ramfb", "on")?;
    // A VM without a display of its own has no <video>.
    if let Some(model) = domain.find_mut("devices/video/model")? {
        model.set_attr("type", "none");
        model.remove_attr("heads");
        model.remove_attr("vram");
    }
    Ok(())
}

pub(crate) fn shared_memory(vmi: &Vmi, domain: &mut Domain) -> Result {
    // Memory that guests on one node share (ivshmem). Its name is a file in the node's /dev/shm.
    let Some(name) = vmi.annotation("example.com/shared-memory") else {
        return Ok(());
    };
    domain.insert_if_absent(&format!("devices/shmem[@name='{name}']"), || {
        Element::new("shmem")
            .with_attr("name", name)
            .with_child(Element::new("model").with_attr("type", "ivshmem-plain"))
            .with_child(Element::new("size").with_attr("unit", "M").with_text("4"))
    })?;
    Ok(())
}

pub(crate) fn watchdog(_vmi: &Vmi, domain: &mut Domain) -> Result {
    domain.insert_if_absent("devices/watchdog[@model='i6300esb']", || {
        Element::new("watchdog")
            .with_attr("model", "i6300esb")
            .with_attr("action", "reset")
    })?;
    Ok(())
}

pub(crate) fn tpm(_vmi: &Vmi, domain: &mut Domain) -> Result {
    domain.insert_if_absent("devices/tpm[backend/@type='emulator']", || {
        let backend = Element::new("backend")
            .with_attr("type", "emulator")
            .with_attr("version", "2.0");
        Element::new("tpm")
            .with_attr("model", "tpm-crb")
            .with_child(backend)
    })?;
    Ok(())
}

pub(crate) fn second_serial_port(_vmi: &Vmi, domain: &mut Domain) -> Result {
    // A second port, which nobody reads yet: `virsh console --devname` or a channel of yours can.
    domain.insert_if_absent("devices/serial[target/@port='1']", || {
        let target = Element::new("target").with_attr("port", "1");
        Element::new("serial")
            .with_attr("type", "null")
            .with_child(target)
    })?;
    Ok(())
}

pub(crate) fn vnc_keymap(_vmi: &Vmi, domain: &mut Domain) -> Result {
    let graphics = domain.find_mut("devices/graphics[@type='vnc']")?;
    let graphics = graphics.context("the domain has no VNC display")?;
    graphics.set("@keymap", "de")?;
    Ok(())
}
