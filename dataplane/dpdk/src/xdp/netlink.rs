//! Which XDP program an interface has, asked by rtnetlink(7).

use std::io::{self, Read as _};

use socket2::{Domain, Protocol, Socket, Type};

/// Types of messages, in linux/rtnetlink.h and linux/netlink.h.
const ERROR: u16 = 2;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
/// Flags of a request, and of one whose outcome is to be reported.
const REQUEST: u16 = 1;
const ACK: u16 = 4;

/// Attributes of an interface, in linux/if_link.h.
const XDP: u16 = 43;
const XDP_FD: u16 = 1;
const XDP_PROGRAM_ID: u16 = 4;
const NESTED: u16 = 0x8000;

/// Length of the headers of a message and of an interface.
const MESSAGE: usize = 16;
const INTERFACE: usize = 16;

/// Returns the number of the XDP program on an interface.
pub(super) fn program_id(interface: u32) -> io::Result<Option<u32>> {
    let reply = ask(GET_LINK, REQUEST, interface, &[])?;
    let (kind, body) = message(&reply)?;
    if kind != NEW_LINK {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let id = attribute(body.get(INTERFACE..).unwrap_or_default(), XDP)
        .and_then(|xdp| attribute(xdp, XDP_PROGRAM_ID))
        .and_then(|id| id.first_chunk().copied());
    Ok(id.map(u32::from_ne_bytes).filter(|id| *id != 0))
}

/// Removes the XDP program of an interface, unless its process holds it there.
pub(super) fn detach(interface: u32) -> io::Result<()> {
    set(interface, -1)
}

/// Puts an XDP program on an interface, in place of another one, until it is removed; removes the one there if `program` is -1.
pub(super) fn set(interface: u32, program: i32) -> io::Result<()> {
    let mut xdp = header(12, XDP | NESTED);
    xdp.extend(header(8, XDP_FD));
    xdp.extend(program.to_ne_bytes());
    message(&ask(SET_LINK, REQUEST | ACK, interface, &xdp)?).map(drop)
}

/// Sends a request about an interface, and returns the reply.
fn ask(kind: u16, flags: u16, interface: u32, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(MESSAGE + INTERFACE + attributes.len()).map_err(io::Error::other)?;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // Sequence and port; family, padding and type.
    request.extend([0; 12]);
    request.extend(interface.to_ne_bytes());
    // Flags and their mask.
    request.extend([0; 8]);
    request.extend(attributes);
    let route = Protocol::from(libc::NETLINK_ROUTE);
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(route))?;
    socket.send(&request)?;
    let mut reply = vec![0; 1 << 16];
    let length = socket.read(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

/// Returns the type and the body of a reply.
fn message(reply: &[u8]) -> io::Result<(u16, &[u8])> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let (header, body) = reply.split_first_chunk::<MESSAGE>().ok_or_else(invalid)?;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    if kind == ERROR {
        let code = body.first_chunk().ok_or_else(invalid)?;
        // A negated error number; 0 says that it is done.
        match i32::from_ne_bytes(*code) {
            0 => {}
            code => return Err(io::Error::from_raw_os_error(-code)),
        }
    }
    Ok((kind, body))
}

fn header(length: u16, kind: u16) -> Vec<u8> {
    [length.to_ne_bytes(), kind.to_ne_bytes()].concat()
}

/// Returns the value of an attribute.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let &[l0, l1, k0, k1] = bytes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        if u16::from_ne_bytes([k0, k1]) & !NESTED == wanted {
            return bytes.get(4..length);
        }
        bytes = bytes.get(length.max(4).next_multiple_of(4)..)?;
    }
}
