//! Tests of the DHCPv6 responder, whose replies are decoded by another implementation of the protocol (dhcproto).

use dhcproto::v6::{DhcpOption, IAAddr, IANA, Message, MessageType, OptionCode, Status};
use dhcproto::{Decodable, Decoder, Encodable};
use proptest::prelude::*;

use super::*;

fn from() -> SocketAddr {
    "[fe80::2%7]:546".parse().unwrap()
}

fn responder() -> Dhcpv6Responder {
    let dns: Vec<Ipv6Addr> = vec!["fd00::10".parse().unwrap()];
    Dhcpv6Responder::new(
        "fd10:0:2::2".parse().unwrap(),
        Some(Mac([2, 0, 0, 0, 0, 0])),
        &dns,
    )
}

fn request(kind: MessageType) -> Message {
    let mut message = Message::new_with_id(kind, [1, 2, 3]);
    message
        .opts_mut()
        .insert(DhcpOption::ClientId(vec![0, 3, 0, 1, 2, 0, 0, 0, 0, 9]));
    message.opts_mut().insert(DhcpOption::IANA(IANA {
        id: 0x0506_0708,
        t1: 9,
        t2: 9,
        opts: Default::default(),
    }));
    message
}

fn ask(request: &Message) -> Option<Message> {
    let (reply, to) = responder().respond(&request.to_vec().unwrap(), from())?;
    assert_eq!(to, from());
    Some(Message::decode(&mut Decoder::new(&reply)).unwrap())
}

fn address(reply: &Message) -> Option<IAAddr> {
    match reply.opts().get(OptionCode::IANA)? {
        DhcpOption::IANA(IANA {
            id: 0x0506_0708,
            t1: 0,
            t2: 0,
            opts,
        }) => match opts.get(OptionCode::IAAddr)? {
            DhcpOption::IAAddr(address) => Some(address.clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn dhcp_reply_carries_the_address() {
    for (request_type, reply_type) in [
        (MessageType::Solicit, MessageType::Advertise),
        (MessageType::Request, MessageType::Reply),
        (MessageType::Renew, MessageType::Reply),
        (MessageType::Rebind, MessageType::Reply),
    ] {
        let reply = ask(&request(request_type)).unwrap();
        assert_eq!((reply.msg_type(), reply.xid()), (reply_type, [1, 2, 3]));
        let address = address(&reply).unwrap();
        assert_eq!(address.addr.to_string(), "fd10:0:2::2");
        assert_eq!(
            (address.preferred_life, address.valid_life),
            (999 * 86400, 999 * 86400)
        );
        let opts = reply.opts();
        assert_eq!(
            opts.get(OptionCode::ServerId),
            Some(&DhcpOption::ServerId(vec![0, 3, 0, 1, 2, 0, 0, 0, 0, 0]))
        );
        assert_eq!(
            opts.get(OptionCode::ClientId),
            request(request_type).opts().get(OptionCode::ClientId)
        );
        assert_eq!(
            opts.get(OptionCode::DomainNameServers),
            Some(&DhcpOption::DomainNameServers(vec![
                "fd00::10".parse().unwrap()
            ]))
        );
    }
}

#[test]
fn rapid_commit_is_answered_at_once() {
    let mut solicit = request(MessageType::Solicit);
    solicit.opts_mut().insert(DhcpOption::RapidCommit);
    let reply = ask(&solicit).unwrap();
    assert_eq!(reply.msg_type(), MessageType::Reply);
    assert!(reply.opts().get(OptionCode::RapidCommit).is_some());
    assert!(address(&reply).is_some());
}

#[test]
fn information_confirm_and_release_replies_have_no_address() {
    let mut inform = request(MessageType::InformationRequest);
    inform.opts_mut().remove(OptionCode::ClientId);
    let reply = ask(&inform).unwrap();
    assert_eq!(
        (reply.msg_type(), address(&reply)),
        (MessageType::Reply, None)
    );
    for kind in [MessageType::Confirm, MessageType::Release] {
        let reply = ask(&request(kind)).unwrap();
        assert_eq!(address(&reply), None);
        let Some(DhcpOption::StatusCode(status)) = reply.opts().get(OptionCode::StatusCode) else {
            panic!("{reply:?}")
        };
        assert_eq!(status.status, Status::Success);
    }
}

#[test]
fn other_messages_and_requests_without_a_client_id_are_not_answered() {
    let mut without_client_id = request(MessageType::Request);
    without_client_id.opts_mut().remove(OptionCode::ClientId);
    assert!(ask(&without_client_id).is_none());
    for kind in [
        MessageType::Advertise,
        MessageType::Reply,
        MessageType::Decline,
        MessageType::RelayForw,
    ] {
        assert!(ask(&request(kind)).is_none(), "{kind:?}");
    }
}

proptest! {
    #[test]
    fn any_packet_gets_a_valid_reply_or_none(
        kind in 0u8..16,
        options in prop::collection::vec((0u16..30, prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..5),
    ) {
        let mut packet = vec![kind, 1, 2, 3];
        for (code, value) in &options {
            put(&mut packet, *code, value);
        }
        packet.extend(&tail);
        if let Some((reply, _)) = responder().respond(&packet, from()) {
            let reply = Message::decode(&mut Decoder::new(&reply)).unwrap();
            prop_assert_eq!(reply.xid(), [1, 2, 3]);
            prop_assert!(tail.len() != 1);
        }
    }

    #[test]
    fn any_bytes_are_accepted_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = responder().respond(&bytes, from());
    }
}
