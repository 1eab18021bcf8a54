//! The admission policies of `deploy/admission`, evaluated on the pods that virt-controller renders
//! (`tests/corpus/rendered-pods`). `recorded_verdicts` compares the evaluation with the verdicts of a real API server.
#![allow(clippy::unwrap_used)]

mod admission_request;
mod allowed_sidecar_images;
mod cel_expression;
mod emulated_api_server;
mod hook_guard;
mod kube_client;
mod kustomizations;
mod overlay_additions;
mod pod_corpus;
mod pod_validation;
mod policy_effects;
mod policy_file_consistency;
mod policy_files;
mod policy_sentinels;
mod real_api_server;
mod recorded_verdicts;
mod shipped_policies;
mod stored_manifests;
mod verdict_comparison;
mod virt_hook_deploy;
