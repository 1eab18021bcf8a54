//! The configuration of a chain, which all its calls share.

use std::path::PathBuf;

use crate::Limits;
use crate::kubevirt_plugins::LoadModule;
use crate::pod_facts::PodFactSource;
use crate::policy::OperatorPolicy;
use crate::record::RecordWriter;

/// Configuration that all calls share.
#[derive(Default)]
pub(crate) struct ChainConfig {
    pub(crate) limits: Limits,
    pub(crate) recorder: Option<RecordWriter>,
    pub(crate) operator: Option<OperatorPolicy>,
    pub(crate) plugins_dir: PathBuf,
    pub(crate) plugin_modules: Option<Box<dyn LoadModule>>,
    pub(crate) pod: PodFactSource,
}

/// A function that runs before the hooks of each hook point are called.
pub(crate) type BeforeCall = Box<dyn Fn() + Send + Sync>;
