//! A stranger's module, in the hands of somebody with files that it would like to read, delete or run.
//!
//! libvirt's QEMU driver runs the emulator that a domain names, and deletes the TPM state and the NVRAM that it names. So no
//! domain with changes of the dangerous set reaches the libvirt of whoever examines a module, and no verb lets a module read
//! a directory that the command line does not name.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use hook_host::policy::permission::DangerKind;
use serde_json::Value;
use tests::not_tested::{Missing, not_tested};

use super::check::finding_of;
use super::handwritten_module::{
    editing_module, file_showing_module, refusing_core_module, refusing_module,
};
use super::signing_key::signing_key;
use super::user_with_precious_files::{KEY, User};
use super::{ProgramOutput, VMI, text};

/// What `check` says of a domain that libvirt is not given.
const WITHHELD: &str = "libvirt would run programs or delete files that it names";

/// What a module does to a domain: it replaces the first needle by the text, in which `HOME` is the user's home.
struct DomainEdit {
    /// The name of the kind of the dangerous set.
    kind: &'static str,
    needle: &'static str,
    text: &'static str,
    /// The paths that the module declares.
    paths: &'static [&'static str],
}

/// One edit of each kind, by the kinds' names.
const EDITS: &[DomainEdit] = &[
    DomainEdit {
        kind: "Hypervisor",
        needle: "</domain>",
        text: "<qemu:commandline><qemu:arg value=\"-S\"/></qemu:commandline></domain>",
        paths: &["/domain/qemu:commandline/**"],
    },
    DomainEdit {
        kind: "Emulator",
        needle: "</devices",
        text: "<emulator>HOME/run.sh</emulator></devices",
        paths: &["/domain/devices/emulator/**", "/domain/devices/emulator"],
    },
    DomainEdit {
        kind: "Boot",
        needle: "</os>",
        text: "<loader readonly=\"yes\" type=\"pflash\">/usr/share/OVMF/OVMF_CODE_4M.fd</loader>\
            <nvram>HOME/note</nvram></os>",
        paths: &[
            "/domain/os/loader/**",
            "/domain/os/loader",
            "/domain/os/nvram/**",
            "/domain/os/nvram",
        ],
    },
    DomainEdit {
        kind: "Script",
        needle: "</devices",
        text: "<filesystem type=\"mount\"><driver type=\"virtiofs\"/><binary path=\"HOME/run.sh\"/>\
            <source dir=\"HOME/Documents\"/><target dir=\"x\"/></filesystem></devices",
        paths: &[
            "/domain/devices/filesystem/**",
            "/domain/devices/filesystem",
            "/domain/devices/filesystem/binary/**",
            "/domain/devices/filesystem/binary",
        ],
    },
    DomainEdit {
        kind: "SecurityLabel",
        needle: "</domain>",
        text: "<seclabel type=\"none\"/></domain>",
        paths: &["/domain/seclabel/**", "/domain/seclabel"],
    },
    DomainEdit {
        kind: "Source",
        needle: "</devices",
        text: "<tpm model=\"tpm-crb\"><backend type=\"emulator\" version=\"2.0\">\
            <source type=\"dir\" path=\"HOME/Documents\"/></backend></tpm></devices",
        paths: &[
            "/domain/devices/tpm/**",
            "/domain/devices/tpm/backend/source/**",
            "/domain/devices/tpm/backend/source/@path",
        ],
    },
    DomainEdit {
        kind: "HostPath",
        needle: "</devices",
        text: "<pstore backend=\"acpi-erst\"><path>HOME/note</path><size unit=\"KiB\">8</size></pstore></devices",
        paths: &["/domain/devices/pstore/**", "/domain/devices/pstore/path"],
    },
    DomainEdit {
        kind: "DiskFormat",
        needle: "</devices",
        text: "<disk type=\"file\" device=\"cdrom\"><driver name=\"qemu\" type=\"qcow2\"/>\
            <target dev=\"sdz\" bus=\"sata\"/></disk></devices",
        paths: &[
            "/domain/devices/disk/**",
            "/domain/devices/disk/driver/@type",
        ],
    },
    DomainEdit {
        kind: "DiskAccess",
        needle: "</devices",
        text: "<disk type=\"file\" device=\"cdrom\"><target dev=\"sdz\" bus=\"sata\"/><shareable/></disk></devices",
        paths: &["/domain/devices/disk/**", "/domain/devices/disk/shareable"],
    },
    DomainEdit {
        kind: "Secret",
        needle: "</devices",
        text: "<disk type=\"file\" device=\"cdrom\"><target dev=\"sdz\" bus=\"sata\"/>\
            <encryption format=\"luks\"><secret type=\"passphrase\" usage=\"x\"/></encryption></disk></devices",
        paths: &[
            "/domain/devices/disk/**",
            "/domain/devices/disk/encryption/**",
            "/domain/devices/disk/encryption",
        ],
    },
    DomainEdit {
        kind: "Filesystem",
        needle: "</devices",
        text: "<filesystem type=\"mount\"><source dir=\"HOME/.ssh\"/><target dir=\"x\"/></filesystem></devices",
        paths: &[
            "/domain/devices/filesystem/**",
            "/domain/devices/filesystem",
        ],
    },
    DomainEdit {
        kind: "HostDevice",
        needle: "</devices",
        text: "<hostdev mode=\"subsystem\" type=\"usb\"><source><address bus=\"1\" device=\"2\"/></source></hostdev></devices",
        paths: &["/domain/devices/hostdev/**", "/domain/devices/hostdev"],
    },
    DomainEdit {
        kind: "HostNetwork",
        needle: "</devices",
        text: "<vsock model=\"virtio\"><cid auto=\"yes\"/></vsock></devices",
        paths: &[
            "/domain/devices/vsock/**",
            "/domain/devices/vsock",
            "/domain/devices/vsock/cid/@auto",
        ],
    },
    DomainEdit {
        kind: "HostDisplay",
        needle: "</devices",
        text: "<graphics type=\"sdl\" display=\":0\" xauth=\"HOME/.ssh/id\"/></devices",
        paths: &[
            "/domain/devices/graphics/**",
            "/domain/devices/graphics/@type",
            "/domain/devices/graphics/@display",
            "/domain/devices/graphics/@xauth",
        ],
    },
    DomainEdit {
        kind: "HostAudio",
        needle: "</devices",
        text: "<audio id=\"7\" type=\"pulseaudio\" serverName=\"HOME/note\"/></devices",
        paths: &[
            "/domain/devices/audio/**",
            "/domain/devices/audio/@type",
            "/domain/devices/audio/@serverName",
        ],
    },
    DomainEdit {
        kind: "SharedMemory",
        needle: "</devices",
        text: "<shmem name=\"x\" role=\"peer\"><model type=\"ivshmem-plain\"/></shmem></devices",
        paths: &[
            "/domain/devices/shmem/**",
            "/domain/devices/shmem/@name",
            "/domain/devices/shmem/@role",
        ],
    },
    DomainEdit {
        kind: "HostIdentity",
        needle: "<smbios mode=\"sysinfo\"",
        text: "<smbios mode=\"host\"",
        paths: &["/domain/os/smbios/@mode"],
    },
    DomainEdit {
        kind: "HostScheduling",
        needle: "</domain>",
        text: "<resource><partition>/x</partition></resource></domain>",
        paths: &["/domain/resource/**", "/domain/resource/partition"],
    },
    DomainEdit {
        kind: "CoreDump",
        needle: "</domain>",
        text: "<on_crash>coredump-destroy</on_crash></domain>",
        paths: &["/domain/on_crash"],
    },
    DomainEdit {
        kind: "Disguise",
        needle: "<vcpu placement",
        text: "<vcpu qemu:x=\"1\" placement",
        paths: &["/domain/vcpu/@qemu:x"],
    },
    DomainEdit {
        kind: "GuestProvisioning",
        needle: "</sysinfo>",
        text: "<oemStrings><entry>io.systemd.credential:x=y</entry></oemStrings></sysinfo>",
        paths: &[
            "/domain/sysinfo/**",
            "/domain/sysinfo/oemStrings/**",
            "/domain/sysinfo/oemStrings",
            "/domain/sysinfo/oemStrings/entry",
        ],
    },
    DomainEdit {
        kind: "ConfidentialGuest",
        needle: "</domain>",
        text: "<launchSecurity type=\"sev\"><policy>0x0003</policy></launchSecurity></domain>",
        paths: &["/domain/launchSecurity/**", "/domain/launchSecurity"],
    },
];

/// The edit of each kind of the dangerous set.
fn edits() -> Vec<&'static DomainEdit> {
    let edit_of = |kind: &DangerKind| {
        let edit = EDITS.iter().find(|edit| edit.kind == kind.name());
        edit.unwrap_or_else(|| panic!("add an edit of the kind {}", kind.name()))
    };
    DangerKind::ALL.iter().map(edit_of).collect()
}

fn outputs_of<'a>(results: &'a [(String, ProgramOutput)], verb: &str) -> Vec<&'a ProgramOutput> {
    let of_verb = results.iter().filter(|(name, _)| *name == verb);
    of_verb.map(|(_, output)| output).collect()
}

/// The finding `libvirt` of a check.
fn libvirt_finding(output: &ProgramOutput) -> Value {
    finding_of(&output.json(), "libvirt").clone()
}

#[test]
fn no_verb_lets_libvirt_read_a_change_of_the_dangerous_set() {
    let user = User::current();
    let edits = Mutex::new(edits());
    let next = || edits.lock().unwrap().pop();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(edit) = next() {
                    let text = edit.text.replace("HOME", user.home());
                    let module = editing_module(edit.paths, edit.needle, &text);
                    let name = edit.kind.to_lowercase();
                    let results = user.run_calling_verbs(&name, &module);
                    let checks = outputs_of(&results, "check");
                    assert_eq!(checks.len(), 2);
                    for check in checks {
                        let finding = libvirt_finding(check);
                        assert_eq!(finding["verdict"], "not-checked", "{name}: {finding:#}");
                        let shown = &check.out;
                        assert_eq!(finding["message"], WITHHELD, "{name}: {shown}");
                    }
                    let [recorded] = outputs_of(&results, "replay")[..] else {
                        panic!("{name}: the run of libvirt's hook is recorded");
                    };
                    assert_eq!(recorded.code, 0, "{name}: {}", recorded.err);
                }
            });
        }
    });
}

#[test]
fn a_withheld_domain_fails_only_a_strict_check() {
    let user = User::current();
    let emulator = EDITS.iter().find(|edit| edit.kind == "Emulator").unwrap();
    let text = emulator.text.replace("HOME", user.home());
    let module = editing_module(emulator.paths, emulator.needle, &text);
    let module = user.file("hook.wasm", module);
    let check = |more: &[&str]| user.run(&[&["check", &module], more].concat());
    let shown = check(&[]).success_stdout();
    assert!(
        shown.contains(&format!("not checked  libvirt: {WITHHELD}\n")),
        "{shown}"
    );
    assert!(shown.contains(": /domain/devices/emulator\n"), "{shown}");
    let strict = check(&["--strict"]);
    assert_eq!(strict.code, 1, "{}{}", strict.out, strict.err);
    assert!(strict.err.contains("could not be made"), "{}", strict.err);
    // What does not need libvirt is checked.
    let strict = check(&["--strict", "--without-libvirt"]);
    assert_eq!(strict.code, 0, "{}{}", strict.out, strict.err);
}

/// libvirt's rights are the user's, and with root's it would be nobody's: both are tried.
#[test]
fn an_ordinary_user_keeps_all_files_too() {
    let Some(user) = User::ordinary() else {
        let what = "virt-hook of an ordinary user, beside root's: the other tests are those of an ordinary user";
        return not_tested(what, Missing::MachineFeature("root's rights")).unwrap();
    };
    for kind in ["Source", "Boot", "Emulator"] {
        let edit = EDITS.iter().find(|edit| edit.kind == kind).unwrap();
        let text = edit.text.replace("HOME", user.home());
        let module = editing_module(edit.paths, edit.needle, &text);
        let results = user.run_every_verb(&kind.to_lowercase(), &module);
        for check in outputs_of(&results, "check") {
            assert_eq!(libvirt_finding(check)["message"], WITHHELD, "{kind}");
        }
    }
    let module = file_showing_module(&format!("{}/.ssh", user.home()), "id");
    user.run_every_verb("key", &module);
}

#[test]
fn no_verb_grants_a_directory_that_the_command_line_does_not_name() {
    let user = User::current();
    let secret = format!("{}/.ssh", user.home());
    let module = file_showing_module(&secret, "id");
    let results = user.run_every_verb("key", &module);
    for verb in ["check", "compare", "bench", "test"] {
        let outputs = outputs_of(&results, verb);
        let first = outputs.first().unwrap();
        assert_ne!(first.code, 0, "{verb}: {}{}", first.out, first.err);
        let all = format!("{}{}", first.out, first.err);
        let advice = format!("give --grant-dir {secret}, if hooks may read it");
        assert!(all.contains(&advice), "{verb}: {all}");
    }
    // Named on the command line, it is granted.
    let module = user.file("granted/hook.wasm", &module);
    let vmi = user.file("vmi.yaml", VMI);
    user.file("cases/one/vmi.yaml", VMI);
    user.file("cases/one/expected.veto", format!("{KEY}\n"));
    let allow = format!("allow: {{dirs: ['{secret}']}}\n");
    let policy = user.file("cases/policy.yaml", &allow);
    let cases = user.work.path().join("cases");
    for (code, arguments) in [
        (0, &["check", &module, "--without-libvirt"][..]),
        (1, &["compare", "--hook", &module, "--vmi", &vmi]),
        (1, &["bench", &module]),
        (0, &["test", "--hook", &module, text(&cases)]),
    ] {
        let granted = user.run(&[arguments, &["--grant-dir", &secret]].concat());
        assert_eq!(
            granted.code, code,
            "{arguments:?}: {}{}",
            granted.out, granted.err
        );
        let shown = granted.out + &granted.err;
        let is_shown = shown.contains(KEY) || shown.contains("1 passed");
        assert!(is_shown, "{arguments:?}: {shown}");
    }
    for arguments in [
        &["run", &module, "--vmi", &vmi][..],
        &["render", "--vmi", &vmi, "--hook", &module],
        &["check", &module, "--without-libvirt"],
    ] {
        let granted = user.run(&[arguments, &["--policy", &policy]].concat());
        let shown = granted.out + &granted.err;
        assert!(shown.contains(KEY), "{arguments:?}: {shown}");
    }
}

#[test]
fn a_replay_reads_only_directories_of_the_command_line() {
    let user = User::current();
    let data = user.file("data/file", "DATA-5678");
    let data = text(Path::new(&data).parent().unwrap()).to_owned();
    let module = file_showing_module(&data, "file");
    let policy = user.file("policy.yaml", format!("allow: {{dirs: ['{data}']}}\n"));
    let record = user.record("data", &module, &policy);
    let module = user.file("hook.wasm", module);
    let replay =
        |more: &[&str]| user.run(&[&["replay", text(&record), "--module", &module], more].concat());
    let refused = replay(&[]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(
        refused.err.contains(&format!("give --grant-dir {data}")),
        "{}",
        refused.err
    );
    let granted = replay(&["--grant-dir", "data"]);
    assert_eq!(granted.code, 0, "{}{}", granted.out, granted.err);
    // A link out of the granted directory is not granted, though the record's own directories contain its target.
    fs::rename(
        user.work.path().join("data"),
        user.work.path().join("moved"),
    )
    .unwrap();
    fs::create_dir(user.work.path().join("data")).unwrap();
    let text_of_record = fs::read_to_string(&record).unwrap();
    let elsewhere = text_of_record.replace(&data, &format!("{data}/link"));
    fs::write(&record, elsewhere).unwrap();
    symlink("../moved", user.work.path().join("data/link")).unwrap();
    let refused = replay(&["--grant-dir", "data"]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    let advice = format!("give --grant-dir {data}/link");
    assert!(refused.err.contains(&advice), "{}", refused.err);
}

/// A checkout can have links under the names of files that a verb writes, and of predictable temporary files.
#[test]
fn no_verb_writes_through_a_link_of_a_checkout() {
    let user = User::current();
    let module = refusing_module("touch pwned #");
    let module = user.file("refusing.wasm", module);
    let victim = user.home.path().join("note");
    let link = |name: &str| {
        let path = user.work.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(&victim, path).unwrap();
    };
    user.file("cases/one/vmi.yaml", VMI);
    let names = [
        "veto",
        "diff",
        "error",
        "xml",
        "user-data",
        "network-data",
        "meta-data",
        "migration",
    ];
    for name in names {
        link(&format!("cases/one/.expected.{name}.part"));
        link(&format!("cases/one/.expected.{name}.arriving"));
    }
    let updated = user.run(&["test", "--hook", &module, "cases", "--update"]);
    assert_eq!(updated.code, 0, "{}{}", updated.out, updated.err);
    user.assert_unharmed("test --update", &updated);
    let expected = user.work.path().join("cases/one/expected.veto");
    assert_eq!(fs::read_to_string(&expected).unwrap(), "touch pwned #\n");
    // The expected file is a link itself: it is replaced.
    fs::remove_file(&expected).unwrap();
    link("cases/one/expected.veto");
    let updated = user.run(&["test", "--hook", &module, "cases", "--update"]);
    assert_eq!(updated.code, 0, "{}{}", updated.out, updated.err);
    user.assert_unharmed("test --update", &updated);
    assert_eq!(fs::read_to_string(&expected).unwrap(), "touch pwned #\n");

    user.file("core.wasm", refusing_core_module("no"));
    for name in [
        ".o.wasm.arriving",
        ".refusing.wasm.sigstore.json.arriving",
        "refusing.wasm.sigstore.json",
        "man/virt-hook.1",
    ] {
        link(name);
    }
    let key = signing_key(user.work.path(), "key");
    for arguments in [
        &["wrap", "core.wasm", "-o", "o.wasm"][..],
        &["sign", "refusing.wasm", "--key", text(&key)],
        &["man", "--into", "man"],
    ] {
        let output = user.run(arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.err);
        user.assert_unharmed(&format!("{arguments:?}"), &output);
    }
    for (name, start) in [
        ("o.wasm", &b"\0asm"[..]),
        ("refusing.wasm.sigstore.json", b"{"),
        ("man/virt-hook.1", b"."),
    ] {
        let path = user.work.path().join(name);
        assert!(path.symlink_metadata().unwrap().is_file(), "{name}");
        assert!(fs::read(&path).unwrap().starts_with(start), "{name}");
    }
}

/// A `virsh` that does what libvirt does with the worst domain: it is confined, and what it leaves behind ends.
#[test]
fn libvirts_tools_are_confined_and_leave_nothing_behind() {
    let user = User::current();
    let module = user.file(
        "hook.wasm",
        editing_module(&["/domain/title"], "<os>", "<title>x</title><os>"),
    );
    let tools = user.work.path().join("tools");
    let script = format!(
        "#!/bin/sh\n\
         echo harmed > {home}/note\n\
         {home}/run.sh\n\
         cp {home}/run.sh ./private/run.sh 2>/dev/null; cp /bin/true $HOME/true; chmod 755 $HOME/true; $HOME/true && echo ran-own\n\
         cat {home}/.ssh/id\n\
         echo \"limits $(ulimit -v) $(ulimit -f) $(ulimit -t) $(ulimit -c)\"\n\
         echo \"variables $(env | cut -d= -f1 | sort | tr '\\n' ' ')\"\n\
         echo yes > $HOME/written && echo written\n\
         setsid sleep 987654 >/dev/null 2>&1 &\n\
         setsid sleep 987654 &\n\
         true\n",
        home = user.home()
    );
    let virsh = user.file("tools/virsh", script);
    fs::set_permissions(virsh, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let mut check = user.command();
    check.args(["check", &module, "--json"]).env("PATH", path);
    let checked = ProgramOutput::from(check.env("SECRET_OF_USER", KEY).output().unwrap());
    // If the sleep, which holds the output of the tool open, were left, the tool would not answer in time.
    let shown = finding_of(&checked.json(), "libvirt version")["message"].to_string();
    let limits = format!("limits {} {} 60 0", (4_u64 << 30) / 1024, (64 << 20) / 512);
    assert!(shown.contains(&limits), "{shown}");
    assert!(
        shown.contains("variables HOME LC_ALL PATH PWD TMPDIR XDG_RUNTIME_DIR"),
        "{shown}"
    );
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    assert!(!commands.any(|command| command == b"sleep\0987654\0"));
    let [landlock, _] = hook_host::wasm::kernel_features();
    if landlock.missing.is_some() {
        let what = "the files that libvirt's tools can write and run";
        return not_tested(what, Missing::MachineFeature("Landlock")).unwrap();
    }
    user.assert_unharmed("virsh", &checked);
    assert!(
        shown.contains("written") && !shown.contains("ran-own"),
        "{shown}"
    );
}

/// A VMI can be a stranger's, too: its name becomes a word of virsh's commands.
#[test]
fn a_vmis_name_is_no_command_of_virsh() {
    let user = User::current();
    let module = user.file(
        "hook.wasm",
        editing_module(&["/domain/title"], "<os>", "<title>x</title><os>"),
    );
    let name = "x; echo --shell y";
    let vmi = user.file(
        "vmi.yaml",
        VMI.replace("name: vm", &format!("name: {name:?}")),
    );
    let checked = user.run(&["check", &module, "--vmi", &vmi, "--json"]);
    let finding = libvirt_finding(&checked);
    assert!(
        finding["message"]
            .to_string()
            .contains("is not given to virsh"),
        "{finding:#}{}",
        checked.err
    );
}
