//! Instructions of classic BPF, in which the kernel takes programs about sockets (`bpf_common.h`).

use libc::sock_filter;

/// Instruction classes with their sizes, modes and sources.
pub(crate) mod code {
    pub(crate) const LOAD_LEN: u16 = 0x80;
    pub(crate) const LOAD_WORD: u16 = 0x20;
    pub(crate) const LOAD_BYTE: u16 = 0x30;
    pub(crate) const MODULO: u16 = 0x94;
    pub(crate) const JUMP: u16 = 0x05;
    pub(crate) const JUMP_EQUAL: u16 = 0x15;
    pub(crate) const JUMP_GE: u16 = 0x35;
    pub(crate) const JUMP_SET: u16 = 0x45;
    pub(crate) const RETURN_A: u16 = 0x16;
    pub(crate) const RETURN: u16 = 0x06;
}

/// Address of the word that is random at each load (`SKF_AD_OFF` + `SKF_AD_RANDOM`).
pub(crate) const RANDOM: u32 = 0xffff_f000 + 56;

/// Returns an instruction without a condition.
pub(crate) const fn step(code: u16, k: u32) -> sock_filter {
    branch(code, k, 0, 0)
}

/// Returns a conditional jump: `jt` and `jf` count the instructions skipped where the test holds and where it does not.
pub(crate) const fn branch(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Runs a program as the kernel would: a load beyond the end returns 0. `random` is what the random word reads.
#[cfg(any(test, feature = "test-backends"))]
pub(crate) fn run(program: &[sock_filter], packet: &[u8], random: u32) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    for _ in 0..program.len() {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let taken = match code {
            code::LOAD_LEN => {
                accumulator = u32::try_from(packet.len()).unwrap_or(u32::MAX);
                continue;
            }
            code::LOAD_WORD if k == RANDOM => {
                accumulator = random;
                continue;
            }
            code::LOAD_WORD => match packet.get(k as usize..).and_then(<[u8]>::first_chunk) {
                Some(word) => {
                    accumulator = u32::from_be_bytes(*word);
                    continue;
                }
                None => return 0,
            },
            code::LOAD_BYTE => match packet.get(k as usize) {
                Some(byte) => {
                    accumulator = u32::from(*byte);
                    continue;
                }
                None => return 0,
            },
            code::MODULO => {
                accumulator %= k;
                continue;
            }
            code::JUMP => {
                at += k as usize;
                continue;
            }
            code::JUMP_EQUAL => accumulator == k,
            code::JUMP_GE => accumulator >= k,
            code::JUMP_SET => accumulator & k != 0,
            code::RETURN_A => return accumulator,
            code::RETURN => return k,
            _ => panic!("unknown instruction {code:#x}"),
        };
        at += usize::from(if taken { jt } else { jf });
    }
    panic!("the program did not return");
}
