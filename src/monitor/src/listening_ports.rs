//! Which TCP ports somebody in the pod listens to, as the kernel lists them. Nothing is sent, so that rules which pass
//! connections on to the guest play no part.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// The kernel's tables of the pod's sockets: IPv4 and IPv6. A socket that listens to both is in the second one.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a socket that listens.
const LISTEN: &str = "0A";
/// How much of a table is read. A line has about 150 bytes, and sockets that listen come first.
const MAX_TABLE_BYTES: u64 = 4 * 1024 * 1024;

/// Whether a socket of the pod listens to a port, on any address. True also if the kernel does not tell.
pub(crate) fn is_listened_to(port: u16) -> bool {
    let tables = TABLES.map(|table| match File::open(table) {
        Ok(file) => has_listener(BufReader::new(file.take(MAX_TABLE_BYTES)), port),
        // A kernel without IPv6 lacks the table.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    });
    tables.into_iter().any(|found| found.unwrap_or(true))
}

fn has_listener(table: impl BufRead, port: u16) -> io::Result<bool> {
    for line in table.lines() {
        if listening_port(&line?) == Some(port) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The port of a line about a socket that listens: `NUMBER: ADDRESS:PORT REMOTE:PORT STATE ...`, in hexadecimal digits.
fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let (_, port) = local.rsplit_once(':')?;
    (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    /// A pod with Istio's sidecar: 15021 on all addresses, 15020 on IPv6's, and a connection from port 15021 that has ended.
    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:3AAD 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1337        0 8123401 1 0000000000000000 100 0 0 10 0
   1: 0100007F:3A98 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1337        0 8123377 1 0000000000000000 100 0 0 10 0
   2: 0100007F:3AAF 0100007F:C1D2 06 00000000:00000000 03:00000F4B 00000000     0        0 0 3 0000000000000000
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:3AAC 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1337        0 8123399 1 0000000000000000 100 0 0 10 0
";
    /// A pod with the default network and no sidecar: passt and DHCP use no TCP.
    const NOBODY: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
";

    #[test]
    fn port_is_found_in_recorded_tables_if_somebody_listens_to_it() {
        for (table, port, expected) in [
            (TCP, 15021, true),
            (TCP, 15000, true),
            (TCP, 15020, false),
            // A connection's own port.
            (TCP, 15023, false),
            (TCP6, 15020, true),
            (TCP6, 15021, false),
            (NOBODY, 15021, false),
            ("", 15021, false),
            ("no table\n:: 0A 0A 0A\n1: x:y z 0A\n", 15021, false),
        ] {
            assert_eq!(
                has_listener(table.as_bytes(), port).unwrap(),
                expected,
                "{port} in\n{table}"
            );
        }
    }

    #[test]
    fn listeners_of_both_families_are_found_until_they_close() {
        for listener in [
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)),
            TcpListener::bind((Ipv6Addr::LOCALHOST, 0)),
        ] {
            let Ok(listener) = listener else {
                let line = "*** NOT TESTED: a listener on IPv6: this machine lacks it ***\n";
                io::stderr().write_all(line.as_bytes()).unwrap();
                continue;
            };
            let address = listener.local_addr().unwrap();
            assert!(is_listened_to(address.port()), "{address}");
            let connection = TcpStream::connect(address).unwrap();
            drop(listener);
            assert!(!is_listened_to(address.port()), "{address}");
            drop(connection);
        }
    }
}
