//! Firmware and its log, timers, Hyper-V enlightenments, and the domain type for Hyper-V hosts.

use serde_json::{Value, json};

use super::Case;

fn efi(efi: Value) -> Case {
    Case::domain(json!({"firmware": {"bootloader": {"efi": efi}}}))
}

#[test]
fn firmware_image_depends_on_the_installed_files() {
    let files = |files: Value| json!({"ovmfPath": "/o", "firmwareFiles": files});
    let with_secure_boot = json!([
        "OVMF_CODE.secboot.fd",
        "OVMF_VARS.secboot.fd",
        "OVMF_VARS.fd"
    ]);
    let os = efi(json!({"secureBoot": false}))
        .host(files(with_secure_boot))
        .domain_spec()
        .os;
    assert_eq!(os.boot_loader.unwrap().path, "/o/OVMF_CODE.secboot.fd");
    assert_eq!(os.nvram.unwrap().template, "/o/OVMF_VARS.fd");
    assert_eq!(
        efi(json!({}))
            .host(files(json!(["OVMF_CODE.fd", "OVMF_VARS.fd"])))
            .conversion_error(),
        "EFI OVMF roms missing for booting in EFI mode with SecureBoot=true, \
         SEV/SEV-ES=false, SEV-SNP=false, TDX=false"
    );
}

#[test]
fn libvirt_chooses_firmware_if_configured() {
    let os_with = |settings: Value| {
        efi(settings)
            .host(json!({"firmwareAutoSelection": true}))
            .domain_spec()
            .os
    };
    let os = os_with(json!({}));
    assert_eq!(os.firmware, "efi");
    assert!(os.boot_loader.is_none());
    let features = os.firmware_info.unwrap().features;
    assert_eq!(
        features
            .iter()
            .map(|feature| feature.name.as_str())
            .collect::<Vec<_>>(),
        ["secure-boot", "enrolled-keys"]
    );
    let nvram = os.nvram.unwrap();
    assert_eq!(
        (nvram.format.as_str(), nvram.nvram.as_str()),
        ("raw", "/var/lib/libvirt/qemu/nvram/vm_VARS.fd")
    );
    assert!(os_with(json!({"secureBoot": false})).boot_loader.is_some());
}

#[test]
fn non_root_annotation_of_older_clusters_changes_the_nvram_path() {
    let os = efi(json!({}))
        .annotation("kubevirt.io/nonroot", "true")
        .domain_spec()
        .os;
    assert_eq!(
        os.nvram.unwrap().nvram,
        "/var/run/kubevirt-private/libvirt/qemu/nvram/vm_VARS.fd"
    );
}

#[test]
fn timers_get_only_their_own_attributes() {
    let timer = json!({"tickPolicy": "delay", "track": "guest", "present": false});
    let clock = json!({"timer": {"rtc": timer, "pit": timer, "kvm": timer, "hpet": timer, "hyperv": timer}});
    let timers = Case::domain(json!({"clock": clock}))
        .domain_spec()
        .clock
        .unwrap()
        .timer;
    let rendered: Vec<_> = timers
        .iter()
        .map(|timer| {
            (
                timer.name.as_str(),
                timer.tick_policy.as_str(),
                timer.track.as_str(),
            )
        })
        .collect();
    assert_eq!(
        rendered,
        [
            ("rtc", "delay", "guest"),
            ("pit", "delay", ""),
            ("kvmclock", "", ""),
            ("hpet", "delay", ""),
            ("hypervclock", "", "")
        ]
    );
}

#[test]
fn tsc_frequency_is_fixed_if_the_guest_relies_on_it() {
    let hints = json!({"topologyHints": {"tscFrequency": 2_100_000_000_i64}});
    let frequency = |domain: Value| {
        let spec = Case::domain(domain).status(hints.clone()).domain_spec();
        spec.clock
            .and_then(|clock| Some(clock.timer.first()?.frequency.clone()))
    };
    let invariant = json!({"cpu": {"features": [{"name": "invtsc", "policy": "require"}]}});
    assert_eq!(frequency(invariant).as_deref(), Some("2100000000"));
    let optional = json!({"cpu": {"features": [{"name": "invtsc", "policy": "optional"}]}});
    assert_eq!(frequency(optional), None);
    let reenlightenment = json!({"features": {"hyperv": {"reenlightenment": {"enabled": true}}}});
    assert!(frequency(reenlightenment).is_some());
    assert_eq!(
        frequency(json!({"features": {"hyperv": {"reenlightenment": {}}}})),
        None
    );
}

#[test]
fn hyperv_passthrough_enables_all_enlightenments() {
    let passed =
        Case::domain(json!({"features": {"hypervPassthrough": {"enabled": true}}})).domain_spec();
    assert_eq!(passed.features.unwrap().hyperv.unwrap().mode, "passthrough");
    let both = json!({"features": {"hypervPassthrough": {}, "hyperv": {"relaxed": {}}}});
    let hyperv = Case::domain(both)
        .domain_spec()
        .features
        .unwrap()
        .hyperv
        .unwrap();
    assert_eq!(
        (hyperv.mode.as_str(), hyperv.relaxed.unwrap().state.as_str()),
        ("", "on")
    );
}

#[test]
fn hyperv_direct_is_a_domain_type() {
    let kind = |available: bool, emulate: bool| {
        Case::default().host(json!({"hypervisor": "hyperv-direct", "kvmAvailable": available, "allowEmulation": emulate}))
    };
    assert_eq!(kind(true, false).domain_spec().kind, "hyperv");
    assert_eq!(kind(false, true).domain_spec().kind, "qemu");
    assert_eq!(kind(false, false).conversion_error(), "MSHV not present");
}

#[test]
fn firmware_log_is_enabled_at_high_verbosity() {
    let arguments = |verbosity: u32| {
        let case = Case::default().host(json!({"logVerbosity": verbosity}));
        case.domain_spec()
            .qemu_commandline
            .map_or(0, |commandline| commandline.arg.len())
    };
    assert_eq!((arguments(5), arguments(6)), (0, 4));
}
