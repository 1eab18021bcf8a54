//! One case of a README: a VMI, the calls of the hook that the blocks ask for, and the comparison with their results.

use std::collections::BTreeMap;

use hook_host::{HookPoint, MigrationParameters};
use serde_json::Value;

use super::CaseFailure;
use super::fenced_blocks::{Block, texts, yaml};
use crate::deployment::{Deployment, DeploymentError, DeploymentResult};

/// A VMI and the expected results.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) vmi: String,
    pub(super) line: usize,
    pub(super) blocks: Vec<Block>,
}

impl Case {
    fn block(&self, role: &str) -> Option<&Block> {
        self.blocks.iter().find(|block| block.role == role)
    }

    pub(super) fn text(&self, role: &str) -> &str {
        self.block(role).map_or("", |block| &block.text)
    }

    pub(super) fn run(&self, deployment: &Deployment) -> Result<(), CaseFailure> {
        let deployment = &self.in_its_pod(deployment)?;
        let mut ran = 0;
        if let Some(before) = self.block("before") {
            self.define(deployment, before)?;
            ran += 1;
        }
        if let Some(before) = self.block("attached-before") {
            self.attach(deployment, before)?;
            ran += 1;
        }
        if self
            .block("user-data-after")
            .or(self.block("network-data-after"))
            .is_some()
        {
            self.cloud_init(deployment)?;
            ran += 1;
        }
        if let Some(before) = self.block("migration-before") {
            self.migrate(deployment, before)?;
            ran += 1;
        }
        if let Some(veto) = self.block("migration-veto") {
            let parameters = MigrationParameters::default();
            let refused = deployment.pre_migration_source(&self.vmi, parameters);
            expect_veto(veto, "the VM may migrate", refused)?;
            ran += 1;
        }
        if let Some(veto) = self.block("veto") {
            expect_veto(veto, "the VM may start", deployment.pre_start(&self.vmi))?;
            ran += 1;
        }
        if let Some(log) = self.block("log") {
            self.shutdown(deployment, log)?;
            ran += 1;
        }
        if ran == 0 {
            return Err((self.line, "nothing comes of this VMI".to_owned()));
        }
        Ok(())
    }

    fn in_its_pod(&self, deployment: &Deployment) -> Result<Deployment, CaseFailure> {
        let Some(block) = self.block("pod") else {
            return Ok(deployment.clone());
        };
        let pod: Value = yaml(block)?;
        let map = |name: &str| -> BTreeMap<String, String> {
            let members = pod[name].as_object().into_iter().flatten();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            members
                .map(|(key, value)| (key.clone(), text(value)))
                .collect()
        };
        let mut annotations = map("annotations");
        if let Some(status) = pod.get("networkStatus") {
            let key = "k8s.v1.cni.cncf.io/network-status".to_owned();
            annotations.insert(key, status.to_string());
        }
        Ok(deployment.clone().with_pod(annotations, map("labels")))
    }

    fn define(&self, deployment: &Deployment, before: &Block) -> Result<(), CaseFailure> {
        self.edit("after", before, |xml| {
            deployment.on_define_domain(&self.vmi, xml)
        })
    }

    fn attach(&self, deployment: &Deployment, before: &Block) -> Result<(), CaseFailure> {
        self.edit("attached-after", before, |xml| {
            deployment.on_attach_device(&self.vmi, xml)
        })
    }

    /// Compares the hook's XML with the block `after`, and runs the hook again on its own XML.
    fn edit(
        &self,
        after: &str,
        before: &Block,
        call: impl Fn(&str) -> DeploymentResult<String>,
    ) -> Result<(), CaseFailure> {
        let wrong = |message: String| (before.line, message);
        let refused = |error: DeploymentError| wrong(error.to_string());
        let expected = self.block(after).unwrap_or(before);
        let (xml, _) = call(&before.text).map_err(refused)?;
        expect_equal(expected, &xml)?;
        let (repeated, _) = call(&xml).map_err(refused)?;
        if repeated != xml {
            return Err(wrong(format!(
                "run again on its own work, it makes\n{repeated}"
            )));
        }
        Ok(())
    }

    fn cloud_init(&self, deployment: &Deployment) -> Result<(), CaseFailure> {
        let (user, network) = (self.text("user-data"), self.text("network-data"));
        let ((user_after, network_after), _) = deployment
            .pre_cloud_init_iso(&self.vmi, user, network)
            .map_err(|error| (self.line, error.to_string()))?;
        for (role, after) in [
            ("user-data-after", user_after),
            ("network-data-after", network_after),
        ] {
            if let Some(expected) = self.block(role) {
                expect_equal(expected, &after)?;
            }
        }
        Ok(())
    }

    /// Compares the parameters that the hook returns with the block `migration-after`.
    fn migrate(&self, deployment: &Deployment, before: &Block) -> Result<(), CaseFailure> {
        let refused = |message: String| (before.line, message);
        let defaults = MigrationParameters::default();
        let parameters = defaults.with_texts(&texts(before)?);
        let parameters = parameters.map_err(|error| refused(error.to_string()))?;
        let (after, _) = deployment
            .pre_migration_source(&self.vmi, parameters)
            .map_err(|error| refused(error.to_string()))?;
        let lines = after.to_texts().into_iter();
        let lines: String = lines
            .map(|(name, value)| format!("{name}: \"{value}\"\n"))
            .collect();
        expect_equal(self.block("migration-after").unwrap_or(before), &lines)
    }

    fn shutdown(&self, deployment: &Deployment, log: &Block) -> Result<(), CaseFailure> {
        let (_, runs) = deployment
            .shutdown(&self.vmi)
            .map_err(|error| (self.line, error.to_string()))?;
        let at_end = runs
            .iter()
            .filter(|run| run.hook_point == HookPoint::Shutdown);
        let lines = at_end.flat_map(|run| &run.log);
        let logged: String = lines.map(|line| format!("{}\n", line.message)).collect();
        expect_equal(log, &logged)
    }
}

fn expect_veto<T>(
    veto: &Block,
    otherwise: &str,
    result: DeploymentResult<T>,
) -> Result<(), CaseFailure> {
    match result {
        Ok(_) => Err((veto.line, otherwise.to_owned())),
        Err(error) if error.to_string().contains(veto.text.trim_end()) => Ok(()),
        Err(error) => Err((veto.line, format!("the error is: {error}"))),
    }
}

fn expect_equal(expected: &Block, found: &str) -> Result<(), CaseFailure> {
    if expected.text == found {
        return Ok(());
    }
    Err((expected.line, format!("in truth it is\n{found}")))
}
