//! Tests with real links and sockets: the pod is a network namespace, and the guest is another one with a link to the
//! bridge.

mod pod;
mod rerun_in_namespaces;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use dhcproto::v4::{DhcpOption, Message, MessageType, OptionCode};
use dhcproto::{Decodable, Decoder, Encodable, v6};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

use pod::Pod;
use rerun_in_namespaces::{Side, side};

const GUEST: [u8; 6] = [2, 0, 0, 0xab, 0xcd, 0xef];
/// Enough for a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before a request is sent again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Sends requests until there is an answer, as DHCP clients do: a bridge forwards nothing before it has noticed that the guest
/// is plugged in.
fn exchange(local: SocketAddr, remote: SocketAddr, requests: &[Vec<u8>]) -> Vec<u8> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP)).unwrap();
    socket.bind_device(Some(b"guest0")).unwrap();
    socket.set_broadcast(true).unwrap();
    socket.bind(&local.into()).unwrap();
    let socket = std::net::UdpSocket::from(socket);
    socket.set_read_timeout(Some(RETRY_INTERVAL)).unwrap();
    let end = Instant::now() + STEP_TIMEOUT;
    let mut answer = [0; 1500];
    loop {
        for request in requests {
            socket.send_to(request, remote).unwrap();
        }
        match socket.recv(&mut answer) {
            Ok(length) => return answer[..length].to_vec(),
            Err(error) => assert!(Instant::now() < end, "no answer: {error}"),
        }
    }
}

fn ask(requests: &[Message]) -> Message {
    let requests: Vec<_> = requests
        .iter()
        .map(|request| request.to_vec().unwrap())
        .collect();
    let (from, to) = ((Ipv4Addr::UNSPECIFIED, 68), (Ipv4Addr::BROADCAST, 67));
    let answer = exchange(from.into(), to.into(), &requests);
    Message::decode(&mut Decoder::new(&answer)).unwrap()
}

fn request(kind: MessageType, mac: [u8; 6]) -> Message {
    let mut message = Message::default();
    message
        .set_chaddr(&mac)
        .opts_mut()
        .insert(DhcpOption::MessageType(kind));
    message
}

#[test]
fn masqueraded_guest_gets_addresses() {
    match side("vm_boot::network::tests::masqueraded_guest_gets_addresses") {
        Side::Outside => {}
        Side::Pod => rerun_in_namespaces::run(async |guest| {
            let pod = Pod::new(
                "ip addr add 192.0.2.5/24 dev eth0; ip addr add 2001:db8::5/64 dev eth0 nodad
                 ip addr add 10.0.2.1/24 dev k6t-eth0; ip addr add fe80::1/64 dev k6t-eth0 nodad",
            );
            for _again in 0..2 {
                let interface = pod
                    .connect(json!({"name": "default", "masquerade": {}}))
                    .await
                    .unwrap();
                let target = interface.target.unwrap();
                assert_eq!(
                    (target.device.as_str(), target.managed.as_str()),
                    ("tap0", "no")
                );
                assert_eq!(interface.mac.unwrap().mac, "02:00:00:ab:cd:ef");
                assert_eq!(interface.mtu.unwrap().size, "1450");
            }
            guest.plug("guest0").await;
        }),
        Side::Guest => {
            rerun_in_namespaces::shell("ip addr add fe80::2/64 dev guest0 nodad");
            let offer = ask(&[request(MessageType::Discover, GUEST)]);
            assert!(offer.opts().has_msg_type(MessageType::Offer));
            let ack = ask(&[request(MessageType::Request, GUEST)]);
            assert!(ack.opts().has_msg_type(MessageType::Ack));
            assert_eq!(ack.yiaddr().to_string(), "10.0.2.2");
            let sent_option = |code| ack.opts().get(code).unwrap().clone();
            assert_eq!(
                sent_option(OptionCode::Router),
                DhcpOption::Router(vec![[10, 0, 2, 1].into()])
            );
            assert_eq!(
                sent_option(OptionCode::InterfaceMtu),
                DhcpOption::InterfaceMtu(1450)
            );
            assert_eq!(
                sent_option(OptionCode::Hostname),
                DhcpOption::Hostname("vm1".into())
            );
            assert_eq!(
                sent_option(OptionCode::DomainName),
                DhcpOption::DomainName("sub.ns.svc.c.local".into())
            );
            let mut solicit = v6::Message::new_with_id(v6::MessageType::Solicit, [1, 2, 3]);
            solicit
                .opts_mut()
                .insert(v6::DhcpOption::ClientId(vec![0, 3, 0, 1, 2, 0, 0, 0, 0, 9]));
            let on_link = |address: &str, port: u16| {
                format!(
                    "[{address}%{}]:{port}",
                    rerun_in_namespaces::index("guest0")
                )
                .parse()
                .unwrap()
            };
            let (from, to) = (on_link("fe80::2", 546), on_link("ff02::1:2", 547));
            let answer = exchange(from, to, &[solicit.to_vec().unwrap()]);
            let answer = v6::Message::decode(&mut Decoder::new(&answer)).unwrap();
            assert_eq!(
                (answer.msg_type(), answer.xid()),
                (v6::MessageType::Advertise, [1, 2, 3])
            );
        }
    }
}

/// The used fields of the file in which virt-handler leaves the pod's address.
fn vif_cache() -> Value {
    json!({
        "IP": {"IP": "10.244.1.7", "Mask": "////AA=="}, "MAC": "AgAAq83v", "Gateway": "10.244.1.1",
        "Routes": [{"Dst": null, "Gw": "10.244.1.1"}], "IPAMDisabled": false,
    })
}

const BRIDGE_BINDING_LINKS: &str = "
    ip addr add 169.254.75.10/32 dev k6t-eth0
    ip link add eth0-nic type veth peer name other
    ip link set eth0-nic mtu 1400";
const CREATE_BRIDGE_AGAIN: &str = "
    ip link del k6t-eth0
    ip link add k6t-eth0 type bridge
    ip link set k6t-eth0 address 02:00:00:00:00:00
    ip link set k6t-eth0 up
    ip addr add 169.254.75.10/32 dev k6t-eth0
    ip link set tap0 master k6t-eth0";

#[test]
fn only_a_bridged_guest_gets_the_pods_address() {
    match side("vm_boot::network::tests::only_a_bridged_guest_gets_the_pods_address") {
        Side::Outside => {}
        Side::Pod => rerun_in_namespaces::run(async |guest| {
            let pod = Pod::new(BRIDGE_BINDING_LINKS);
            pod.write_vif_cache(vif_cache().to_string());
            let interface =
                json!({"name": "default", "bridge": {}, "dhcpOptions": {"bootFileName": "b"}});
            pod.connect(interface.clone()).await.unwrap();
            // When an interface is unplugged and plugged in again, virt-handler creates its bridge again.
            rerun_in_namespaces::shell(CREATE_BRIDGE_AGAIN);
            pod.connect(interface).await.unwrap();
            guest.plug("guest0").await;
        }),
        Side::Guest => {
            let stranger = request(MessageType::Discover, [2, 0, 0, 0, 0, 1]);
            let offer = ask(&[stranger, request(MessageType::Discover, GUEST)]);
            assert_eq!(offer.chaddr(), GUEST);
            assert_eq!(offer.yiaddr().to_string(), "10.244.1.7");
            let sent_option = |code| offer.opts().get(code).unwrap().clone();
            let server = DhcpOption::ServerIdentifier([169, 254, 75, 10].into());
            assert_eq!(sent_option(OptionCode::ServerIdentifier), server);
            assert_eq!(
                sent_option(OptionCode::InterfaceMtu),
                DhcpOption::InterfaceMtu(1400)
            );
            assert_eq!(
                sent_option(OptionCode::BootfileName),
                DhcpOption::BootfileName(b"b".to_vec())
            );
        }
    }
}

#[test]
fn error_contains_the_name_of_a_missing_link() {
    match side("vm_boot::network::tests::error_contains_the_name_of_a_missing_link") {
        Side::Outside => {}
        Side::Guest => {}
        Side::Pod => rerun_in_namespaces::run(async |_| {
            let pod = Pod::new("");
            let file = pod.directory.path().join("vif-cache-eth0.json");
            let bridge = || pod.connect(json!({"name": "default", "bridge": {}}));
            let invalid_file = format!(
                "interface default: {}, where virt-handler leaves",
                file.display()
            );
            let error = bridge().await.unwrap_err();
            assert!(error.starts_with("interface default: reading /"), "{error}");
            assert!(
                error.contains("vif-cache-eth0.json") && error.contains("No such file"),
                "{error}"
            );
            pod.write_vif_cache("{");
            let error = bridge().await.unwrap_err();
            assert!(
                error.starts_with(&invalid_file) && error.contains("not virt-handler's JSON"),
                "{error}"
            );
            pod.write_vif_cache(vec![b' '; 2 << 20]);
            let error = bridge().await.unwrap_err();
            assert!(error.contains("more than the 1048576 bytes"), "{error}");
            pod.write_vif_cache(vif_cache().to_string());
            let error = bridge().await.unwrap_err();
            assert!(error.contains("the pod has no link eth0-nic"), "{error}");
            // Without DHCP the bridge binding needs no further link.
            pod.write_vif_cache(r#"{"IPAMDisabled": true}"#);
            assert!(bridge().await.is_ok());
            rerun_in_namespaces::shell("ip link del eth0");
            let error = bridge().await.unwrap_err();
            assert!(error.contains("the pod has no link eth0;"), "{error}");
        }),
    }
}
