//! Tests of the hook `gpu-friendly`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use gpu_friendly_hook::GpuFriendly;
use hooks_sdk_testing::Hook;

const DOMAIN: &str = "<domain type='kvm'>
  <features>
    <acpi/>
    <hyperv mode='custom'>
      <relaxed state='on'/>
    </hyperv>
  </features>
</domain>
";

fn vmi(vendor: Option<&str>) -> String {
    let annotations = vendor.map(|vendor| hooks_sdk::json!({"gpu.example.com/vendor-id": vendor}));
    hooks_sdk::json!({"metadata": {"annotations": annotations},
        "spec": {"domain": {"devices": {"gpus": [{"name": "gpu1", "deviceName": "nvidia.com/X"}]}}}})
    .to_string()
}

#[hooks_sdk_testing::test(GpuFriendly)]
fn hypervisor_is_hidden_from_a_vm_with_a_gpu(hook: Hook) {
    let defined = hook.on_define_domain(&vmi(Some("ACME")), DOMAIN).ok();
    let expected = DOMAIN
        .replace(
            "<relaxed state='on'/>\n",
            "<relaxed state='on'/>\n      <vendor_id state='on' value='ACME'/>\n",
        )
        .replace(
            "    </hyperv>\n",
            "    </hyperv>\n    <kvm>\n      <hidden state='on'/>\n    </kvm>\n    <ioapic driver='kvm'/>\n",
        );
    assert_eq!(defined.xml, expected);
    let repeated = hook.on_define_domain(&vmi(Some("ACME")), &expected).ok();
    assert_eq!(repeated.xml, expected);
}

#[hooks_sdk_testing::test(GpuFriendly)]
fn without_gpu_xml_is_unchanged(hook: Hook) {
    assert_eq!(hook.on_define_domain("{}", DOMAIN).ok().xml, DOMAIN);
}

#[hooks_sdk_testing::test(GpuFriendly)]
fn invalid_vendor_id_is_vetoed(hook: Hook) {
    for vendor in ["", "thirteen byte", "a,b"] {
        let veto = hook.on_define_domain(&vmi(Some(vendor)), DOMAIN).veto();
        assert!(veto.starts_with("gpu.example.com/vendor-id, "), "{veto}");
    }
}
