//! Device aliases, which name disks and interfaces in KubeVirt's statistics.

use std::collections::BTreeMap;

use domain::libvirt_spec::Alias;
use domain_xml::Document;

/// Device aliases by the device's target name (`tap0`, `vda`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeviceAliases(BTreeMap<String, String>);

impl DeviceAliases {
    /// Reads the aliases from the running domain's XML; none if it cannot be parsed.
    pub(crate) fn from_xml(active_xml: &str) -> DeviceAliases {
        let Ok(document) = Document::parse(active_xml) else {
            return DeviceAliases::default();
        };
        let devices = document.root().child("devices");
        let devices = devices.into_iter().flat_map(domain_xml::Element::children);
        let aliases = devices
            .filter(|device| device.is("interface") || device.is("disk"))
            .filter_map(|device| {
                let target = device.child("target")?.attr("dev")?.into_owned();
                let alias = device.child("alias")?.attr("name")?.into_owned();
                let alias = Alias::name_in(&alias).to_owned();
                Some((target, alias))
            });
        DeviceAliases(aliases.collect())
    }

    pub(super) fn get(&self, target: Option<&str>) -> Option<&str> {
        self.0.get(target?).map(String::as_str)
    }
}
