"""Signs the bytes of a transfer with libsecp256k1 (coincurve) and with ecdsa, and prints how many a second of each.

Python has no client library of the SDK's own; these are what its users sign with. The bytes are not made anew.
"""

import hashlib
import sys
import time


def rate(sign, seconds):
    begin, signed = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        for _ in range(20):
            sign(signed.to_bytes(8, "little") * 40)
            signed += 1
    return signed / (time.monotonic() - begin)


def main():
    seconds = float(sys.argv[1])
    secret = b"\x07" * 32
    try:
        from coincurve import PrivateKey

        key = PrivateKey(secret)
        print(f"coincurve {rate(lambda document: key.sign_recoverable(document), seconds):.0f} a second")
    except ImportError:
        print("coincurve is not installed")
    try:
        from ecdsa import SECP256k1, SigningKey

        key = SigningKey.from_string(secret, curve=SECP256k1)
        sign = lambda document: key.sign_digest_deterministic(hashlib.sha256(document).digest(), hashfunc=hashlib.sha256)
        print(f"ecdsa {rate(sign, seconds):.0f} a second")
    except ImportError:
        print("ecdsa is not installed")


main()
