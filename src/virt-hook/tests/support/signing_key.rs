//! Makes keys for signatures of modules with `openssl`.
#![allow(unreachable_pub, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A private key for signatures of modules, with its public half beside it as `NAME.pub`.
pub fn signing_key(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let public = path.with_extension("pub");
    let openssl = |arguments: &[&str], out: &Path| {
        let output = Command::new("openssl")
            .args(arguments)
            .arg("-out")
            .arg(out)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}");
    };
    let curve = "ec_paramgen_curve:P-256";
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", curve], &path);
    openssl(&["pkey", "-in", path.to_str().unwrap(), "-pubout"], &public);
    path
}
