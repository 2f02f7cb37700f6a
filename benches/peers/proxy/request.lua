-- Distinct transactions, and if asked for a rotation of clients, written into a request that is cut
-- beforehand: little Lua runs while wrk measures.
local head = os.getenv("PEERS_HEAD")
local tail = os.getenv("PEERS_TAIL")
local number = tonumber(os.getenv("PEERS_FIRST"))
local clients = tonumber(os.getenv("PEERS_CLIENTS"))
local format = string.format

local host

function init()
  host = format("POST / HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n",
    wrk.host, wrk.port, #head + #tail + 12)
end

-- Twelve digits are valid base64 and stand in the middle of the transaction.
local function body()
  number = number + 1
  return head .. format("%012d", number) .. tail
end

if clients == 0 then
  function request()
    return host .. "\r\n" .. body()
  end
else
  function request()
    local client = number % clients
    local from = format("X-Forwarded-For: 10.%d.%d.%d\r\n\r\n",
      math.floor(client / 65536), math.floor(client / 256) % 256, client % 256)
    return host .. from .. body()
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(format(
    '\nRESULT {"requests":%d,"seconds":%.6f,"refused":%d,"errors":%d}\n',
    summary.requests, summary.duration / 1e6, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end
