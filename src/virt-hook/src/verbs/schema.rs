//! `virt-hook schema`: prints the JSON schema of a file that people write, for editors.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use crate::output::{Report, Style};
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  virt-hook schema policy > hook-policy.schema.json
  virt-hook schema hook.yaml > hook-yaml.schema.json

An editor with a YAML language server then checks and completes a file that begins with the line
  # yaml-language-server: $schema=hook-policy.schema.json

Exit codes:
  0  the schema is on standard output";

/// Arguments of `virt-hook schema`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the schema describes
    #[arg(value_name = "NAME")]
    name: SchemaName,
}

/// What there is a schema of.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SchemaName {
    /// The settings of a VM's owner for a module
    #[value(name = "hook.yaml")]
    HookYaml,
    /// The operator's policy
    Policy,
    /// What a module says about itself, without an SDK
    Description,
}

impl SchemaName {
    fn text(self) -> &'static str {
        match self {
            Self::HookYaml => include_str!("../../../../docs/hook-yaml.schema.json"),
            Self::Policy => include_str!("../../../../docs/hook-policy.schema.json"),
            Self::Description => include_str!("../../../../docs/hook-description.schema.json"),
        }
    }
}

/// A schema.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct SchemaReport {
    schema: Value,
    #[serde(skip)]
    text: &'static str,
}

pub(crate) fn run(arguments: &Arguments) -> Result<SchemaReport, Failure> {
    let text = arguments.name.text();
    Ok(SchemaReport {
        schema: serde_json::from_str(text).map_err(Failure::internal)?,
        text,
    })
}

impl Report for SchemaReport {
    fn text(&self, _: Style) -> String {
        self.text.to_owned()
    }
}
