//! The admission policies of `deploy/admission`, evaluated on the pods that virt-controller renders
//! (`tests/corpus/rendered-pods*`). `recorded_verdicts` compares the evaluation with the verdicts of a real API server.
#![allow(clippy::unwrap_used)]

mod admission_request;
mod allowed_sidecar_images_policy;
mod cel_expression;
mod emulated_api_server;
mod emulated_kustomize;
mod errors_in_expressions;
mod hook_guard;
mod kube_client;
mod kustomizations;
mod launcher_command_lines;
mod manifests_stored_by_api_server;
mod overlay_additions;
mod pod_additions;
mod pod_corpus;
mod pod_validation;
mod policy_effects_on_pods;
mod policy_enforcement_sentinels;
mod policy_file_consistency;
mod policy_files;
mod real_api_server;
mod recorded_verdicts;
mod recorded_verdicts_on_annotations;
mod shipped_policies;
mod verdict_comparison;
mod virt_hook_deploy_manifests;
