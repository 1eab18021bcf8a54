//! The display of the firmware: a host device with `ramfb` shows it until the guest's driver takes over.

use crate::libvirt_spec::DomainSpec;

const ON: &str = "on";

/// Leaves `ramfb` to the first display that has it, since QEMU has one and does not start with more. The converted
/// domain has it for each display, as KubeVirt's. Returns the names of the devices that it was taken from; their
/// displays work once the guest's driver runs.
pub fn keep_one_ramfb(spec: &mut DomainSpec) -> Vec<String> {
    let devices = spec.devices.host_devices.iter_mut();
    let others = devices.filter(|device| device.ramfb == ON).skip(1);
    others
        .map(|device| {
            device.ramfb.clear();
            let alias = device.alias.as_ref();
            alias.map_or_else(String::new, |alias| alias.name.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain_spec_from_xml::parse;
    use crate::domain_spec_to_xml::render;

    #[test]
    fn only_the_first_display_of_several_has_ramfb() {
        let device = |name: &str, attributes: &str| {
            format!(
                "<hostdev type=\"mdev\" mode=\"subsystem\" model=\"vfio-pci\" {attributes}>\
                 <source><address uuid=\"{name}\"/></source><alias name=\"ua-gpu-{name}\"/></hostdev>"
            )
        };
        let domain = |devices: &str| {
            parse(&format!("<domain><devices>{devices}</devices></domain>")).unwrap()
        };
        let (ramfb, display) = ("display=\"on\" ramfb=\"on\"", "display=\"on\"");
        let before = device("a", display) + &device("b", ramfb) + &device("c", ramfb);
        let mut spec = domain(&before);
        assert_eq!(keep_one_ramfb(&mut spec), ["gpu-c"]);
        let after = device("a", display) + &device("b", ramfb) + &device("c", display);
        assert_eq!(render(&spec), render(&domain(&after)));
        assert_eq!(keep_one_ramfb(&mut spec), [""; 0]);
    }
}
