//! The virtual machines that every hook is tried on.

use std::path::PathBuf;

use super::built_in;
use crate::failure::Failure;
use crate::inputs::{Given, Source, Subject, file};

/// From the smallest to those with the most different devices.
const BUILT_IN: [(&str, &str); 6] = [
    ("minimal", include_str!("spread/minimal.yaml")),
    ("linux", include_str!("spread/linux.yaml")),
    ("windows", include_str!("spread/windows.yaml")),
    ("disks", include_str!("spread/disks.yaml")),
    ("networks", include_str!("spread/networks.yaml")),
    ("performance", include_str!("spread/performance.yaml")),
];

/// A virtual machine by the name that findings call it.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) subject: Subject,
}

/// The built-in ones, then those that are given.
pub(super) fn subjects(given: &[PathBuf]) -> Result<Vec<Named>, Failure> {
    let mut subjects = Vec::new();
    for (name, yaml) in BUILT_IN {
        let subject = Subject::anywhere(yaml).map_err(|failure| built_in(name, &failure))?;
        subjects.push(Named {
            name: name.to_owned(),
            subject,
        });
    }
    for path in given {
        let source = Source {
            given: Given {
                vmi: path.clone(),
                prepared: true,
                ..Given::default()
            },
            any_node: true,
            ..Source::default()
        };
        subjects.push(Named {
            name: file::name(path),
            subject: source.read()?,
        });
    }
    Ok(subjects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_ones_are_what_their_names_say() -> Result<(), Failure> {
        let subjects = subjects(&[])?;
        assert_eq!(subjects.len(), BUILT_IN.len());
        for Named { name, subject } in subjects {
            assert_eq!(subject.invocation.name, name);
        }
        Ok(())
    }
}
