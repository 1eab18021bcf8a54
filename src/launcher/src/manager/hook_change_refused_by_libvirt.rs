//! The error of a change that a hook made to the domain and libvirt refused.

use hook_host::printable;

use crate::libvirt_client::response_text;

/// Maximum length of a hook's name, and of the path of its change, in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// A hook's change of the domain that libvirt refused.
#[derive(Debug, thiserror::Error)]
#[error("{error} (hook {hook} changed {path})")]
pub struct RefusedHookChange {
    /// libvirt's error.
    pub error: libvirt::Error,
    /// The hook that last changed the refused element.
    pub hook: String,
    /// The path of the element.
    pub path: String,
}

impl RefusedHookChange {
    /// `hook` and `path` are escaped and cut.
    pub(super) fn new(error: libvirt::Error, hook: &str, path: &str) -> RefusedHookChange {
        RefusedHookChange {
            error,
            hook: printable(hook, MAX_NAME_BYTES),
            path: printable(path, MAX_NAME_BYTES),
        }
    }

    /// The text of a `Response`.
    pub(super) fn message(&self) -> String {
        let RefusedHookChange { error, hook, path } = self;
        format!("{} (hook {hook} changed {path})", response_text(error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::command_error::CommandError;

    /// libvirt quotes the values that it refuses, and hooks and the VM's owner write them.
    #[test]
    fn errors_of_libvirt_are_printable() {
        let unprintable = ('\0'..=char::MAX).filter(|c| !hook_host::is_printable(*c));
        let groups: Vec<char> = unprintable.collect();
        for group in groups.chunks(100) {
            let text: String = group.iter().collect();
            let error = || {
                CommandError::Libvirt(libvirt::Error {
                    code: 27,
                    domain: 20,
                    message: format!("XML error: unknown model '{text}'"),
                })
            };
            let named =
                error().with_hook(|_| Some(("painter".to_owned(), format!("/domain/{text}"))));
            for error in [error(), named] {
                for printed in [error.message(), error.to_string()] {
                    assert!(printed.chars().all(hook_host::is_printable), "{printed}");
                }
            }
        }
    }
}
