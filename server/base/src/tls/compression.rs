//! Certificate compression (RFC 8879). Before a client's address is validated it gets three times what it has sent (RFC 9000 §8.1): a chain
//! that does not fit costs a round trip.

use std::io::{self, Write};

use boring::error::ErrorStack;
use boring::ssl::{CertificateCompressionAlgorithm, CertificateCompressor, SslContextBuilder};
use boring::x509::X509;
use brotli::CompressorWriter;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Brotli's quality, which gives all but a few bytes of what 9 does, in a sixtieth of the time; and the logarithm of its window.
const QUALITY: u32 = 4;
const WINDOW: u32 = 15;
const BUFFER: usize = 4096;

/// Has the context compress its certificates for clients that ask for it. Browsers do: all but Safari by brotli, Safari by zlib.
pub(super) fn add(context: &mut SslContextBuilder, chain: &[X509]) -> Result<(), ErrorStack> {
    let message = message(chain)?;
    context.add_certificate_compression_algorithm(Brotli(Ready::new(&message, brotli)))?;
    context.add_certificate_compression_algorithm(Zlib(Ready::new(&message, zlib)))
}

/// Returns the Certificate message of a server that staples nothing (RFC 8446 §4.4.2).
fn message(chain: &[X509]) -> Result<Vec<u8>, ErrorStack> {
    let mut entries = Vec::new();
    for certificate in chain {
        let certificate = certificate.to_der()?;
        push_length(&mut entries, certificate.len());
        entries.extend(certificate);
        // No extensions.
        entries.extend([0, 0]);
    }
    // No context of a request.
    let mut message = vec![0];
    push_length(&mut message, entries.len());
    message.extend(entries);
    Ok(message)
}

/// Writes a length of three bytes. A longer message is none of TLS, and is not found again.
fn push_length(message: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let [_, bytes @ ..] = length.to_be_bytes();
    message.extend(bytes);
}

type Compress = fn(&[u8]) -> io::Result<Vec<u8>>;

/// A message that was compressed before the first handshake, which it would keep waiting.
struct Ready {
    message: Vec<u8>,
    compressed: Vec<u8>,
    compress: Compress,
}

impl Ready {
    fn new(message: &[u8], compress: Compress) -> Ready {
        // Where that fails, handshakes try again.
        let compressed = compress(message).unwrap_or_default();
        Ready { message: message.to_vec(), compressed, compress }
    }

    fn write<W: Write>(&self, message: &[u8], output: &mut W) -> io::Result<()> {
        if message == self.message && !self.compressed.is_empty() {
            return output.write_all(&self.compressed);
        }
        output.write_all(&(self.compress)(message)?)
    }
}

fn brotli(message: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = CompressorWriter::new(Vec::new(), BUFFER, QUALITY, WINDOW);
    writer.write_all(message)?;
    Ok(writer.into_inner())
}

fn zlib(message: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = ZlibEncoder::new(Vec::new(), Compression::best());
    writer.write_all(message)?;
    writer.finish()
}

struct Brotli(Ready);

impl CertificateCompressor for Brotli {
    const ALGORITHM: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::BROTLI;
    const CAN_COMPRESS: bool = true;
    const CAN_DECOMPRESS: bool = false;

    fn compress<W: Write>(&self, input: &[u8], output: &mut W) -> io::Result<()> {
        self.0.write(input, output)
    }
}

struct Zlib(Ready);

impl CertificateCompressor for Zlib {
    const ALGORITHM: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::ZLIB;
    const CAN_COMPRESS: bool = true;
    const CAN_DECOMPRESS: bool = false;

    fn compress<W: Write>(&self, input: &[u8], output: &mut W) -> io::Result<()> {
        self.0.write(input, output)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Mutex};

    use boring::ssl::{Ssl, SslContext, SslMethod};
    use flate2::read::ZlibDecoder;

    use super::super::identity::Identity;
    use super::*;

    /// Compressed messages that a client has got.
    type Got = Arc<Mutex<Vec<Vec<u8>>>>;

    struct FromBrotli(Got);

    impl CertificateCompressor for FromBrotli {
        const ALGORITHM: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::BROTLI;
        const CAN_COMPRESS: bool = false;
        const CAN_DECOMPRESS: bool = true;

        fn decompress<W: Write>(&self, input: &[u8], output: &mut W) -> io::Result<()> {
            self.0.lock().unwrap().push(input.to_vec());
            brotli::BrotliDecompress(&mut &*input, output)
        }
    }

    struct FromZlib(Got);

    impl CertificateCompressor for FromZlib {
        const ALGORITHM: CertificateCompressionAlgorithm = CertificateCompressionAlgorithm::ZLIB;
        const CAN_COMPRESS: bool = false;
        const CAN_DECOMPRESS: bool = true;

        fn decompress<W: Write>(&self, input: &[u8], output: &mut W) -> io::Result<()> {
            self.0.lock().unwrap().push(input.to_vec());
            let mut message = Vec::new();
            ZlibDecoder::new(input).read_to_end(&mut message)?;
            output.write_all(&message)
        }
    }

    /// Returns a chain of so many certificates, which need not belong together, with the first one's key.
    fn chain(count: usize) -> (Identity, Vec<X509>) {
        let mut identity = Identity::self_signed().unwrap();
        for _ in 1..count {
            identity.chain.extend(Identity::placeholder(&["b.example".into()]).unwrap().chain);
        }
        let chain = X509::stack_from_pem(&identity.chain).unwrap();
        (identity, chain)
    }

    /// Returns the certificates that a client gets.
    fn get(server: &SslContext, client: &SslContext) -> Vec<X509> {
        let (near, far) = UnixStream::pair().unwrap();
        let [server, client] = [server, client].map(|context| Ssl::new(context).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| server.accept(far).unwrap().read(&mut [0]));
            let stream = client.connect(near).unwrap();
            stream.ssl().peer_cert_chain().unwrap().iter().map(ToOwned::to_owned).collect()
        })
    }

    #[test]
    fn clients_that_ask_for_it_get_the_chain_that_was_compressed_before() {
        for count in [1, 2, 5] {
            let (identity, chain) = chain(count);
            let server = identity.context().unwrap().1.build();
            let (by_brotli, by_zlib) = (Got::default(), Got::default());
            let mut clients = Vec::new();
            for number in 0..3 {
                let mut client = SslContextBuilder::new(SslMethod::tls()).unwrap();
                if number != 1 {
                    let algorithm = FromZlib(Arc::clone(&by_zlib));
                    client.add_certificate_compression_algorithm(algorithm).unwrap();
                }
                if number == 2 {
                    let algorithm = FromBrotli(Arc::clone(&by_brotli));
                    client.add_certificate_compression_algorithm(algorithm).unwrap();
                }
                clients.push(client.build());
            }
            let message = message(&chain).unwrap();
            for client in &clients {
                assert_eq!(super::message(&get(&server, client)).unwrap(), message);
            }
            assert_eq!(*by_brotli.lock().unwrap(), [brotli(&message).unwrap()]);
            assert_eq!(*by_zlib.lock().unwrap(), [zlib(&message).unwrap()]);
        }
    }

    #[test]
    fn another_message_is_compressed_too() {
        for compress in [brotli as Compress, zlib] {
            let ready = Ready::new(b"a message", compress);
            let mut output = Vec::new();
            ready.write(b"another message", &mut output).unwrap();
            assert_eq!(output, compress(b"another message").unwrap());
        }
    }
}
