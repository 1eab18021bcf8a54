//! Tests of the hook `gpu-rom`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use gpu_rom_hook::GpuRom;
use hooks_sdk_testing::Hook;

const DOMAIN: &str = "<domain type='kvm'>
  <devices>
    <hostdev mode='subsystem' type='pci' managed='no'>
      <source>
        <address domain='0x0000' bus='0x65' slot='0x00' function='0x0'/>
      </source>
      <alias name='ua-gpu-gpu1'/>
    </hostdev>
    <hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
      <source>
        <address uuid='b0af8dcc-6fc8-4f2e-9d5c-6d5c2f8a0f6e'/>
      </source>
      <alias name='ua-gpu-vgpu'/>
    </hostdev>
  </devices>
</domain>
";

fn vmi(annotation: &str, rom: &str) -> String {
    hooks_sdk::json!({
        "metadata": {"annotations": {annotation: rom}},
        "spec": {"volumes": [
            {"name": "roms", "configMap": {"name": "gpu-roms"}},
            {"name": "root", "containerDisk": {"image": "example.com/root"}},
        ]},
    })
    .to_string()
}

#[hooks_sdk_testing::test(GpuRom)]
fn the_gpu_gets_the_rom_and_other_devices_stay(hook: Hook) {
    let vmi = vmi("rom.example.com/gpu1", "roms/card.rom");
    let defined = hook.on_define_domain(&vmi, DOMAIN).ok();
    let rom = "<rom file='/var/run/kubevirt-private/config-map/roms/card.rom'/>";
    assert_eq!(defined.xml.matches("<rom").count(), 1, "{}", defined.xml);
    let gpu = defined.xml.split("</hostdev>").next().unwrap_or_default();
    assert!(gpu.contains(rom), "{}", defined.xml);
    assert_eq!(
        hook.on_define_domain(&vmi, &defined.xml).ok().xml,
        defined.xml
    );
}

#[hooks_sdk_testing::test(GpuRom)]
fn no_other_file_and_no_other_device_is_named(hook: Hook) {
    for (annotation, rom, part) in [
        ("rom.example.com/gpu1", "card.rom", "is not VOLUME/FILE"),
        ("rom.example.com/gpu1", "/etc/passwd", "does not name a key"),
        ("rom.example.com/gpu1", "/passwd", "does not begin with"),
        (
            "rom.example.com/gpu1",
            "roms/../../x",
            "does not name a key",
        ),
        ("rom.example.com/gpu1", "roms/..data", "does not name a key"),
        ("rom.example.com/gpu1", "roms/", "does not name a key"),
        (
            "rom.example.com/gpu1",
            "root/card.rom",
            "does not begin with",
        ),
        (
            "rom.example.com/vgpu",
            "roms/card.rom",
            "no such PCI device",
        ),
        (
            "rom.example.com/gpu2",
            "roms/card.rom",
            "no such PCI device",
        ),
    ] {
        let veto = hook.on_define_domain(&vmi(annotation, rom), DOMAIN).veto();
        assert!(veto.contains(part), "{rom}: {veto}");
    }
}

#[hooks_sdk_testing::test(GpuRom)]
fn without_the_annotation_xml_is_unchanged(hook: Hook) {
    assert_eq!(hook.on_define_domain("{}", DOMAIN).ok().xml, DOMAIN);
}
