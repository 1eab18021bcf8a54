//! Compiles the protobuf files with protox, so that no `protoc` has to be installed.

const PROTO_FILES: [&str; 10] = [
    "kubevirt/cmd/info.proto",
    "kubevirt/cmd/v1.proto",
    "kubevirt/hooks/info.proto",
    "kubevirt/hooks/plugins/v1alpha1.proto",
    "kubevirt/hooks/v1alpha1.proto",
    "kubevirt/hooks/v1alpha2.proto",
    "kubevirt/hooks/v1alpha3.proto",
    "kubevirt/nbd.proto",
    "kubevirt/notify/info.proto",
    "kubevirt/notify/v1.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(PROTO_FILES, ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
