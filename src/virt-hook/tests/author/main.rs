//! The verbs of whoever writes a hook, as they are typed.
#![allow(clippy::unwrap_used)]

mod bench;
mod cases;
mod check;
mod compare;
mod compile;
mod desk;
mod dev;
mod image;
mod inspect_run_render;
mod new;
#[path = "../pod/mod.rs"]
mod pod;
mod policy;
mod signatures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pod::POLICY;
use serde_json::Value;

/// The program under test, with nothing of the environment that changes what it shows.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_virt-hook"));
    command.env_remove("NO_COLOR");
    command
}

/// Exit code, standard output, standard error.
struct Said {
    code: i32,
    out: String,
    err: String,
}

fn virt_hook(arguments: &[&str]) -> Said {
    said(&program().args(arguments).output().unwrap())
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

impl Said {
    /// Standard output of a run that went well.
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// The one document that there is, and whether it says the same as the exit code.
    #[track_caller]
    fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.out).unwrap();
        assert_eq!(value["ok"], self.code == 0, "{}{}", self.out, self.err);
        value
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn smbios() -> PathBuf {
    pod::example("smbios-hook")
}

const VMI: &str = "metadata:\n  name: vm\n  namespace: ns\n  annotations:\n    \
    smbios.vm.kubevirt.io/baseBoardManufacturer: Radical Edward\n    do: nothing\nspec:\n  \
    domain:\n    devices: {}\n    memory: {guest: 64Mi}\n";

/// A VMI that the smbios example acts on.
fn vmi(directory: &Path) -> PathBuf {
    write(directory, "vmi.yaml", VMI)
}

fn write(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}
