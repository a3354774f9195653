//! A host in a folder, with system calls that reply as a test says.

use std::cell::{RefCell, RefMut};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_cc::Registry;
use sluicegate_config::{Config, Cores};
use sluicegate_dataplane::{
    BindError, DevicePortOptions, ListenerFacts, ListenerId, OpenError, Payloads, PortError,
    SocketOptions,
};

use super::facts::HostFacts;
use super::files::HostFiles;
use super::finding::HostFinding;
use super::needs::{HostNeeds, ModelBasedListener, OpenFiles, ServedGroup};
use super::probe::{HostProbe, LoopbackExchange};
use super::sample::HostSample;

/// Keys of a listener whose clients get bbr3, in place of those of the group.
pub(super) const BBR: &str = "#bbr";

/// A host of files, which are removed when it is dropped.
pub(super) struct Scratch {
    folder: tempfile::TempDir,
    probe: RefCell<FakeProbe>,
}

/// Replies of system calls.
pub(super) struct FakeProbe {
    granted: (usize, usize),
    sockets: Option<&'static str>,
    rings: Option<fn(i32) -> io::Error>,
    ring_code: i32,
    exchange: Option<LoopbackExchange>,
    batches: Option<i32>,
    hash: Option<bool>,
    addresses: Vec<(String, IpAddr)>,
    ports: Result<(), PortError>,
    rights: Result<(), PortError>,
    may_write: bool,
}

impl Scratch {
    pub(super) fn new() -> Self {
        let exchange = LoopbackExchange { sent: 8, writes: 1, received: 8, reads: 1 };
        let probe = FakeProbe {
            granted: (8 << 20, 4 << 20),
            sockets: None,
            rings: None,
            ring_code: 0,
            exchange: Some(exchange),
            batches: None,
            hash: Some(true),
            addresses: Vec::new(),
            ports: Ok(()),
            rights: Ok(()),
            may_write: false,
        };
        Self { folder: tempfile::tempdir().unwrap(), probe: RefCell::new(probe) }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn files(&self) -> HostFiles {
        HostFiles::below(self.folder.path())
    }

    pub(super) fn probe(&self) -> RefMut<'_, FakeProbe> {
        self.probe.borrow_mut()
    }

    /// Runs a check with a group of these keys, or with another table in their place, whose listener is on port 443 of all addresses.
    pub(super) fn with<R>(&self, keys: &str, run: impl FnOnce(&mut HostFacts<'_>) -> R) -> R {
        let algorithm = if keys == BBR { "bbr3" } else { "cubic" };
        let (before, of_group) = if keys.starts_with('[') { (keys, "") } else { ("", keys) };
        let text = format!(
            "{before}\n[[group]]\nname = \"g\"\n{of_group}\n[[listener]]\nname = \"l\"\ngroup = \"g\"\naddress = \"{}\"\ntls = \"self-signed\"\n\
             congestion_control = \"{algorithm}\"\n[[route]]\npath = \"/\"\nfixed = {{}}\n",
            if keys.contains("dpdk") { "192.0.2.1:443" } else { "0.0.0.0:443" }
        );
        let config = Config::from_toml("test.toml", &text, &Registry::builtin()).unwrap();
        let model_based = ModelBasedListener {
            listener: "l".to_owned(),
            algorithm: "bbr3".to_owned(),
            is_guarded: false,
        };
        let groups = config.groups.iter().map(|group| ServedGroup {
            group,
            cores: match &group.cores {
                Cores::Auto => vec![0],
                Cores::List(list) => list.clone(),
            },
            addresses: config.listeners[0].addresses.clone(),
        });
        let needs = HostNeeds {
            config: &config,
            groups: groups.collect(),
            model_based: if keys == BBR { vec![model_based] } else { Vec::new() },
            open_files: OpenFiles {
                limit: Some(65_536),
                exchanges: 9000,
                tcp_connections: 2000,
                wanted: 4000,
            },
        };
        let mut facts = HostFacts {
            files: self.files(),
            probe: self,
            needs,
            before: HostSample::read(&self.files()),
            elapsed: Duration::from_secs(1),
            paths: Ok(Vec::new()),
        };
        run(&mut facts)
    }
}

/// Returns the only finding of a check.
pub(super) fn only(findings: Vec<HostFinding>, name: &str) -> HostFinding {
    let mut found = findings.into_iter().filter(|finding| finding.check.name == name);
    let one = found.next().unwrap();
    assert_eq!(found.next(), None);
    one
}

impl FakeProbe {
    pub(super) fn buffers(&mut self, receive: usize, send: usize) {
        self.granted = (receive, send);
    }

    pub(super) fn granted(&self) -> ListenerFacts {
        ListenerFacts {
            listener: ListenerId(0),
            address: ([127, 0, 0, 1], 1).into(),
            receive_buffer: self.granted.0,
            send_buffer: self.granted.1,
            gso: false,
            gro: false,
            payloads: Payloads::default(),
        }
    }

    pub(super) fn refuse_sockets(&mut self, reason: &'static str) {
        self.sockets = Some(reason);
    }

    pub(super) fn refuse_rings(&mut self, code: i32) {
        self.rings = Some(io::Error::from_raw_os_error);
        self.ring_code = code;
    }

    pub(super) fn refuse_rings_without_a_number(&mut self) {
        self.rings = Some(|_| io::ErrorKind::Other.into());
    }

    pub(super) fn exchanged(&mut self, exchange: LoopbackExchange) {
        self.exchange = Some(exchange);
    }

    pub(super) fn refuse_exchange(&mut self) {
        self.exchange = None;
    }

    pub(super) fn refuse_batches(&mut self, code: i32) {
        self.batches = Some(code);
    }

    pub(super) fn hash(&mut self, hash: Option<bool>) {
        self.hash = hash;
    }

    pub(super) fn add_address(&mut self, interface: &str, address: &str) {
        self.addresses.push((interface.to_owned(), address.parse().unwrap()));
    }

    pub(super) fn refuse_ports(&mut self, error: PortError) {
        self.ports = Err(error);
    }

    pub(super) fn refuse_rights(&mut self, error: PortError) {
        self.rights = Err(error);
    }

    pub(super) fn allow_writes(&mut self, allowed: bool) {
        self.may_write = allowed;
    }
}

impl HostProbe for Scratch {
    fn sockets(&self, _: &SocketOptions, _: usize) -> Result<ListenerFacts, BindError> {
        let probe = self.probe.borrow();
        let refused = probe.sockets.map(|reason| Err(BindError::Inherited { reason }));
        refused.unwrap_or_else(|| Ok(probe.granted()))
    }

    fn rings(&self, _: &ServedGroup<'_>) -> Result<(), OpenError> {
        let probe = self.probe.borrow();
        let Some(error) = probe.rings else {
            return Ok(());
        };
        let source = error(probe.ring_code);
        Err(OpenError { backend: "io_uring", step: "a step", source, remedy: "a remedy" })
    }

    fn exchange(&self) -> io::Result<LoopbackExchange> {
        self.probe.borrow().exchange.ok_or_else(|| io::ErrorKind::Other.into())
    }

    fn batch(&self, _: &str, _: IpAddr) -> io::Result<()> {
        self.probe.borrow().batches.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    fn hashes_udp_ports(&self, _: &str, _: bool) -> io::Result<bool> {
        self.probe.borrow().hash.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn addresses(&self) -> Vec<(String, IpAddr)> {
        self.probe.borrow().addresses.clone()
    }

    fn ports(&self, _: &[(&DevicePortOptions, usize)]) -> Result<(), PortError> {
        self.probe.borrow().ports.clone()
    }

    fn port_library(&self) -> Option<String> {
        Some("DPDK 22.11.7".to_owned())
    }

    fn port_rights(&self, _: &DevicePortOptions, _: usize) -> Result<(), PortError> {
        self.probe.borrow().rights.clone()
    }

    fn may_write(&self, _: &Path) -> bool {
        self.probe.borrow().may_write
    }
}
