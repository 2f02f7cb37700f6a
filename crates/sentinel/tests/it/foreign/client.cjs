// A JavaScript client of a chain, over HTTP and over a WebSocket. Arguments: the address of the
// RPC, `http://HOST:PORT`, and a name for this run's transactions. Says "done" if all is well.
const assert = require("node:assert");
const { createHash } = require("node:crypto");
const { Comet38Client, HttpClient, WebsocketClient } = require("@cosmjs/tendermint-rpc");

// A library that waits for ever must not hold the tests up.
setTimeout(() => {
  console.error("not done within 90 s");
  process.exit(2);
}, 90_000).unref();

const bytes = (text) => new TextEncoder().encode(text);
const text = (value) => new TextDecoder().decode(value);

async function ask(rpc, name) {
  const client = await Comet38Client.create(rpc);
  const status = await client.status();
  assert(status.syncInfo.latestBlockHeight >= 1);
  assert.equal(status.syncInfo.catchingUp, false);

  const sync = bytes(`${name}sync=1`);
  const sent = await client.broadcastTxSync({ tx: sync });
  assert.equal(sent.code, 0);
  assert.deepEqual(Buffer.from(sent.hash), createHash("sha256").update(sync).digest());
  const acknowledged = await client.broadcastTxAsync({ tx: bytes(`${name}async=1`) });
  assert.equal(acknowledged.hash.length, 32);
  // A transaction that the application refuses.
  const refused = await client.broadcastTxSync({ tx: bytes("bad") });
  assert.notEqual(refused.code, 0);
  // The same again is an error of the node.
  await assert.rejects(client.broadcastTxSync({ tx: sync }), /already exists in cache/);

  const committed = await client.broadcastTxCommit({ tx: bytes(`${name}commit=done`) });
  assert(committed.height > 1);
  assert.equal(committed.checkTx.code, 0);
  assert.equal(committed.txResult.code, 0);
  const answer = await client.abciQuery({ path: "/key", data: bytes(`${name}commit`) });
  assert.equal(text(answer.value), "done");
  const block = await client.block(committed.height);
  assert(block.block.txs.some((tx) => text(tx) === `${name}commit=done`));
  await assert.rejects(client.block(1_000_000), /must be less than or equal/);
  return client;
}

async function listen(client) {
  const heights = [];
  await new Promise((resolve, reject) => {
    const subscription = client.subscribeNewBlock().subscribe({
      next: (event) => {
        heights.push(event.header.height);
        if (heights.length === 3) {
          subscription.unsubscribe();
          resolve();
        }
      },
      error: reject,
      complete: () => reject(new Error("the subscription ended")),
    });
  });
  assert.equal(heights[1], heights[0] + 1);
  assert.equal(heights[2], heights[1] + 1);
}

async function main([url, name]) {
  const overHttp = await ask(new HttpClient(url), `${name}http`);
  overHttp.disconnect();
  const socket = new WebsocketClient(url.replace("http", "ws"), (error) => {
    throw error;
  });
  const overSocket = await ask(socket, `${name}ws`);
  await listen(overSocket);
  overSocket.disconnect();
  console.log("done");
  // A socket that is still closing would keep the process alive.
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
