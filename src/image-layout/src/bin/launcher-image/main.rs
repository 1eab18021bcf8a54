//! Builds the launcher's image on top of KubeVirt's, without a container engine and without root.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod base_release;
mod standing_hooks_check;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use image_layout::{
    Capabilities, Image, Layer, NET_BIND_SERVICE, NewestVersion, Platform, mark_weak_versions,
    missing_version, program_architecture, symbol_versions,
};

/// The programs of the image.
const PROGRAMS: [&str; 3] = ["virt-launcher", "virt-launcher-monitor", "virt-hook"];
/// The path of KubeVirt's libvirt hook. It becomes a link to virt-hook, which is the libvirt hook under that name.
const LIBVIRT_HOOK_PATH: &str = "/usr/bin/libvirt-hook-client";
const LIBVIRT_HOOK_TARGET: &str = "virt-hook";
/// The program that gets CAP_NET_BIND_SERVICE and passes it on, for DHCP servers of uid 107.
const PROGRAM_WITH_CAPABILITY: &str = "virt-launcher-monitor";
/// The maximum size of the compressed layer in bytes.
const MAX_LAYER_BYTES: usize = 60_000_000;

/// The newest symbol versions in KubeVirt v1.9's image: CentOS Stream 9 with libvirt 11.
const BASE_VERSIONS: [NewestVersion; 3] = [
    NewestVersion {
        prefix: "GLIBC_",
        version: [2, 34],
    },
    NewestVersion {
        prefix: "LIBVIRT_",
        version: [11, 0],
    },
    NewestVersion {
        prefix: "LIBVIRT_QEMU_",
        version: [11, 0],
    },
];

/// Builds virt-launcher's image on top of KubeVirt's own, as an OCI image layout.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLE)]
struct Arguments {
    /// KubeVirt's virt-launcher image: an OCI image layout, or an OCI archive.
    #[arg(long, value_name = "PATH", required_unless_present_any = ["check", "context"])]
    base: Option<PathBuf>,
    /// Directory with virt-launcher, virt-launcher-monitor and virt-hook.
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    programs: Option<PathBuf>,
    /// The operator's policy, for /etc/virt-launcher/hook-policy.yaml.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The release of KubeVirt whose launcher this one stands in for, such as v1.9.0, for a base that does not name it in
    /// /.version. Is written to /etc/virt-launcher/kubevirt-version.
    #[arg(long, value_name = "VERSION")]
    kubevirt_version: Option<String>,
    /// Directory of standing hooks, for /etc/virt-launcher/hooks.
    #[arg(long, value_name = "DIR")]
    hooks: Option<PathBuf>,
    /// Directory that `virt-hook compile --into` wrote, for /usr/share/virt-launcher/hook-artifacts.
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
    /// The base's architecture, if it has several.
    #[arg(long, value_name = "ARCHITECTURE", default_value = "amd64")]
    architecture: String,
    /// The name of the image in the layout.
    #[arg(long, value_name = "NAME", default_value = "latest")]
    name: String,
    /// The layout to write: a new directory.
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["check", "context"])]
    output: Option<PathBuf>,
    /// Check base, its version of KubeVirt, and hooks only, before programs are built.
    #[arg(long, conflicts_with_all = ["output", "context"])]
    check: bool,
    /// Write the files of the layer into this new directory, for deploy/image/Containerfile, instead of a layout.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "base"])]
    context: Option<PathBuf>,
}

const EXAMPLE: &str = "\
Example:
  skopeo copy docker://quay.io/kubevirt/virt-launcher:v1.9.0 oci:base
  launcher-image --base base --programs target/release --policy hook-policy.yaml -o image
  skopeo copy oci:image docker://registry.example/virt-launcher:v1.9.0-wasm";

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let platform = Platform {
        os: "linux".to_owned(),
        architecture: arguments.architecture.clone(),
    };
    if let Some(hooks) = &arguments.hooks {
        standing_hooks_check::check(hooks)?;
    }
    let base = arguments.base.as_ref();
    let base = base.map(|base| Image::on(base, platform)).transpose()?;
    for line in base_release::describe(base.as_ref(), arguments.kubevirt_version.as_deref())? {
        eprintln!("{line}");
    }
    let Some(programs) = arguments.programs.as_ref().filter(|_| !arguments.check) else {
        return Ok(());
    };
    let layer = build_layer(&arguments, programs)?;
    if let Some(context) = &arguments.context {
        layer.write_tree(context)?;
    }
    let (Some(mut image), Some(output)) = (base, &arguments.output) else {
        return Ok(());
    };
    let layer = layer.compress()?;
    if layer.size() > MAX_LAYER_BYTES {
        bail!(
            "the layer has {} bytes, and at most {MAX_LAYER_BYTES} are allowed: are the programs release builds?",
            layer.size()
        );
    }
    image.push(layer, "launcher-image");
    let digest = image.write(output, &arguments.name)?;
    println!("{digest}");
    Ok(())
}

fn build_layer(arguments: &Arguments, programs: &Path) -> Result<Layer> {
    let mut layer = Layer::new();
    for name in PROGRAMS {
        let source = programs.join(name);
        let mut content = read(&source)?;
        prepare_program(&mut content, &arguments.architecture)
            .with_context(|| format!("{}", source.display()))?;
        let path = format!("/usr/bin/{name}");
        if name == PROGRAM_WITH_CAPABILITY {
            let capabilities = Capabilities::effective_and_permitted(NET_BIND_SERVICE);
            layer.capable_file(&path, 0o755, content, capabilities)?;
        } else {
            layer.file(&path, 0o755, content)?;
        }
    }
    layer.link(LIBVIRT_HOOK_PATH, LIBVIRT_HOOK_TARGET)?;
    layer.directory("/etc/virt-launcher", 0o755)?;
    if let Some(policy) = &arguments.policy {
        layer.file("/etc/virt-launcher/hook-policy.yaml", 0o644, read(policy)?)?;
    }
    if let Some(version) = &arguments.kubevirt_version {
        let text = format!("{version}\n").into_bytes();
        layer.file("/etc/virt-launcher/kubevirt-version", 0o644, text)?;
    }
    if let Some(hooks) = &arguments.hooks {
        layer.tree("/etc/virt-launcher/hooks", hooks)?;
    }
    if let Some(artifacts) = &arguments.artifacts {
        layer.directory("/usr/share/virt-launcher", 0o755)?;
        layer.tree("/usr/share/virt-launcher/hook-artifacts", artifacts)?;
    }
    Ok(layer)
}

/// Marks weak symbol versions in a program, and fails if the base's CPUs or libraries cannot run it.
fn prepare_program(program: &mut [u8], architecture: &str) -> Result<()> {
    mark_weak_versions(program, &BASE_VERSIONS)?;
    let needed = symbol_versions(program)?;
    let built_for = program_architecture(program)?;
    if built_for != architecture {
        bail!("it is for {built_for}, and the base for {architecture}");
    }
    if let Some((version, newest)) = missing_version(&BASE_VERSIONS, &needed) {
        let [major, minor] = newest.version;
        let prefix = newest.prefix;
        bail!(
            "it needs {version}, and the base has {prefix}{major}.{minor}: build it on an older system"
        );
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{}", path.display()))
}
