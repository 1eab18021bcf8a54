//! The users that a launcher can run as.

/// The user that the launcher runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// uid 0, libvirt's system mode.
    Root,
    /// uid 107 with `--run-as-nonroot`: KubeVirt's default.
    Nonroot,
}

impl User {
    /// The uid, which is also the gid.
    pub fn id(self) -> u32 {
        match self {
            User::Root => 0,
            User::Nonroot => 107,
        }
    }
}
