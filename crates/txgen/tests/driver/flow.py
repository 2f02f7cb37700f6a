"""Create, transfer, fetch, outputs and the event stream with BigchainDB's own driver.

flow.py API EVENTS: the URLs of a node's HTTP API and event stream. Prints "ok" at the end.
"""

import json
import sys

import websocket
from bigchaindb_driver import BigchainDB
from bigchaindb_driver.crypto import generate_keypair
from bigchaindb_driver.exceptions import BadRequest, NotFoundError

api, events = sys.argv[1:]
driver = BigchainDB(api, timeout=30)
stream = websocket.create_connection(events, timeout=30)
alice, bob, carol = generate_keypair(), generate_keypair(), generate_keypair()


def next_event(transaction, asset_id):
    event = json.loads(stream.recv())
    assert event["transaction_id"] == transaction["id"], event
    assert event["asset_id"] == asset_id, event
    return event["height"]


def refused(error, call):
    try:
        call()
    except error as refusal:
        return refusal
    raise AssertionError("not refused")


info = driver.info()
assert info["software"] == "BigchainDB" and info["version"] == "2.2.2", info
assert driver.api_info()["transactions"] == "/transactions/"
assert info["api"]["v1"]["streams"] == events, (info, events)

# Create: an asset of ten shares, two of whose owners must sign together.
prepared = driver.transactions.prepare(
    operation="CREATE",
    signers=alice.public_key,
    recipients=[([alice.public_key], 6), ([alice.public_key, bob.public_key], 4)],
    asset={"data": {"bicycle": {"serial": "abcd1234", "price": 1e16, "größe": [1.0, 1]}}},
    metadata={"planet": "earth"},
)
created = driver.transactions.fulfill(prepared, private_keys=alice.private_key)
assert driver.transactions.send_commit(created) == created
height = next_event(created, created["id"])

# Fetch.
assert driver.transactions.retrieve(created["id"]) == created
assert driver.blocks.get(txid=created["id"]) == height
block = driver.blocks.retrieve(block_height=str(height))
assert block == {"height": height, "transactions": [created]}, block
refused(NotFoundError, lambda: driver.transactions.retrieve("0" * 64))


def spend(index, signers, recipients):
    output = created["outputs"][index]
    unsigned = driver.transactions.prepare(
        operation="TRANSFER",
        asset={"id": created["id"]},
        inputs={
            "fulfillment": output["condition"]["details"],
            "fulfills": {"output_index": index, "transaction_id": created["id"]},
            "owners_before": output["public_keys"],
        },
        recipients=recipients,
    )
    keys = [signer.private_key for signer in signers]
    return driver.transactions.fulfill(unsigned, private_keys=keys)


# Transfer: some shares to Carol, what is left back to Alice; then what two must sign.
first = spend(0, [alice], [([carol.public_key], 5), ([alice.public_key], 1)])
assert driver.transactions.send_sync(first) == first
next_event(first, created["id"])
second = spend(1, [alice, bob], [([bob.public_key], 4)])
assert driver.transactions.send_async(second) == second
next_event(second, created["id"])
assert driver.transactions.get(asset_id=created["id"]) == [created, first, second]
transfers = driver.transactions.get(asset_id=created["id"], operation="TRANSFER")
assert transfers == [first, second]

# Outputs.
assert driver.outputs.get(carol.public_key) == [{"output_index": 0, "transaction_id": first["id"]}]
assert driver.outputs.get(alice.public_key, spent=False) == [
    {"output_index": 1, "transaction_id": first["id"]}
]
assert len(driver.outputs.get(alice.public_key, spent=True)) == 2

# Refusals carry the original's words.
again = refused(BadRequest, lambda: driver.transactions.send_commit(created))
assert "DuplicateTransaction" in str(again), again
rival = spend(0, [alice], [([bob.public_key], 6)])
double = refused(BadRequest, lambda: driver.transactions.send_commit(rival))
assert "DoubleSpend" in str(double), double
stranger = refused(
    BadRequest, lambda: driver.transactions.send_commit(dict(first, metadata={"changed": 1}))
)
assert "InvalidHash" in str(stranger), stranger

stream.close()
print("ok")
