//! RSA signatures of handshakes, on threads of their own: one takes a worker half a millisecond or more, in which no other connection of it
//! moves. Those of other keys are too short for that.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::hash::MessageDigest;
use boring::pkey::{Id, PKey, Private};
use boring::rsa::Padding;
use boring::sign::{RsaPssSaltlen, Signer};
use boring::ssl::{
    PrivateKeyMethod, PrivateKeyMethodError, Ssl, SslContextBuilder, SslRef, SslSignatureAlgorithm,
};

use crate::keys::ConnectionKey;

/// Most threads that sign.
const THREADS: usize = 8;
/// Signatures that wait for each of them. Beyond these a worker signs itself, so it accepts no more handshakes than can be signed in time.
const WAITING: usize = 32;

/// Takes a connection whose signature is there, on any thread.
type Notify = Arc<dyn Fn(ConnectionKey) + Send + Sync>;

thread_local! {
    static NOTIFY: RefCell<Option<Notify>> = const { RefCell::new(None) };
    /// Connection whose handshake this thread is at.
    static CURRENT: Cell<Option<ConnectionKey>> = const { Cell::new(None) };
    /// Whether it waits for a signature since this step.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Has handshakes of this thread, as far as they are within [`step`], wait for their RSA signatures: `notify` gets each connection that can
/// go on.
pub fn sign_elsewhere(notify: impl Fn(ConnectionKey) + Send + Sync + 'static) {
    NOTIFY.set(Some(Arc::new(notify)));
}

/// Runs a step of a connection's handshake. Returns also whether it waits for a signature since.
pub fn step<T>(connection: ConnectionKey, step: impl FnOnce() -> T) -> (T, bool) {
    CURRENT.set(Some(connection));
    WAITS.set(false);
    let done = step();
    CURRENT.set(None);
    (done, WAITS.get())
}

/// Has a context sign on other threads, if its key is one of RSA.
pub(crate) fn apply(context: &mut SslContextBuilder, key: PKey<Private>) {
    if key.id() == Id::RSA && signers().is_some() {
        context.set_private_key_method(RsaKey(Arc::new(key)));
    }
}

/// Signs by a key, which is of RSA.
struct RsaKey(Arc<PKey<Private>>);

impl PrivateKeyMethod for RsaKey {
    fn sign(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        algorithm: SslSignatureAlgorithm,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        let notify = NOTIFY.with_borrow(Clone::clone);
        let (Some(notify), Some(connection), Some(signers)) = (notify, CURRENT.get(), signers())
        else {
            return write(sign(&self.0, algorithm, input), output);
        };
        let signature = Arc::<Signature>::default();
        let job = Job {
            key: Arc::clone(&self.0),
            algorithm,
            input: input.to_vec(),
            signature: Arc::clone(&signature),
            connection,
            notify,
        };
        if signers.try_send(job).is_err() {
            return write(sign(&self.0, algorithm, input), output);
        }
        ssl.set_ex_data(*SIGNATURE, signature);
        WAITS.set(true);
        Err(PrivateKeyMethodError::RETRY)
    }

    fn decrypt(
        &self,
        _: &mut SslRef,
        _: &[u8],
        _: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        // No cipher suite has it.
        Err(PrivateKeyMethodError::FAILURE)
    }

    fn complete(
        &self,
        ssl: &mut SslRef,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        let signature = ssl.ex_data(*SIGNATURE).ok_or(PrivateKeyMethodError::FAILURE)?;
        write(signature.get().ok_or(PrivateKeyMethodError::RETRY)?.clone(), output)
    }
}

/// Place of a signature, once it is there.
type Signature = OnceLock<Option<Vec<u8>>>;

static SIGNATURE: LazyLock<Index<Ssl, Arc<Signature>>> =
    LazyLock::new(|| Ssl::new_ex_index().expect("the library has room for an index"));

struct Job {
    key: Arc<PKey<Private>>,
    algorithm: SslSignatureAlgorithm,
    input: Vec<u8>,
    signature: Arc<Signature>,
    connection: ConnectionKey,
    notify: Notify,
}

/// Returns the way to the threads that sign; `None` if the system gives none.
fn signers() -> Option<&'static SyncSender<Job>> {
    static SIGNERS: OnceLock<Option<SyncSender<Job>>> = OnceLock::new();
    let start = || {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let (sender, jobs) = sync_channel(threads * WAITING);
        let jobs = Arc::new(Mutex::new(jobs));
        let started = (0..threads).filter(|_| {
            let jobs = Arc::clone(&jobs);
            let thread = std::thread::Builder::new().name("signatures".into());
            thread.spawn(move || run(&jobs)).is_ok()
        });
        (started.count() > 0).then_some(sender)
    };
    SIGNERS.get_or_init(start).as_ref()
}

fn run(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { key, algorithm, input, signature, connection, notify }) = job else {
            return;
        };
        // The handshake has ended: by a timeout, or because others needed its place.
        if Arc::strong_count(&signature) == 1 {
            continue;
        }
        let _ = signature.set(sign(&key, algorithm, &input));
        notify(connection);
    }
}

fn sign(key: &PKey<Private>, algorithm: SslSignatureAlgorithm, input: &[u8]) -> Option<Vec<u8>> {
    let (digest, padding) = match algorithm {
        SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256 => (MessageDigest::sha256(), Padding::PKCS1_PSS),
        SslSignatureAlgorithm::RSA_PSS_RSAE_SHA384 => (MessageDigest::sha384(), Padding::PKCS1_PSS),
        SslSignatureAlgorithm::RSA_PSS_RSAE_SHA512 => (MessageDigest::sha512(), Padding::PKCS1_PSS),
        SslSignatureAlgorithm::RSA_PKCS1_SHA256 => (MessageDigest::sha256(), Padding::PKCS1),
        SslSignatureAlgorithm::RSA_PKCS1_SHA384 => (MessageDigest::sha384(), Padding::PKCS1),
        SslSignatureAlgorithm::RSA_PKCS1_SHA512 => (MessageDigest::sha512(), Padding::PKCS1),
        SslSignatureAlgorithm::RSA_PKCS1_SHA1 => (MessageDigest::sha1(), Padding::PKCS1),
        _ => return None,
    };
    let sign = || -> Result<Vec<u8>, ErrorStack> {
        let mut signer = Signer::new(digest, key)?;
        signer.set_rsa_padding(padding)?;
        if padding == Padding::PKCS1_PSS {
            signer.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
        }
        signer.sign_oneshot_to_vec(input)
    };
    sign().ok()
}

fn write(signature: Option<Vec<u8>>, output: &mut [u8]) -> Result<usize, PrivateKeyMethodError> {
    let signature = signature.ok_or(PrivateKeyMethodError::FAILURE)?;
    let room = output.get_mut(..signature.len()).ok_or(PrivateKeyMethodError::FAILURE)?;
    room.copy_from_slice(&signature);
    Ok(signature.len())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    use boring::asn1::Asn1Time;
    use boring::rsa::Rsa;
    use boring::ssl::{ErrorCode, HandshakeError, SslContext, SslMethod, SslVersion};
    use boring::x509::{X509, X509NameBuilder};

    use super::*;

    const CONNECTION: ConnectionKey = ConnectionKey { slot: 3, generation: 9 };

    fn server(key: PKey<Private>) -> SslContext {
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_text("CN", "localhost").unwrap();
        let name = name.build();
        let mut leaf = X509::builder().unwrap();
        leaf.set_subject_name(&name).unwrap();
        leaf.set_issuer_name(&name).unwrap();
        leaf.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        leaf.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
        leaf.set_pubkey(&key).unwrap();
        leaf.sign(&key, MessageDigest::sha256()).unwrap();
        let mut context = SslContextBuilder::new(SslMethod::tls()).unwrap();
        context.set_certificate(&leaf.build()).unwrap();
        context.set_private_key(&key).unwrap();
        apply(&mut context, key);
        context.build()
    }

    /// Has a client shake hands with a server, and `wait` called whenever that waits for a signature. Returns how often that was.
    fn shake_hands(server: &SslContext, version: SslVersion, wait: impl Fn()) -> usize {
        let (near, far) = UnixStream::pair().unwrap();
        let mut client = SslContextBuilder::new(SslMethod::tls()).unwrap();
        client.set_max_proto_version(Some(version)).unwrap();
        let client = Ssl::new(&client.build()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| client.connect(near).unwrap().read(&mut [0]));
            let mut mid = Ssl::new(server).unwrap().setup_accept(far);
            for waits in 0.. {
                let (shaken, must_wait) = step(CONNECTION, || mid.handshake());
                match shaken {
                    Ok(_) => return waits,
                    Err(HandshakeError::WouldBlock(again)) => {
                        assert!(must_wait);
                        assert_eq!(again.error().code(), ErrorCode::WANT_PRIVATE_KEY_OPERATION);
                        wait();
                        mid = again;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            unreachable!("it goes on until it returns")
        })
    }

    #[test]
    fn a_handshake_waits_for_a_signature_of_rsa_on_another_thread() {
        let (sender, signed) = channel();
        let own = std::thread::current().id();
        sign_elsewhere(move |connection| {
            assert_ne!(std::thread::current().id(), own);
            sender.send(connection).unwrap();
        });
        for bits in [2048, 3072] {
            let server = server(PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap());
            for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
                let wait = || assert_eq!(signed.recv().unwrap(), CONNECTION);
                assert_eq!(shake_hands(&server, version, wait), 1);
            }
        }
    }

    #[test]
    fn nobody_signs_for_a_handshake_that_has_ended() {
        let key = Arc::new(PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap());
        let (sender, jobs) = sync_channel(2);
        let (notify, notified) = channel();
        let notify: Notify = Arc::new(move |connection| notify.send(connection).unwrap());
        let signatures = [3, 4].map(|slot| {
            let signature = Arc::<Signature>::default();
            let job = Job {
                key: Arc::clone(&key),
                algorithm: SslSignatureAlgorithm::RSA_PKCS1_SHA256,
                input: b"words".to_vec(),
                signature: Arc::clone(&signature),
                connection: ConnectionKey { slot, generation: 1 },
                notify: Arc::clone(&notify),
            };
            sender.try_send(job).unwrap();
            signature
        });
        let [ended, waiting] = signatures;
        drop((ended, sender, notify));
        run(&Mutex::new(jobs));
        let connections: Vec<_> = notified.iter().collect();
        assert_eq!(connections, [ConnectionKey { slot: 4, generation: 1 }]);
        assert_eq!(waiting.get().unwrap().as_ref().map(Vec::len), Some(256));
    }

    #[test]
    fn a_thread_that_cannot_wait_signs_itself() {
        let server = server(PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap());
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            assert_eq!(shake_hands(&server, version, || unreachable!("it waits")), 0);
        }
    }

    #[test]
    fn each_algorithm_of_rsa_has_its_own_signature_and_others_have_none() {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut all = Vec::new();
        for algorithm in [
            SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256,
            SslSignatureAlgorithm::RSA_PSS_RSAE_SHA384,
            SslSignatureAlgorithm::RSA_PSS_RSAE_SHA512,
            SslSignatureAlgorithm::RSA_PKCS1_SHA1,
            SslSignatureAlgorithm::RSA_PKCS1_SHA256,
            SslSignatureAlgorithm::RSA_PKCS1_SHA384,
            SslSignatureAlgorithm::RSA_PKCS1_SHA512,
        ] {
            let signature = sign(&key, algorithm, b"words").unwrap();
            assert!(signature.len() == 256 && !all.contains(&signature));
            all.push(signature);
        }
        assert_eq!(sign(&key, SslSignatureAlgorithm::ED25519, b"words"), None);
        let failure = |written: Result<usize, _>| written == Err(PrivateKeyMethodError::FAILURE);
        assert!(failure(write(None, &mut [0; 256])));
        assert!(failure(write(Some(vec![0; 257]), &mut [0; 256])), "no room");
    }
}
