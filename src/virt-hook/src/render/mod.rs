//! `virt-hook render`: a VMI to domain XML, by the launcher's own conversion and chain.

mod hooks;
mod host;
mod input;

use anyhow::Context;
use domain::options::Options;
use domain::vmi::{self, Vmi};

use crate::cli::Render;
use crate::failure::Failure;
use crate::output;

/// Writes the XML to standard output.
pub(crate) fn run(arguments: &Render) -> Result<(), Failure> {
    let bytes = input::read(&arguments.vmi, vmi::MAX_BYTES)?;
    let name = input::name(&arguments.vmi);
    let vmi = Vmi::from_yaml_or_json(&bytes)
        .context(name.clone())
        .map_err(Failure::Refused)?;
    let options = match &arguments.options {
        Some(path) => input::json::<Options>(path)?,
        None => Options::default(),
    };
    let facts = match &arguments.host {
        Some(path) => input::json(path)?,
        None => host::probe(),
    };
    let mut spec = domain::convert::convert(&vmi, &options, &facts)
        .context(name.clone())
        .map_err(Failure::Refused)?;
    if arguments.prepared {
        let probe = host::AsTold {
            direct_io: facts.direct_io,
        };
        domain::prepare::driver_modes(&mut spec, &probe)
            .context(name)
            .map_err(Failure::Refused)?;
    }
    let xml = hooks::apply(&arguments.hooks, &vmi, domain::render::render(&spec))?;
    output::print(&xml)
}
