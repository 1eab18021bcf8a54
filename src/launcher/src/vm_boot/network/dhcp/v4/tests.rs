//! Tests of the DHCPv4 responder, whose replies are decoded by another implementation of the protocol (dhcproto).

use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode};
use dhcproto::{Decodable, Decoder, Encodable};
use proptest::prelude::*;

use super::*;

const GUEST: [u8; 6] = [2, 0, 0, 0xab, 0xcd, 0xef];
const NO_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 68);

fn lease() -> Lease4 {
    Lease4 {
        client: Some(Mac(GUEST)),
        address: "10.244.1.7/24".parse().unwrap(),
        server: [169, 254, 75, 10].into(),
        router: Some([10, 244, 1, 1].into()),
        routes: [
            ("10.96.0.0/12", [10, 244, 1, 2]),
            ("0.0.0.0/0", [10, 244, 1, 1]),
        ]
        .map(|(destination, gateway)| Route {
            destination: destination.parse().unwrap(),
            gateway: gateway.into(),
        })
        .into(),
    }
}

fn dns() -> DnsConfig {
    DnsConfig {
        v4: vec![[10, 96, 0, 10].into()],
        v6: vec![],
        search: vec!["ns.svc.cluster.local".into(), "cluster.local".into()],
    }
}

fn responder() -> Dhcpv4Responder {
    let custom = DhcpOptions {
        boot_file_name: "pxelinux.0".into(),
        tftp_server_name: "tftp.example".into(),
        ntp_servers: vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        private: vec![(224, "first".into()), (254, "x".repeat(300))],
    };
    Dhcpv4Responder::new(&lease(), 1450, "vm1", &dns(), &custom)
}

fn request(kind: MessageType, mac: [u8; 6]) -> Message {
    let mut message = Message::default();
    message.set_xid(0x1234_5678).set_chaddr(&mac);
    message.opts_mut().insert(DhcpOption::MessageType(kind));
    message
}

fn ask(
    responder: &Dhcpv4Responder,
    request: &Message,
    from: SocketAddr,
) -> Option<(Message, SocketAddr)> {
    let (reply, to) = responder.respond(&request.to_vec().unwrap(), from)?;
    assert!(reply.len() >= MIN_REPLY_BYTES);
    Some((Message::decode(&mut Decoder::new(&reply)).unwrap(), to))
}

#[test]
fn dhcp_reply_carries_all_options() {
    let discover = request(MessageType::Discover, GUEST);
    let (offer, to) = ask(&responder(), &discover, NO_ADDRESS).unwrap();
    assert_eq!(to.to_string(), "255.255.255.255:68");
    assert_eq!(
        (offer.opcode(), offer.xid()),
        (Opcode::BootReply, 0x1234_5678)
    );
    assert_eq!(offer.chaddr(), GUEST);
    assert_eq!(offer.yiaddr().to_string(), "10.244.1.7");
    let sent_option = |code: OptionCode| offer.opts().get(code).unwrap().clone();
    for option in [
        DhcpOption::MessageType(MessageType::Offer),
        DhcpOption::ServerIdentifier([169, 254, 75, 10].into()),
        DhcpOption::AddressLeaseTime(999 * 86400),
        DhcpOption::SubnetMask([255, 255, 255, 0].into()),
        DhcpOption::Router(vec![[10, 244, 1, 1].into()]),
        DhcpOption::DomainNameServer(vec![[10, 96, 0, 10].into()]),
        DhcpOption::Hostname("vm1".into()),
        DhcpOption::DomainName("ns.svc.cluster.local".into()),
        DhcpOption::InterfaceMtu(1450),
        DhcpOption::TFTPServerName(b"tftp.example".into()),
        DhcpOption::BootfileName(b"pxelinux.0".into()),
        DhcpOption::NtpServers(vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]),
        DhcpOption::ClasslessStaticRoute(vec![
            ("10.96.0.0/12".parse().unwrap(), [10, 244, 1, 2].into()),
            ("0.0.0.0/0".parse().unwrap(), [10, 244, 1, 1].into()),
        ]),
    ] {
        assert_eq!(sent_option(OptionCode::from(&option)), option);
    }
    let DhcpOption::DomainSearch(search) = sent_option(OptionCode::DomainSearch) else {
        panic!("no search list")
    };
    let search: Vec<_> = search.iter().map(|name| name.to_ascii()).collect();
    assert_eq!(search, ["ns.svc.cluster.local.", "cluster.local."]);
    let private = |code: u8| match sent_option(OptionCode::from(code)) {
        DhcpOption::Unknown(option) => option.data().to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(private(224), b"first");
    assert_eq!(private(254), b"x".repeat(300));
}

#[test]
fn dhcp_request_is_acknowledged_to_its_source() {
    let leased = SocketAddr::from(([10, 244, 1, 7], 68));
    let mut renewal = request(MessageType::Request, GUEST);
    let (ack, to) = ask(&responder(), &renewal, leased).unwrap();
    assert!(ack.opts().has_msg_type(MessageType::Ack));
    assert_eq!(to, leased);
    renewal.set_flags(Flags::default().set_broadcast());
    let (ack, to) = ask(&responder(), &renewal, leased).unwrap();
    assert_eq!(to.to_string(), "255.255.255.255:68");
    assert!(ack.flags().broadcast());
}

#[test]
fn other_clients_and_messages_are_not_answered() {
    let responder = responder();
    let other = request(MessageType::Discover, [2, 0, 0, 0, 0, 1]);
    assert!(ask(&responder, &other, NO_ADDRESS).is_none());
    for kind in [
        MessageType::Release,
        MessageType::Inform,
        MessageType::Decline,
        MessageType::Offer,
    ] {
        assert!(
            ask(&responder, &request(kind, GUEST), NO_ADDRESS).is_none(),
            "{kind:?}"
        );
    }
    let mut reply = request(MessageType::Discover, GUEST);
    reply.set_opcode(Opcode::BootReply);
    assert!(ask(&responder, &reply, NO_ADDRESS).is_none());
    let anyone = Lease4 {
        client: None,
        ..lease()
    };
    let anyone = Dhcpv4Responder::new(&anyone, 1500, "vm1", &dns(), &DhcpOptions::default());
    assert!(ask(&anyone, &other, NO_ADDRESS).is_some());
}

#[test]
fn option_without_a_value_is_not_sent() {
    let lease = Lease4 {
        router: None,
        routes: vec![],
        ..lease()
    };
    let minimal = Dhcpv4Responder::new(
        &lease,
        70_000,
        "",
        &DnsConfig::default(),
        &DhcpOptions::default(),
    );
    let (offer, _) = ask(&minimal, &request(MessageType::Discover, GUEST), NO_ADDRESS).unwrap();
    let codes: Vec<u8> = offer
        .opts()
        .iter()
        .map(|(code, _)| (*code).into())
        .collect();
    assert_eq!(
        codes,
        [
            SUBNET_MASK,
            INTERFACE_MTU,
            LEASE_TIME,
            MESSAGE_TYPE,
            SERVER_IDENTIFIER
        ]
    );
    assert_eq!(
        offer.opts().get(OptionCode::InterfaceMtu),
        Some(&DhcpOption::InterfaceMtu(u16::MAX))
    );
}

#[test]
fn search_list_is_cut_to_the_options_size() {
    let domains: Vec<String> = (0..9)
        .map(|number| format!("{}.{number}", "d".repeat(40)))
        .collect();
    let list = encode_search_list(&domains);
    assert_eq!(list.len(), 5 * 44);
}

proptest! {
    #[test]
    fn any_packet_gets_a_valid_reply_or_none(
        header in prop::collection::vec(any::<u8>(), 0..240),
        kind in any::<u8>(),
        options in prop::collection::vec(any::<u8>(), 0..60),
        has_valid_header in any::<bool>(),
    ) {
        let mut packet = header;
        if has_valid_header {
            packet.resize(HEADER_BYTES, 0);
            packet[0] = BOOTREQUEST;
            packet[2] %= 20;
            packet[236..].copy_from_slice(&MAGIC_COOKIE);
            packet.extend([MESSAGE_TYPE, 1, kind % 9]);
        }
        packet.extend(options);
        let anyone = Lease4 { client: None, ..lease() };
        let responder = Dhcpv4Responder::new(&anyone, 1500, "vm1", &dns(), &DhcpOptions::default());
        if let Some((reply, _)) = responder.respond(&packet, NO_ADDRESS) {
            let reply = Message::decode(&mut Decoder::new(&reply)).unwrap();
            prop_assert_eq!(reply.yiaddr(), responder.address());
            prop_assert_eq!(reply.xid(), u32::from_be_bytes(packet[4..8].try_into().unwrap()));
        } else if has_valid_header {
            prop_assert!(!matches!(kind % 9, DISCOVER | DHCP_REQUEST) || packet[2] > MAX_HARDWARE_ADDRESS_BYTES);
        }
    }
}
