"""Signs 320 bytes with a library of Python's and prints how many a second: LIBRARY SECONDS.

Python has no client library of the SDK's own; coincurve (libsecp256k1) and ecdsa are what its users sign with. The
transaction around the signature is not made.
"""

import hashlib
import sys
import time


def signer(library):
    secret = b"\x07" * 32
    if library == "coincurve":
        from coincurve import PrivateKey

        return PrivateKey(secret).sign
    from ecdsa import SECP256k1, SigningKey

    key = SigningKey.from_string(secret, curve=SECP256k1)
    return lambda document: key.sign_digest_deterministic(hashlib.sha256(document).digest(), hashfunc=hashlib.sha256)


def main():
    sign, seconds = signer(sys.argv[1]), float(sys.argv[2])
    begin, signed = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        for _ in range(20):
            sign(signed.to_bytes(8, "little") * 40)
            signed += 1
    print(signed / (time.monotonic() - begin))


main()
