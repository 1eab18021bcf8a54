//! Instance types of a cluster, as every verb takes them that makes a VMI of a VirtualMachine.

use super::{smbios, text, virt_hook, write};

const TYPES: &str = "kind: VirtualMachineClusterInstancetype\nmetadata: {name: own}\n\
    spec: {cpu: {guest: 3}, memory: {guest: 96Mi}}\n";
const VM: &str = "kind: VirtualMachine\nmetadata: {name: web, namespace: ns}\nspec:\n  instancetype: {name: own}\n  \
    template:\n    metadata: {annotations: {smbios.vm.kubevirt.io/baseBoardManufacturer: ACME}}\n    \
    spec: {domain: {devices: {}}}\n";

/// Without the file the VM is refused, and the reason names the way out: a cluster has no VMI of it either.
#[test]
fn verbs_take_instance_types_that_kubevirt_does_not_install() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (vm, types) = (
        write(temp_dir.path(), "vm.yaml", VM),
        write(temp_dir.path(), "types.yaml", TYPES),
    );
    let module = smbios();
    let (vm, module) = (text(&vm), text(&module));
    let case = write(temp_dir.path(), "cases/web/vmi.yaml", VM);
    write(
        temp_dir.path(),
        "cases/web/expected.diff",
        "  /domain/sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']: inserted\n    \
         + <entry name='manufacturer'>ACME</entry>\n",
    );
    let cases = case.parent().unwrap().parent().unwrap();
    for arguments in [
        &["render", "--vmi", vm][..],
        &["run", module, "--vmi", vm],
        &["check", module, "--vmi", vm, "--without-libvirt"],
        &["compare", "--hook", module, "--vmi", vm],
        &["bench", module, "--vmi", vm, "--calls", "1"],
        &["test", "--hook", module, text(cases)],
        &["host-facts", vm],
    ] {
        let verb = arguments[0];
        let refused = virt_hook(arguments);
        let shown = format!("{}{}", refused.out, refused.err);
        assert_eq!(refused.code, 1, "{verb}: {shown}");
        for part in [
            "(FailedFindInstancetype): its instance type own is not one",
            "give its file with --instancetypes",
        ] {
            assert!(shown.contains(part), "{verb}: {part}: {shown}");
        }
        let taken = virt_hook(&[arguments, &["--instancetypes", text(&types)]].concat());
        assert_eq!(taken.code, 0, "{verb}: {}{}", taken.out, taken.err);
        let missing = virt_hook(&[arguments, &["--instancetypes", "/nonexistent.yaml"]].concat());
        assert_eq!(missing.code, 2, "{verb}: {}{}", missing.out, missing.err);
        assert!(missing.err.contains("/nonexistent.yaml"), "{}", missing.err);
    }
}
