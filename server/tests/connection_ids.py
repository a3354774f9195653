"""Decodes connection IDs as drafts and Katran's documents say, without any code of the server.

Each line of the input is the hexadecimal text of an ID behind its scheme:

    quic-lb KEY LENGTH ID   with the server ID's length in bytes; KEY is - for none, and the whole ID is octet, server ID and nonce
    katran ID

For each, it prints "CONFIGURATION SERVER NONCE" or "VERSION HOST".
"""

import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def aes(key, block, decrypts=False):
    cipher = Cipher(algorithms.AES(key), modes.ECB())
    step = cipher.decryptor() if decrypts else cipher.encryptor()
    return step.update(block) + step.finalize()


def four_passes(key, ciphertext):
    """Undoes the four passes of the draft ("General Case: Four-Pass Encryption"). Halves are hexadecimal digits here: of an odd number
    of bytes each half has an odd number of digits, which whole bytes hold with a zero behind the left one, or ahead of the right one.
    """
    length = len(ciphertext)
    digits = ciphertext.hex()
    half = (length + 1) // 2
    left, right = digits[:length], digits[length:]

    def mask(number, side):
        of_left = number % 2 == 1
        whole = side.ljust(2 * half, "0") if of_left else side.rjust(2 * half, "0")
        block = bytes.fromhex(whole).ljust(14, b"\0") + bytes([length, number])
        result = aes(key, block)[:half].hex()
        return result[-length:] if of_left else result[:length]

    def xor(one, other):
        return "".join(f"{int(a, 16) ^ int(b, 16):x}" for a, b in zip(one, other, strict=True))

    left = xor(left, mask(4, right))
    right = xor(right, mask(3, left))
    left = xor(left, mask(2, right))
    right = xor(right, mask(1, left))
    return bytes.fromhex(left + right)


def quic_lb(key, server_len, connection_id):
    octet, text = connection_id[0], connection_id[1:]
    if key is not None:
        text = aes(key, text, decrypts=True) if len(text) == 16 else four_passes(key, text)
    return f"{octet >> 5} {text[:server_len].hex()} {text[server_len:].hex()}"


def katran(connection_id):
    """Two bits of version; then version 1 has the host in the next 16 bits, 2 and 3 in the 3 or 4 bytes after the first."""
    version = connection_id[0] >> 6
    if version == 1:
        bits = int.from_bytes(connection_id[:3], "big")
        return f"1 {bits >> 6 & 0xFFFF:04x}"
    return f"{version} {connection_id[1:version + 2].hex()}"


def main():
    for line in sys.stdin:
        scheme, *fields = line.split()
        if scheme == "quic-lb":
            key, length, text = fields
            key = None if key == "-" else bytes.fromhex(key)
            print(quic_lb(key, int(length), bytes.fromhex(text)))
        else:
            print(katran(bytes.fromhex(fields[0])))


main()
