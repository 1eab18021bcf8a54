//! `<qemu:commandline>`: arguments and environment variables that QEMU gets as they are.

use kubevirt_api::typed_xml::element;

element! {
    /// Arguments and environment variables that libvirt passes to QEMU.
    Commandline {
        env: Vec<Env> = child "qemu:env" => "QEMUEnv";
        arg: Vec<Arg> = child "qemu:arg" => "QEMUArg";
    }

    /// One environment variable for QEMU.
    Env {
        name: String = attr "name" => "Name";
        value: String = attr "value" => "Value";
    }

    /// One argument for QEMU.
    Arg {
        value: String = attr "value" => "Value";
    }
}
