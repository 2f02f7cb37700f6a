"""BEP-23's figures from a run: python3 examples/bep23_quantiles.py runs/e3/txs.csv (needs pandas)."""
import sys
import pandas as pd

txs = pd.read_csv(sys.argv[1], usecols=["ts_send", "ts_accept", "ts_commit"]) / 1000
since = txs - txs.ts_send.min()
print(pd.DataFrame({"accept": txs.ts_accept - txs.ts_send, "finalize": txs.ts_commit - txs.ts_accept})
      .quantile([0.68, 0.95, 0.997]).round(3).to_string())
for name, column in [("accepted", since.ts_accept), ("finalized", since.ts_commit)]:
    rate = column.dropna().round().value_counts().reindex(range(int(-(-column.max() // 1))), fill_value=0)
    print(f"{name}: {rate.sum():.0f}; a second: mean {rate.mean():.0f}, median {rate.median():.0f}, max {rate.max()}")
