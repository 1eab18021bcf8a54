//! The hook as plain Rust, and its module under wasmtime.
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
fn a_vm_with_a_gpu_hides_its_hypervisor(hook: Hook) {
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
    let again = hook.on_define_domain(&vmi(Some("ACME")), &expected).ok();
    assert_eq!(again.xml, expected);
}

#[hooks_sdk_testing::test(GpuFriendly)]
fn a_vm_without_one_stays_as_it_is(hook: Hook) {
    assert_eq!(hook.on_define_domain("{}", DOMAIN).ok().xml, DOMAIN);
}

#[hooks_sdk_testing::test(GpuFriendly)]
fn a_vendor_that_qemu_would_not_take_is_refused(hook: Hook) {
    for odd in ["", "thirteen byte", "a,b"] {
        let told = hook.on_define_domain(&vmi(Some(odd)), DOMAIN).veto();
        assert!(told.starts_with("gpu.example.com/vendor-id, "), "{told}");
    }
}
