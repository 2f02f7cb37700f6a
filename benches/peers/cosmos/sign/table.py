"""The table of `run`: FILE has a line `NAME RATE` for each measurement."""

import statistics
import sys

WHAT = {
    "txgen": "a MsgSend: message, fee, sign bytes, signature, transaction",
    "cosmos-sdk": "the same by the SDK's own Go client (`client/tx.SignWithPrivKey`)",
    "libsecp256k1": "a signature over 32 bytes, from Rust as txgen has it",
    "coincurve": "a signature over 320 bytes, libsecp256k1 from Python",
    "ecdsa": "a signature over 320 bytes, in Python",
}


def main():
    rates = {}
    for line in open(sys.argv[1]):
        name, rate = line.split()
        rates.setdefault(name, []).append(float(rate))
    own = statistics.median(rates["txgen"])
    print("| signer | what | a second on one core | lowest to highest | txgen is so many times as fast |")
    print("| --- | --- | ---: | ---: | ---: |")
    for name, what in WHAT.items():
        middle = statistics.median(rates[name])
        span = f"{min(rates[name]):,.0f} to {max(rates[name]):,.0f}"
        print(f"| {name} | {what} | {middle:,.0f} | {span} | {own / middle:.2f} |")


main()
