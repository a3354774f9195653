"""Reads connection IDs as a balancer does: written from draft-ietf-quic-load-balancers-22 and Katran's parser, without the server's code.

Each line on stdin is: FORMAT CONFIG SERVER_ID NONCE_LENGTH KEY ID, in hexadecimal; "-" stands for no key. Prints the number of IDs.
"""

import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def block(key, mode, text):
    cipher = Cipher(algorithms.AES(key), modes.ECB())
    step = cipher.encryptor() if mode == "encrypt" else cipher.decryptor()
    return step.update(text) + step.finalize()


def four_passes(key, text):
    """Section 5.5.2. Halves are numbers here: of an odd length each has four bits more."""
    length = len(text)
    half = (length + 1) // 2
    bits = length * 4
    whole = int.from_bytes(text, "big")
    left, right = whole >> bits, whole & ((1 << bits) - 1)
    odd = length % 2

    def mask(number, is_left, step):
        # A left half lacks its last four bits, a right half its first four.
        shifted = number << 4 if odd and is_left else number
        expanded = shifted.to_bytes(half, "big") + bytes(14 - half) + bytes([length, step])
        return int.from_bytes(block(key, "encrypt", expanded)[:half], "big")

    for step in (4, 3, 2, 1):
        if step % 2 == 0:
            left ^= mask(right, False, step) >> (4 if odd else 0)
        else:
            right ^= mask(left, True, step) & ((1 << bits) - 1)
    return (left << bits | right).to_bytes(length, "big")


def quic_lb(identity, config, server_id, nonce, key):
    assert identity[0] >> 5 == config, "config rotation"
    assert identity[0] & 31 == len(identity) - 1, "length self-description"
    text = identity[1 : 1 + len(server_id) + nonce]
    if key is not None:
        text = block(key, "decrypt", text) if len(text) == 16 else four_passes(key, text)
    assert text[: len(server_id)] == server_id, "server ID"
    return text[len(server_id) :]


def katran(identity, version):
    assert identity[0] >> 6 == version, "version"
    if version == 1:
        return ((identity[0] & 0x3F) << 10) | (identity[1] << 2) | (identity[2] >> 6)
    return int.from_bytes(identity[1 : version + 2], "big")


def main():
    nonces = set()
    count = 0
    for line in sys.stdin:
        form, config, server_id, nonce, key, identity = line.split()
        server_id, identity = bytes.fromhex(server_id), bytes.fromhex(identity)
        if form == "quic-lb":
            key = None if key == "-" else bytes.fromhex(key)
            found = quic_lb(identity, int(config), server_id, int(nonce), key)
            if key is not None:
                assert (key, len(server_id), found) not in nonces, "a nonce repeats"
                nonces.add((key, len(server_id), found))
        else:
            assert katran(identity, len(server_id) - 1) == int.from_bytes(server_id, "big"), "host"
        count += 1
    print(count)


main()
