//! The admission policies of `deploy/admission`, evaluated on the pods that virt-controller renders
//! (`tests/corpus/rendered-pods`). The evaluation itself is compared with a real API server's answers in `evaluator_matches_api_server`.
#![allow(clippy::unwrap_used)]

mod cel_expression;
mod deployed_modules;
mod emulated_api_server;
mod evaluator_matches_api_server;
mod foreign_sidecar_images_refused;
mod hook_guard;
mod kustomizations;
mod overlay_additions;
mod pod_corpus;
mod policy_files;
mod real_api_server;
mod shipped_policies;
mod stored_objects;
