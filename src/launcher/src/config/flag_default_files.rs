//! Reads the defaults of the launcher's own flags from files in its image.

use std::path::{Path, PathBuf};

use super::Flags;

/// The directory of the defaults: a file of the flag's name contains the value.
pub(super) const DEFAULTS_DIRECTORY: &str = "/etc/virt-launcher";

impl Flags {
    /// Sets the launcher's own flags from the files in `directory`, unless the command line or the environment has set
    /// them. A file that cannot be read is ignored. `--hook-policy` is not among them: its default is a file in the
    /// directory.
    pub fn with_defaults_from(mut self, directory: &Path) -> Flags {
        let read = |name: &str| {
            let text = std::fs::read_to_string(directory.join(name)).ok()?;
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        self.hooks_dir = self
            .hooks_dir
            .or_else(|| read("hooks-dir").map(PathBuf::from));
        self.standing_hooks_dir = self
            .standing_hooks_dir
            .or_else(|| read("standing-hooks-dir").map(PathBuf::from));
        self.libvirt_uri = self.libvirt_uri.or_else(|| read("libvirt-uri"));
        self.hook_call_deadline = self
            .hook_call_deadline
            .or_else(|| read("hook-call-deadline"));
        self.hook_chain_deadline = self
            .hook_chain_deadline
            .or_else(|| read("hook-chain-deadline"));
        self.hook_sidecar_deadline = self
            .hook_sidecar_deadline
            .or_else(|| read("hook-sidecar-deadline"));
        self.hook_memory = self.hook_memory.or_else(|| read("hook-memory"));
        self.hook_compile_unconfined = self
            .hook_compile_unconfined
            .or_else(|| read("hook-compile-unconfined"));
        self.hook_record = self
            .hook_record
            .or_else(|| read("hook-record").map(PathBuf::from));
        self.hook_artifacts = self
            .hook_artifacts
            .or_else(|| read("hook-artifacts").map(PathBuf::from));
        self.kubevirt_version = self.kubevirt_version.or_else(|| read("kubevirt-version"));
        self.pod_info_dir = self
            .pod_info_dir
            .or_else(|| read("pod-info-dir").map(PathBuf::from));
        self.pod_info_wait = self.pod_info_wait.or_else(|| read("pod-info-wait"));
        self
    }
}
