//! `<launchSecurity>`: AMD SEV and SEV-SNP, Intel TDX, and protected virtualization of s390x.

use kubevirt_api::typed_xml::element;

element! {
    /// Confidential computing: SEV, SEV-SNP, TDX or protected virtualization.
    LaunchSecurity {
        kind: String = attr "type" => "Type";
        dh_cert: String = child "dhCert" when set => "DHCert";
        session: String = child "session" when set => "Session";
        cbitpos: String = child "cbitpos" when set => "Cbitpos";
        reduced_phys_bits: String = child "reducedPhysBits" when set => "ReducedPhysBits";
        policy: String = child "policy" when set => "Policy";
        quote_generation_service: Option<QuoteGenerationService> = child "quoteGenerationService" => "QuoteGenerationService";
    }

    /// The socket of the service that generates TDX quotes.
    QuoteGenerationService {
        path: String = attr "path" when set => "Path";
    }
}
