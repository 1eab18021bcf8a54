//! Edits the XML of the incoming domain on the target: CPUs, file paths, taps and vGPU of the target's pod.

use domain_xml::Document;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use super::error::MigrationXmlError;
use super::target_cpu_placement::TargetCpuPlacement;
use super::{decentralized_target_paths, taps_and_vgpus_on_target};
use crate::convert::migrated_vgpu;
use crate::host_facts::HostFacts;

/// Edits that depend on flags of the launcher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IncomingEdits {
    /// Whether numbered tap devices are renamed after their networks (`--upgrade-ordinal-ifaces`).
    pub renames_ordinal_taps: bool,
    /// Whether the vGPU is replaced by this pod's mediated device (`--vgpu-dedicated-hook`).
    pub replaces_vgpu: bool,
}

/// The incoming domain with this pod's CPUs (for a VM with dedicated CPUs), with the paths of this cluster's files, and
/// with `edits`. Used if the source does not make these edits (`--libvirt-hook-server-and-client`).
///
/// # Errors
/// [`MigrationXmlError`] if the XML is invalid, or this pod has too few CPUs, networks or vGPUs.
pub fn incoming_xml(
    xml: String,
    vmi: &Vmi,
    options: &Options,
    host: &HostFacts,
    edits: IncomingEdits,
) -> Result<String, MigrationXmlError> {
    let mut document =
        Document::parse_string(xml).map_err(crate::domain_spec_from_xml::ParseError::from)?;
    decentralized_target_paths::rewrite_disk_paths(&mut document, vmi);
    if let Some(cpu_placement) = TargetCpuPlacement::in_this_pod(vmi, options, host)? {
        cpu_placement.apply(&mut document);
    }
    if edits.renames_ordinal_taps {
        taps_and_vgpus_on_target::rename_ordinal_taps(&mut document, vmi)?;
    }
    if edits.replaces_vgpu
        && let Some(vgpu) = migrated_vgpu(vmi, options, host).map_err(MigrationXmlError::Device)?
    {
        taps_and_vgpus_on_target::replace_vgpu(&mut document, &vgpu)?;
    }
    Ok(document.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = "<domain><vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='1'/></cputune>\
        <devices><disk type='file'><source file='/data/default/vm1/a.iso'/></disk></devices></domain>";

    #[test]
    fn pins_are_those_of_this_pod_and_paths_those_of_this_namespace() {
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"other","uid":"u"},"spec":{"architecture":"amd64","domain":{
            "machine":{"type":"q35"},"memory":{"guest":"128Mi"},"cpu":{"cores":1,"dedicatedCpuPlacement":true}}},
            "status":{"migrationState":{"sourceState":{"domainName":"vm1","domainNamespace":"default"},
            "targetState":{"domainName":"vm1","domainNamespace":"other"}}}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let host = HostFacts {
            cpuset: vec![7],
            ..HostFacts::default()
        };
        let topology = r#"{"numa_cells":[{"id":0,"cpus":[{"id":7,"siblings":[7]}]}]}"#;
        let options = Options {
            topology: Some(serde_json::from_str(topology).unwrap()),
            ..Options::default()
        };
        let xml = incoming_xml(
            DOMAIN.into(),
            &vmi,
            &options,
            &host,
            IncomingEdits::default(),
        )
        .unwrap();
        assert!(xml.contains("/data/other/vm1/a.iso"), "{xml}");
        assert!(
            xml.contains("cpuset=\"7\"") || xml.contains("cpuset='7'"),
            "{xml}"
        );
        assert!(!xml.contains("cpuset='1'"), "{xml}");
    }

    #[test]
    fn domain_of_a_plain_migration_is_not_changed() {
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"default","uid":"u"}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let facts = HostFacts::default();
        let options = Options::default();
        let edits = IncomingEdits {
            renames_ordinal_taps: true,
            replaces_vgpu: true,
        };
        let edited = |xml: &str| incoming_xml(xml.into(), &vmi, &options, &facts, edits);
        assert_eq!(edited(DOMAIN).unwrap(), DOMAIN);
        assert!(edited("<domain").is_err());
    }

    #[test]
    fn vgpu_is_replaced_by_the_device_of_this_pods_plugin() {
        const VGPU: &str = "<domain><devices><hostdev type='mdev'><source><address uuid='there'/></source></hostdev>\
            </devices></domain>";
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"default"},"spec":{"architecture":"amd64","domain":{
            "devices":{"gpus":[{"name":"gpu","deviceName":"example.com/vgpu"}]}}}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let host = HostFacts {
            device_plugins: [("MDEV_PCI_RESOURCE_EXAMPLE_COM_VGPU".into(), "here".into())].into(),
            ..HostFacts::default()
        };
        let cluster = r#"{"clusterConfig":{"VGPULiveMigrationEnabled":true}}"#;
        let options: Options = serde_json::from_str(cluster).unwrap();
        let edited = |replaces_vgpu| {
            let edits = IncomingEdits {
                replaces_vgpu,
                ..IncomingEdits::default()
            };
            incoming_xml(VGPU.into(), &vmi, &options, &host, edits).unwrap()
        };
        assert_eq!(edited(false), VGPU);
        assert_eq!(edited(true), VGPU.replace("there", "here"));
    }
}
