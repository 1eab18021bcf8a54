//! Elements of the memory balloon, the random number generator, TPM and watchdog.

use kubevirt_api::typed_xml::element;

use super::{Address, Alias};

element! {
    /// The memory balloon.
    MemBalloon {
        model: String = attr "model" => "Model";
        stats: Option<Stats> = child "stats" => "Stats";
        address: Option<Address> = child "address" => "Address";
        driver: Option<MemBalloonDriver> = child "driver" => "Driver";
        free_page_reporting: String = attr "freePageReporting" when set => "FreePageReporting";
    }

    /// Driver settings of the balloon.
    MemBalloonDriver {
        iommu: String = attr "iommu" when set => "IOMMU";
    }

    /// The period in seconds in which guest statistics are collected.
    Stats {
        period: u64 = attr "period" => "Period";
    }

    /// A source of entropy.
    Rng {
        model: String = attr "model" => "Model";
        backend: Option<RngBackend> = child "backend" => "Backend";
        address: Option<Address> = child "address" => "Address";
        driver: Option<RngDriver> = child "driver" => "Driver";
    }

    /// Driver settings of the entropy device.
    RngDriver {
        iommu: String = attr "iommu" when set => "IOMMU";
    }

    /// The host's source of entropy.
    RngBackend {
        model: String = attr "model" => "Model";
        source: String = text => "Source";
    }

    /// A watchdog.
    Watchdog {
        model: String = attr "model" => "Model";
        action: String = attr "action" => "Action";
        alias: Option<Alias> = child "alias" => "Alias";
        address: Option<Address> = child "address" => "Address";
    }

    /// A TPM.
    Tpm {
        model: String = attr "model" => "Model";
        backend: TpmBackend = child "backend" => "Backend";
    }

    /// The backend that emulates the TPM.
    TpmBackend {
        kind: String = attr "type" => "Type";
        version: String = attr "version" => "Version";
        persistent_state: String = attr "persistent_state" when set => "PersistentState";
    }
}
