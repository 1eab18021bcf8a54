//! The sample VMIs on which every hook is checked.

use std::path::PathBuf;

use anyhow::anyhow;
use hook_host::Invocation;

use crate::exit_codes::Failure;
use crate::inputs::{VmiInput, VmiSource, input_file};

/// From the smallest VMI to those with the most devices.
const BUILT_IN: [(&str, &str); 6] = [
    ("minimal", include_str!("sample_vmis/minimal.yaml")),
    ("linux", include_str!("sample_vmis/linux.yaml")),
    ("windows", include_str!("sample_vmis/windows.yaml")),
    ("disks", include_str!("sample_vmis/disks.yaml")),
    ("networks", include_str!("sample_vmis/networks.yaml")),
    ("performance", include_str!("sample_vmis/performance.yaml")),
];

/// A VMI with its name in findings.
pub(super) struct SampleVmi {
    pub(super) name: String,
    pub(super) input: VmiInput,
    pub(super) is_built_in: bool,
}

/// The built-in VMIs, then those of the command line.
pub(super) fn sample_vmis(given: &[PathBuf]) -> Result<Vec<SampleVmi>, Failure> {
    let mut samples = Vec::new();
    for (name, yaml) in BUILT_IN {
        let input = VmiInput::on_any_node(yaml).map_err(|failure| built_in(name, &failure))?;
        samples.push(SampleVmi {
            name: name.to_owned(),
            input,
            is_built_in: true,
        });
    }
    for path in given {
        let inputs = VmiSource::on_any_node(path).read_all()?;
        let several = inputs.len() > 1;
        samples.extend(inputs.into_iter().map(|input| {
            let Invocation {
                namespace, name, ..
            } = &input.invocation;
            let name = match several {
                true => format!("{namespace}/{name}"),
                false => input_file::name(path),
            };
            SampleVmi {
                name,
                input,
                is_built_in: false,
            }
        }));
    }
    Ok(samples)
}

/// An error in a built-in VMI, which is this program's own fault.
fn built_in(name: &str, failure: &Failure) -> Failure {
    Failure::machine(anyhow!("the built-in VMI {name}: {failure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_vmis_have_the_listed_names() -> Result<(), Failure> {
        let samples = sample_vmis(&[])?;
        assert_eq!(samples.len(), BUILT_IN.len());
        for SampleVmi { name, input, .. } in samples {
            assert_eq!(input.invocation.name, name);
        }
        Ok(())
    }
}
