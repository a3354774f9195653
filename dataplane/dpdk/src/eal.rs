//! The library's environment (EAL): started once per process, and ended with the last handle to it.
#![expect(unsafe_code, reason = "calls of the shim")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::Error;
use crate::{ffi, log};

/// Options of the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EalOptions {
    /// Memory to reserve, MiB.
    pub memory: u32,
    /// Whether the memory is made of huge pages.
    pub hugepages: bool,
    /// PCI addresses of the devices to open later; without any the PCI bus is left alone.
    pub pci: Vec<String>,
}

/// Handle of the running environment, which ends with the last one, for good. Each port, queue and buffer has one.
#[derive(Clone, Debug)]
pub struct Eal {
    _running: Arc<Running>,
}

/// The running environment. Only [`Eal::start`] makes one, once.
#[derive(Debug)]
struct Running(());

#[derive(Debug)]
enum State {
    Untouched,
    Running { options: EalOptions, running: Weak<Running> },
    Ended,
}

static STATE: Mutex<State> = Mutex::new(State::Untouched);

impl Eal {
    /// Starts the environment; if it runs with these options already, returns another handle.
    ///
    /// It changes the affinity of no thread of the caller's and writes to no terminal: see [`log::take_messages`].
    ///
    /// # Errors
    /// Memory or rights are missing, the environment was started with other options, or it has ended.
    pub fn start(options: &EalOptions) -> Result<Self, Error> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = "it has ended; a process can start it once";
        match &*state {
            State::Running { options: given, running } if given == options => {
                let running = running.upgrade().map(|_running| Self { _running });
                return running.ok_or_else(|| Error::because("start DPDK", ended));
            }
            State::Running { .. } => {
                let cause = "it runs already, with other options";
                return Err(Error::because("start DPDK", cause));
            }
            State::Ended => return Err(Error::because("start DPDK", ended)),
            State::Untouched => {}
        }
        // The library pins the thread that starts it.
        let arguments = arguments(options);
        let started = std::thread::Builder::new()
            .name("dpdk-start".into())
            .spawn(move || init(&arguments))
            .map_err(|e| Error::because("start DPDK", e.to_string()))?
            .join();
        // It keeps the state of a start that failed.
        *state = State::Ended;
        started.unwrap_or_else(|_| Err(Error::because("start DPDK", "its thread panicked")))?;
        let running = Arc::new(Running(()));
        *state = State::Running { options: options.clone(), running: Arc::downgrade(&running) };
        Ok(Self { _running: running })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::Ended;
        // SAFETY: the environment was started. This was the last handle, so nothing uses it any more, and nobody gets
        // another.
        unsafe { ffi::sg_eal_cleanup() };
    }
}

/// Returns the version of the library that was found when the process started, such as `DPDK 22.11.7`.
#[must_use]
pub fn version() -> String {
    // SAFETY: a string that ends with a zero and lives as long as the process; it needs no environment.
    let version = unsafe { CStr::from_ptr(ffi::sg_version()) };
    version.to_string_lossy().into_owned()
}

/// Returns the command line of the environment.
fn arguments(options: &EalOptions) -> Vec<String> {
    let mut arguments = vec![
        "sluicegate".to_owned(),
        "--no-telemetry".to_owned(),
        "--log-level=warning".to_owned(),
        format!("--lcores=0@({})", allowed_cores()),
        format!("-m{}", options.memory),
    ];
    let memory = if options.hugepages {
        "--in-memory"
    } else {
        // Huge pages are what that option is about.
        "--no-huge"
    };
    arguments.push(memory.to_owned());
    arguments.push("--no-shconf".to_owned());
    if options.pci.is_empty() {
        arguments.push("--no-pci".to_owned());
        arguments.push("--iova-mode=va".to_owned());
    }
    for address in &options.pci {
        arguments.push("-a".to_owned());
        arguments.push(address.clone());
    }
    arguments
}

/// Returns the cores of the process as a list of ranges: all of them, so that nothing is pinned.
fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or("0", str::trim).to_owned()
}

fn init(arguments: &[String]) -> Result<(), Error> {
    let refused = |_| Error::because("start DPDK", "an option holds a zero byte");
    let owned: Result<Vec<CString>, _> = arguments.iter().cloned().map(CString::new).collect();
    // The library may keep pointers into its command line.
    let owned: &'static [CString] = owned.map_err(refused)?.leak();
    let mut pointers: Vec<*mut c_char> = owned.iter().map(|a| a.as_ptr().cast_mut()).collect();
    let count = i32::try_from(pointers.len()).unwrap_or(i32::MAX);
    pointers.push(std::ptr::null_mut());
    // SAFETY: as many strings as `count` says, which live for ever, and a null behind them; the library only reorders the
    // pointers. The state says that it was never started.
    let result = unsafe { ffi::sg_eal_init(count, pointers.as_mut_ptr(), log::on_line) };
    if result < 0 {
        // SAFETY: reads a number of the thread.
        return Err(Error::of("start DPDK", unsafe { ffi::sg_errno() }));
    }
    Ok(())
}

thread_local! {
    /// Registrations of this thread.
    static REGISTERED: Cell<usize> = const { Cell::new(0) };
}

/// Registration of the current thread with the library, which gives it caches of buffers. It stays on its thread.
#[derive(Debug)]
pub(crate) struct Registered {
    /// The environment runs as long as this.
    _eal: Eal,
    not_send: PhantomData<*const ()>,
}

impl Registered {
    /// Registers the current thread. A thread may do so several times.
    ///
    /// # Errors
    /// More than about 128 threads are registered.
    pub(crate) fn thread(eal: Eal) -> Result<Self, Error> {
        if REGISTERED.get() == 0 {
            // SAFETY: the environment runs while there is a handle.
            if unsafe { ffi::sg_thread_register() } != 0 {
                // SAFETY: reads a number of the thread.
                let errno = unsafe { ffi::sg_errno() };
                return Err(Error::of("register a thread", errno));
            }
        }
        REGISTERED.set(REGISTERED.get() + 1);
        Ok(Self { _eal: eal, not_send: PhantomData })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        REGISTERED.set(REGISTERED.get() - 1);
        if REGISTERED.get() == 0 {
            // SAFETY: this thread was registered, since the value cannot leave it, and the environment runs while it has a
            // handle.
            unsafe { ffi::sg_thread_unregister() };
        }
    }
}
