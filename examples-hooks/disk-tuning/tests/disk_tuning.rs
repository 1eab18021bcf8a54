//! Tests of the hook `disk-tuning`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use disk_tuning_hook::DiskTuning;
use hooks_sdk_testing::Hook;

const DOMAIN: &str = "<domain type='kvm'>
  <devices>
    <disk type='file' device='disk'>
      <target dev='vda' bus='virtio'/>
      <driver name='qemu' type='qcow2' cache='none'/>
    </disk>
    <disk type='file' device='cdrom'>
      <target dev='sda' bus='sata'/>
      <driver name='qemu' type='raw'/>
    </disk>
    <disk type='block' device='disk'>
      <target dev='vdb' bus='virtio'/>
      <driver name='qemu' type='raw'/>
    </disk>
  </devices>
</domain>
";

fn vmi(annotations: &[(&str, &str)]) -> String {
    let annotations: std::collections::BTreeMap<String, &str> = annotations
        .iter()
        .map(|(name, value)| (format!("disk-tuning.example.com/{name}"), *value))
        .collect();
    hooks_sdk::json!({"metadata": {"annotations": annotations},
        "spec": {"domain": {"cpu": {"cores": 2, "sockets": 3}}}})
    .to_string()
}

#[hooks_sdk_testing::test(DiskTuning)]
fn only_virtio_disks_are_tuned(hook: Hook) {
    let vmi = vmi(&[
        ("queues", "vcpus"),
        ("cache", "writeback"),
        ("io-threads", "2"),
    ]);
    let tuned = hook.on_define_domain(&vmi, DOMAIN).ok();
    let expected = DOMAIN
        .replace("cache='none'/>", "cache='writeback' queues='6' iothread='1'/>")
        .replace(
            "bus='virtio'/>\n      <driver name='qemu' type='raw'/>",
            "bus='virtio'/>\n      <driver name='qemu' type='raw' queues='6' cache='writeback' iothread='2'/>",
        )
        .replace("</domain>", "  <iothreads>2</iothreads>\n</domain>");
    assert_eq!(tuned.xml, expected);
    let repeated = hook.on_define_domain(&vmi, &expected).ok();
    assert_eq!(repeated.xml, expected);
}

#[hooks_sdk_testing::test(DiskTuning)]
fn without_annotations_xml_is_unchanged(hook: Hook) {
    assert_eq!(hook.on_define_domain("{}", DOMAIN).ok().xml, DOMAIN);
}

#[hooks_sdk_testing::test(DiskTuning)]
fn invalid_annotations_are_vetoed_with_the_accepted_values(hook: Hook) {
    let run = |name, value| hook.on_define_domain(&vmi(&[(name, value)]), DOMAIN);
    assert_eq!(
        run("queues", "0").veto(),
        "disk-tuning.example.com/queues is 0, not within 1 and 64"
    );
    assert!(
        run("cache", "wrong")
            .veto()
            .starts_with("disk-tuning.example.com/cache is \"wrong\", none of default, none")
    );
    assert!(
        run("io-threads", "x")
            .failure()
            .contains("disk-tuning.example.com/io-threads: invalid digit")
    );
}

const ATTACHED: &str = "<disk type='file' device='disk'><source file='/d.img'/><target dev='vdb' bus='virtio'/>\
    <driver name='qemu' type='raw'/><alias name='ua-data'/></disk>";

#[hooks_sdk_testing::test(DiskTuning)]
fn only_attached_virtio_disks_are_tuned(hook: Hook) {
    let vmi = vmi(&[
        ("queues", "vcpus"),
        ("cache", "writeback"),
        ("io-threads", "2"),
    ]);
    let tuned = hook.on_attach_device(&vmi, ATTACHED).ok();
    let driver = "type='raw' queues='6' cache='writeback'/>";
    assert_eq!(tuned.xml, ATTACHED.replace("type='raw'/>", driver));
    assert_eq!(hook.on_attach_device(&vmi, &tuned.xml).ok().changes, []);
    let interface = "<interface type='ethernet'><target dev='tap1'/></interface>";
    for other in [interface, &ATTACHED.replace("virtio", "scsi")] {
        assert_eq!(hook.on_attach_device(&vmi, other).ok().xml, other);
    }
}

#[hooks_sdk_testing::test(DiskTuning)]
fn invalid_annotation_refuses_an_attached_disk_with_a_message(hook: Hook) {
    let vmi = vmi(&[("queues", "0")]);
    let veto = hook.on_attach_device(&vmi, ATTACHED).veto();
    assert_eq!(
        veto,
        "disk-tuning.example.com/queues is 0, not within 1 and 64"
    );
}
