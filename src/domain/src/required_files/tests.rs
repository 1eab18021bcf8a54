//! The required files of each kind of volume, and errors of sizes and paths.
mod tracking_images;

use kubevirt_api::virtual_machine_options::Options;

use super::error::MIB;
use super::*;
use crate::cloud_init::DataSource;
use crate::host_facts::HostFacts;

const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"ns","uid":"u"},"spec":{
    "domain":{"machine":{"type":"q35"},"memory":{"guest":"128Mi"},
      "firmware":{"kernelBoot":{"container":{"image":"i","kernelPath":"/boot/vmlinuz","initrdPath":"/boot/initrd"}}},
      "devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}},{"name":"empty","disk":{"bus":"virtio"}},
        {"name":"ci","disk":{"bus":"virtio"}}]}},
    "volumes":[{"name":"root","containerDisk":{"image":"i"}},{"name":"empty","emptyDisk":{"capacity":"1500k"}},
      {"name":"ci","cloudInitConfigDrive":{"userData":"x"}},{"name":"unused","emptyDisk":{"capacity":"1Gi"}}]}}"#;

fn files(vmi: &str) -> Result<Vec<RequiredFile>, RequiredFileError> {
    let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
    let spec = crate::convert::convert(&vmi, &Options::default(), &HostFacts::default()).unwrap();
    required_files(Purpose::Boot, &vmi, &spec, &HostFacts::default())
}

#[test]
fn each_kind_of_volume_has_its_required_file() {
    let disks = "/var/run/kubevirt-ephemeral-disks";
    let images = "/var/run/kubevirt/container-disks";
    let expected = [
        RequiredFile::Overlay {
            volume: "root".into(),
            path: format!("{disks}/disk-data/root/disk.qcow2"),
            backing: format!("{images}/disk_0.img"),
            format: "qcow2".into(),
        },
        RequiredFile::EmptyDisk {
            volume: "empty".into(),
            path: "/var/run/libvirt/empty-disks/empty.qcow2".into(),
            bytes: MIB,
        },
        RequiredFile::CloudInitIso {
            volume: "ci".into(),
            path: format!("{disks}/cloud-init-data/ns/vm/configdrive.iso"),
            data_source: DataSource::ConfigDrive,
            min_bytes: 0,
        },
        RequiredFile::KernelBoot {
            artifacts: ["vmlinuz", "initrd"]
                .map(|name| format!("{images}/kernel-boot/{name}"))
                .to_vec(),
        },
    ];
    assert_eq!(files(VMI).unwrap(), expected);
}

#[test]
fn invalid_sizes_and_paths_are_errors() {
    let error = files(&VMI.replace("1500k", "1000k")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the size for volume empty is too low: 1000000 bytes"),
        "{error}"
    );
    for path in ["relative", "/disks/../etc/passwd", "/nul\0"] {
        let error = path_check::check_path("empty", path).unwrap_err();
        assert!(
            matches!(error, RequiredFileError::Escapes { .. }),
            "{error}"
        );
    }
    let error = files(&VMI.replace(r#""capacity":"1500k""#, "")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "volume empty: an emptyDisk needs a capacity"
    );
}

const VMI_WITH_CONFIGURATION: &str = r#"{"metadata":{"name":"vm","namespace":"ns","uid":"u",
    "annotations":{"kubevirt.io/ignitiondata":"{\"ignition\":{}}"}},"spec":{
    "domain":{"machine":{"type":"q35"},"memory":{"guest":"128Mi"},"devices":{"disks":[
      {"name":"cm","cdrom":{"bus":"sata"}},{"name":"secret","disk":{"bus":"virtio"}},
      {"name":"api","disk":{"bus":"virtio"}},{"name":"sa","disk":{"bus":"virtio"}},
      {"name":"sysprep","cdrom":{"bus":"sata"}},{"name":"metrics","disk":{"bus":"virtio"}},
      {"name":"host","disk":{"bus":"virtio"}}]}},
    "volumes":[{"name":"cm","configMap":{"name":"x","volumeLabel":"mine"}},{"name":"secret","secret":{"secretName":"s"}},
      {"name":"api","downwardAPI":{}},{"name":"sa","serviceAccount":{"serviceAccountName":"default"}},
      {"name":"sysprep","sysprep":{"secret":{"name":"x"}}},{"name":"metrics","downwardMetrics":{}},
      {"name":"host","hostDisk":{"path":"/data/disk.img","type":"DiskOrCreate","capacity":"1500k"}}]}}"#;

#[test]
fn configuration_volumes_and_ignition_have_required_files() {
    let private = "/var/run/kubevirt-private";
    let iso = |volume: &str, kind, directory: &str, image: &str, label: &str| {
        RequiredFile::ConfigIso(ConfigIso {
            volume: volume.into(),
            kind,
            directory: directory.into(),
            path: format!("{private}/{image}"),
            label: label.into(),
            min_bytes: 0,
        })
    };
    let expected = [
        iso(
            "cm",
            ConfigKind::ConfigMap,
            &format!("{private}/config-map/cm"),
            "config-map-disks/cm.iso",
            "mine",
        ),
        iso(
            "secret",
            ConfigKind::Secret,
            &format!("{private}/secret/secret"),
            "secret-disks/secret.iso",
            "cfgdata",
        ),
        iso(
            "api",
            ConfigKind::DownwardApi,
            &format!("{private}/downwardapi/api"),
            "downwardapi-disks/api.iso",
            "cfgdata",
        ),
        iso(
            "sa",
            ConfigKind::ServiceAccount,
            "/var/run/secrets/kubernetes.io/serviceaccount",
            "service-account-disk/service-account.iso",
            "cfgdata",
        ),
        iso(
            "sysprep",
            ConfigKind::Sysprep,
            &format!("{private}/sysprep/sysprep"),
            "sysprep-disks/sysprep.iso",
            "unattendCD",
        ),
        RequiredFile::DownwardMetrics {
            volume: "metrics".into(),
            path: format!("{private}/downwardapi-disks/vhostmd0"),
        },
        RequiredFile::HostDisk {
            volume: "host".into(),
            path: format!("{private}/vmi-disks/host/disk.img"),
            bytes: MIB,
        },
        RequiredFile::Ignition {
            path: "/var/run/kubevirt-ephemeral-disks/ignition-data/ns/vm/data.ign".into(),
            content: r#"{"ignition":{}}"#.into(),
        },
    ];
    assert_eq!(files(VMI_WITH_CONFIGURATION).unwrap(), expected);
    let empty_sysprep =
        VMI_WITH_CONFIGURATION.replace(r#""sysprep":{"secret":{"name":"x"}}"#, r#""sysprep":{}"#);
    let error = files(&empty_sysprep).unwrap_err();
    assert!(
        matches!(error, RequiredFileError::NoSysprepSource { .. }),
        "{error}"
    );
    let invalid_ignition = VMI_WITH_CONFIGURATION.replace(r#"{\"ignition\":{}}"#, "x");
    let without_ignition = files(&invalid_ignition).unwrap();
    assert_eq!(
        without_ignition.len(),
        expected.len() - 1,
        "{without_ignition:?}"
    );
}

#[test]
fn images_of_a_migration_target_have_at_least_the_size_of_the_sources() {
    let target = |vmi: &str| {
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let spec =
            crate::convert::convert(&vmi, &Options::default(), &HostFacts::default()).unwrap();
        required_files(Purpose::MigrationTarget, &vmi, &spec, &HostFacts::default())
    };
    let error = target(VMI_WITH_CONFIGURATION).unwrap_err();
    assert_eq!(error.to_string(), "failed to find the status of volume cm");
    let status = |name: &str| format!(r#"{{"name":"{name}","target":"","size":2097152}}"#);
    let statuses = ["cm", "secret", "api", "sa", "sysprep", "metrics", "host"].map(status);
    let statuses = format!(
        r#"}},"status":{{"volumeStatus":[{}]}}}}"#,
        statuses.join(",")
    );
    let with_sizes = format!(
        "{}{statuses}",
        VMI_WITH_CONFIGURATION.strip_suffix("}}").unwrap()
    );
    let sizes: Vec<u64> = target(&with_sizes)
        .unwrap()
        .into_iter()
        .filter_map(|file| match file {
            RequiredFile::ConfigIso(iso) => Some(iso.min_bytes),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [2 << 20; 5]);
}
