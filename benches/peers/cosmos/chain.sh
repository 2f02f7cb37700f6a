# shellcheck shell=bash disable=SC2154
# Sourced by the scripts beside it: a fresh simd, a sentinel in front of it. They need $txgen, $sentinel and $simd; what they
# start is in the list `started`. SIMD_GRPC and SIMD_API are addresses of simd's other listeners.

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

chain() { # folder, mempool, identifier (tide-1): starts a chain and sets url; the validator's key is in validator.json
  local home=$1/home id=${3:-tide-1}
  mkdir -p "$home"
  export TMPDIR=$home
  {
    "$simd" init peer --chain-id "$id" --home "$home"
    "$simd" keys add v --keyring-backend test --home "$home" --output json >"$1/validator.json"
    "$simd" genesis add-genesis-account v 1000000000000stake --keyring-backend test --home "$home"
    "$simd" genesis gentx v 500000000stake --keyring-backend test --chain-id "$id" --home "$home"
    "$simd" genesis collect-gentxs --home "$home"
    "$txgen" cosmos prepare --seed 7 --accounts 200 --amount 1000000000000stake --genesis "$home/config/genesis.json"
    "$txgen" cosmos prepare --seed 9 --accounts 50 --amount 1000000000000stake --genesis "$home/config/genesis.json"
  } >"$1/prepare.log" 2>&1
  sed -i "s/^size = 5000$/size = $2/; s/timeout_commit = \"5s\"/timeout_commit = \"1s\"/" "$home/config/config.toml"
  local port
  port=$(free_port)
  "$simd" start --home "$home" --rpc.laddr "tcp://127.0.0.1:$port" --p2p.laddr "tcp://127.0.0.1:$(free_port)" \
    --grpc.address "${SIMD_GRPC:-127.0.0.1:$(free_port)}" --grpc-web.enable=false \
    --api.enable="$([ -n "${SIMD_API:-}" ] && echo true || echo false)" --api.address "${SIMD_API:-tcp://127.0.0.1:1317}" --rpc.pprof_laddr= --minimum-gas-prices 0stake \
    --log_level error >"$1/node.log" 2>&1 &
  started+=($!)
  url=127.0.0.1:$port
  until curl -fs "http://$url/status" | grep -qE '"latest_block_height": ?"[1-9]'; do sleep 0.2; done
}

proxy() { # folder, flags…: starts a sentinel in front of url and sets url to it, and admin to its operator's listener
  local port
  port=$(free_port) admin=127.0.0.1:$(free_port)
  # The load comes from one address: its queue is as long as what it may have in flight.
  "$sentinel" --listen "127.0.0.1:$port" --admin "$admin" --upstream "http://$url" \
    --max-req 20000/s --queue-per-client 20000 --queue-timeout 60s "${@:2}" >"$1/sentinel.log" 2>&1 &
  started+=($!)
  url=127.0.0.1:$port
  until curl -fs "http://$url/status" >/dev/null; do sleep 0.1; done
}

stop() { # ends what was started, and removes the chain's home in a folder
  kill "${started[@]}" 2>/dev/null || true
  wait "${started[@]}" 2>/dev/null || true
  started=()
  rm -rf "${1:?}/home"
}
