//! Tests of the hook `vhost-user-disk`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use hooks_sdk_testing::Hook;
use vhost_user_disk_hook::VhostUserDisk;

const DOMAIN: &str = "<domain type='kvm'>
  <devices>
    <disk type='file' device='disk'>
      <target dev='vda' bus='virtio'/>
    </disk>
  </devices>
</domain>
";

fn vmi(socket: &str) -> String {
    hooks_sdk::json!({"metadata": {"annotations": {"vhost-user.example.com/socket": socket}}})
        .to_string()
}

#[hooks_sdk_testing::test(VhostUserDisk)]
fn the_disk_is_added_once_and_memory_is_shared(hook: Hook) {
    let vmi = vmi("/var/run/vhost/a.sock");
    let defined = hook.on_define_domain(&vmi, DOMAIN).ok();
    let expected = DOMAIN.replace(
        "  </devices>\n",
        "    <disk type='vhostuser' device='disk'>
      <driver name='qemu' type='raw'/>
      <source type='unix' path='/var/run/vhost/a.sock'>
        <reconnect enabled='yes' timeout='10'/>
      </source>
      <target dev='vdz' bus='virtio'/>
    </disk>
  </devices>
  <memoryBacking>
    <source type='memfd'/>
    <access mode='shared'/>
  </memoryBacking>
",
    );
    assert_eq!(defined.xml, expected);
    assert_eq!(hook.on_define_domain(&vmi, &expected).ok().xml, expected);
}

#[hooks_sdk_testing::test(VhostUserDisk)]
fn huge_pages_are_kept_and_shared(hook: Hook) {
    let before = "<domain><memoryBacking><hugepages/></memoryBacking><devices/></domain>";
    let defined = hook.on_define_domain(&vmi("/s"), before).ok();
    assert!(
        defined
            .xml
            .contains("<memoryBacking><hugepages/><access mode='shared'/></memoryBacking>"),
        "{}",
        defined.xml
    );
}

#[hooks_sdk_testing::test(VhostUserDisk)]
fn without_socket_xml_is_unchanged(hook: Hook) {
    assert_eq!(hook.on_define_domain("{}", DOMAIN).ok().xml, DOMAIN);
    let veto = hook.on_define_domain(&vmi("a.sock"), DOMAIN).veto();
    assert!(veto.contains("is not an absolute path"), "{veto}");
}
