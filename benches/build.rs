//! Lets `src/virtual_net/random.rs` stand before the TLS library's random numbers, which quiche uses too.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-Wl,--wrap=RAND_bytes");
}
