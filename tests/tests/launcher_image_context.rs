//! `make image` and `make context`: the files of the context, and invalid policies and hooks.
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

/// A directory with the inputs and outputs of one `make context`.
struct Inputs(tempfile::TempDir);

impl Inputs {
    /// Creates the hook `image-smbios` and a policy that allows it.
    fn new() -> Self {
        let inputs = Self(tempfile::tempdir().unwrap());
        let hook = inputs.path("hooks/image-smbios");
        fs::create_dir_all(&hook).unwrap();
        fs::copy(example("smbios-hook").unwrap(), hook.join("hook.wasm")).unwrap();
        inputs.write_policy("allow:\n  paths: ['/domain/**']\n");
        inputs
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write_policy(&self, text: &str) {
        fs::write(self.path("policy.yaml"), text).unwrap();
    }

    /// Runs the script behind `make context`.
    fn build(&self) -> Output {
        let tools = self.path("tools");
        fs::create_dir_all(&tools).unwrap();
        for name in PROGRAMS {
            let link = tools.join(name);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(binary(name).unwrap(), link).unwrap();
        }
        Command::new(workspace().join("scripts/build-launcher-image"))
            .arg("--context")
            .args([
                self.path("context"),
                self.path("policy.yaml"),
                self.path("hooks"),
            ])
            .env("TOOLS", tools)
            .output()
            .unwrap()
    }

    fn build_error(&self) -> String {
        let output = self.build();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{stderr}");
        assert!(!self.path("context").exists(), "{stderr}");
        stderr
    }
}

fn collect_files(directory: &Path, root: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            collect_files(&path, root, files);
        } else {
            let path = path.strip_prefix(root).unwrap();
            files.push(path.to_str().unwrap().to_owned());
        }
    }
    files.sort();
}

#[test]
fn context_contains_the_files_of_the_layer() {
    let inputs = Inputs::new();
    let output = inputs.build();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let context = inputs.path("context");
    let mut files = Vec::new();
    collect_files(&context, &context, &mut files);
    for path in [
        "etc/virt-launcher/hook-policy.yaml",
        "etc/virt-launcher/hooks/image-smbios/hook.wasm",
        "usr/bin/libvirt-hook-client",
        "usr/bin/virt-hook",
        "usr/bin/virt-launcher",
        "usr/bin/virt-launcher-monitor",
    ] {
        assert!(files.contains(&path.to_owned()), "{path}: {files:?}");
    }
    let artifacts = "usr/share/virt-launcher/hook-artifacts/";
    assert!(
        files.iter().any(|path| path.starts_with(artifacts)),
        "{files:?}"
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
fn invalid_policy_is_refused() {
    let inputs = Inputs::new();
    inputs.write_policy("allow: [\n");
    assert!(inputs.build_error().contains("policy.yaml"));
}

#[test]
fn module_without_its_own_directory_is_refused() {
    let inputs = Inputs::new();
    let module = inputs.path("hooks/image-smbios/hook.wasm");
    fs::copy(module, inputs.path("hooks/loose.wasm")).unwrap();
    let stderr = inputs.build_error();
    assert!(
        stderr.contains("loose.wasm") && stderr.contains("NAME/hook.wasm"),
        "{stderr}"
    );
}

/// launcher-image compares this architecture with the architectures of the base image and of each program.
#[test]
fn image_has_the_architecture_of_the_machine() {
    let inputs = Inputs::new();
    let (tools, arguments) = (inputs.path("tools"), inputs.path("arguments"));
    fs::create_dir(&tools).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >{}\nexit 1\n", arguments.display());
    fs::write(tools.join("launcher-image"), script).unwrap();
    let mode = Permissions::from_mode(0o755);
    fs::set_permissions(tools.join("launcher-image"), mode).unwrap();
    let output = Command::new(workspace().join("scripts/build-launcher-image"))
        .arg("--context")
        .arg(inputs.path("context"))
        .env("TOOLS", tools)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let output = fs::read_to_string(arguments).unwrap();
    assert_eq!(output, format!("--check --architecture {architecture}\n"));
}

/// The annotations of a VM can mount a hook with any name that has no prefix `image-`, in place of a hook of the image.
#[test]
fn hook_name_without_image_prefix_is_refused() {
    let inputs = Inputs::new();
    let hook = inputs.path("hooks/image-smbios");
    fs::rename(hook, inputs.path("hooks/audit")).unwrap();
    let output = inputs.build_error();
    assert!(output.contains("audit: rename it to image-"), "{output}");
}

#[test]
fn invalid_hook_yaml_is_refused() {
    let inputs = Inputs::new();
    fs::write(inputs.path("hooks/image-smbios/hook.yaml"), "nonsense: [\n").unwrap();
    assert!(inputs.build_error().contains("hook.yaml"));
}

#[test]
fn module_that_violates_the_policy_is_refused() {
    let inputs = Inputs::new();
    inputs.write_policy("allow:\n  paths: [/domain/title]\n");
    let stderr = inputs.build_error();
    assert!(
        stderr.contains("/domain/os/smbios") || stderr.contains("smbios"),
        "{stderr}"
    );
}
