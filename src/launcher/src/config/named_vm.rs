//! The VM that a command line names which is otherwise invalid: virt-handler is told why it does not start.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Flags;
use crate::paths::Paths;

/// The VM whose launcher has no valid configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedVm {
    /// Namespace of the VMI.
    pub namespace: String,
    /// Name of the VMI.
    pub name: String,
    /// UID of the VMI.
    pub uid: String,
    share_dir: PathBuf,
}

impl NamedVm {
    /// The VM that this process's command line names. `None` without virt-handler: in a standalone launcher, or one that
    /// is started by hand without a name.
    pub fn of_process() -> Option<NamedVm> {
        if std::env::var_os("STANDALONE_VMI").is_some() {
            return None;
        }
        NamedVm::from_arguments(&std::env::args_os().collect::<Vec<_>>())
    }

    fn from_arguments(arguments: &[OsString]) -> Option<NamedVm> {
        let [namespace, name, uid] =
            ["namespace", "name", "uid"].map(|flag| value(arguments, flag));
        let share_dir = match value(arguments, "kubevirt-share-dir") {
            Some(directory) => directory.into(),
            None => {
                Flags::read(&["virt-launcher".into()])
                    .ok()?
                    .kubevirt_share_dir
            }
        };
        Some(NamedVm {
            namespace: namespace?,
            name: name?,
            uid: uid?,
            share_dir,
        })
    }

    /// The paths of the command socket and of virt-handler's.
    pub(crate) fn paths(&self) -> Paths {
        Paths {
            share: self.share_dir.clone(),
            ..Paths::kubevirt(false, &self.uid)
        }
    }
}

/// The last value of a flag, which is not empty: `--FLAG VALUE` or `--FLAG=VALUE`.
fn value(arguments: &[OsString], flag: &str) -> Option<String> {
    let texts: Vec<_> = arguments
        .iter()
        .map(|text| text.to_str().unwrap_or_default())
        .collect();
    let mut values = texts.iter().enumerate().filter_map(|(index, text)| {
        let rest = text.strip_prefix("--")?.strip_prefix(flag)?;
        match rest.is_empty() {
            true => texts.get(index + 1).copied(),
            false => rest.strip_prefix('='),
        }
    });
    values
        .next_back()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(command_line: &str) -> Option<NamedVm> {
        let arguments: Vec<_> = command_line.split(' ').map(OsString::from).collect();
        NamedVm::from_arguments(&arguments)
    }

    #[test]
    fn vm_is_named_beside_flags_that_are_unknown_or_invalid() {
        let vm = NamedVm {
            namespace: "default".into(),
            name: "vm1".into(),
            uid: "1234".into(),
            share_dir: "/var/run/kubevirt".into(),
        };
        for command_line in [
            "virt-launcher --qemu-timeout never --name vm1 --uid 1234 --namespace default",
            "virt-launcher --name=vm1 --bogus x --uid=1234 --namespace=default --no-fork",
            "virt-launcher --name vm0 --name vm1 --uid 1234 --namespace default --namespaces x",
        ] {
            assert_eq!(named(command_line).as_ref(), Some(&vm), "{command_line}");
        }
        let elsewhere = named(
            "virt-launcher --name vm1 --uid 1234 --namespace default --kubevirt-share-dir /x",
        );
        assert_eq!(elsewhere.map(|vm| vm.share_dir), Some("/x".into()));
    }

    #[test]
    fn launcher_without_the_names_of_a_vm_has_no_virt_handler() {
        for command_line in [
            "virt-launcher --bogus",
            "virt-launcher --name vm1 --namespace default",
            "virt-launcher --name= --uid 1234 --namespace default",
            "virt-launcher --uid 1234 --namespace default --name",
        ] {
            assert_eq!(named(command_line), None, "{command_line}");
        }
    }
}
