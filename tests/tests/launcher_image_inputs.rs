//! `make image` and `make context` with this build's programs, and with inputs that a launcher could not use.
#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::binaries::{binary, workspace};
use tests::build_and_install_hooks::example;

const PROGRAMS: [&str; 4] = [
    "launcher-image",
    "virt-hook",
    "virt-launcher",
    "virt-launcher-monitor",
];

/// A directory for what a build is given, and what it writes.
struct Inputs(tempfile::TempDir);

impl Inputs {
    /// A policy under which the standing hook `image-smbios` runs.
    fn new() -> Self {
        let inputs = Self(tempfile::tempdir().unwrap());
        let hook = inputs.at("hooks/image-smbios");
        fs::create_dir_all(&hook).unwrap();
        fs::copy(example("smbios-hook").unwrap(), hook.join("hook.wasm")).unwrap();
        inputs.policy("allow:\n  paths: ['/domain/**']\n");
        inputs
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn policy(&self, text: &str) {
        fs::write(self.at("policy.yaml"), text).unwrap();
    }

    /// What `make context` runs.
    fn build(&self) -> Output {
        let tools = self.at("tools");
        fs::create_dir_all(&tools).unwrap();
        for name in PROGRAMS {
            let link = tools.join(name);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(binary(name).unwrap(), link).unwrap();
        }
        Command::new(workspace().join("scripts/build-launcher-image"))
            .arg("--context")
            .args([self.at("context"), self.at("policy.yaml"), self.at("hooks")])
            .env("TOOLS", tools)
            .output()
            .unwrap()
    }

    fn refusal(&self) -> String {
        let output = self.build();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{stderr}");
        assert!(!self.at("context").exists(), "{stderr}");
        stderr
    }
}

fn files(directory: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            files(&path, below, found);
        } else {
            let path = path.strip_prefix(below).unwrap();
            found.push(path.to_str().unwrap().to_owned());
        }
    }
    found.sort();
}

/// The programs have the symbol versions of KubeVirt's image, as those of a release build.
#[test]
fn the_context_has_the_files_of_the_layer() {
    let inputs = Inputs::new();
    let output = inputs.build();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let context = inputs.at("context");
    let mut found = Vec::new();
    files(&context, &context, &mut found);
    for path in [
        "etc/virt-launcher/hook-policy.yaml",
        "etc/virt-launcher/hooks/image-smbios/hook.wasm",
        "usr/bin/libvirt-hook-client",
        "usr/bin/virt-hook",
        "usr/bin/virt-launcher",
        "usr/bin/virt-launcher-monitor",
    ] {
        assert!(found.contains(&path.to_owned()), "{path}: {found:?}");
    }
    let artifacts = "usr/share/virt-launcher/hook-artifacts/";
    assert!(
        found.iter().any(|path| path.starts_with(artifacts)),
        "{found:?}"
    );
    let link = fs::read_link(context.join("usr/bin/libvirt-hook-client")).unwrap();
    assert_eq!(link, Path::new("virt-hook"));

    let containerfile = workspace().join("deploy/image/Containerfile");
    let text = fs::read_to_string(containerfile).unwrap();
    let copies = text.lines().filter_map(|line| line.strip_prefix("COPY "));
    let copies: Vec<&str> = copies.collect();
    let monitor = "usr/bin/virt-launcher-monitor";
    assert_eq!(
        copies,
        [
            format!("{monitor} /usr/bin/"),
            ". /".to_owned(),
            format!("--from=capable /{monitor} /usr/bin/")
        ]
    );
}

#[test]
fn a_policy_that_cannot_be_read_is_refused() {
    let inputs = Inputs::new();
    inputs.policy("allow: [\n");
    assert!(inputs.refusal().contains("policy.yaml"));
}

#[test]
fn a_module_in_no_directory_of_its_own_is_refused() {
    let inputs = Inputs::new();
    let module = inputs.at("hooks/image-smbios/hook.wasm");
    fs::copy(module, inputs.at("hooks/loose.wasm")).unwrap();
    let stderr = inputs.refusal();
    assert!(
        stderr.contains("loose.wasm") && stderr.contains("NAME/hook.wasm"),
        "{stderr}"
    );
}

/// launcher-image compares it with that of the base, and with that of each program.
#[test]
fn the_image_is_for_the_architecture_of_the_machine() {
    let inputs = Inputs::new();
    let (tools, arguments) = (inputs.at("tools"), inputs.at("arguments"));
    fs::create_dir(&tools).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >{}\nexit 1\n", arguments.display());
    fs::write(tools.join("launcher-image"), script).unwrap();
    let mode = Permissions::from_mode(0o755);
    fs::set_permissions(tools.join("launcher-image"), mode).unwrap();
    let output = Command::new(workspace().join("scripts/build-launcher-image"))
        .arg("--context")
        .arg(inputs.at("context"))
        .env("TOOLS", tools)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let said = fs::read_to_string(arguments).unwrap();
    assert_eq!(said, format!("--check --architecture {architecture}\n"));
}

/// The annotations of a VM mount hooks of other names in the same directory, over those of the image.
#[test]
fn a_name_that_a_vm_can_take_is_refused() {
    let inputs = Inputs::new();
    let hook = inputs.at("hooks/image-smbios");
    fs::rename(hook, inputs.at("hooks/audit")).unwrap();
    let said = inputs.refusal();
    assert!(said.contains("audit: rename it to image-"), "{said}");
}

#[test]
fn a_broken_hook_yaml_is_refused() {
    let inputs = Inputs::new();
    fs::write(inputs.at("hooks/image-smbios/hook.yaml"), "nonsense: [\n").unwrap();
    assert!(inputs.refusal().contains("hook.yaml"));
}

#[test]
fn a_module_that_the_policy_refuses_is_refused() {
    let inputs = Inputs::new();
    inputs.policy("allow:\n  paths: [/domain/title]\n");
    let stderr = inputs.refusal();
    assert!(
        stderr.contains("/domain/os/smbios") || stderr.contains("smbios"),
        "{stderr}"
    );
}
