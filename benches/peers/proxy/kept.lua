-- One question, asked by a rotation of clients: what is kept costs each of them some work.
local clients = 10000
local number = 0
local format = string.format

function request()
  number = (number + 1) % clients
  local from = format("10.0.%d.%d", math.floor(number / 256), number % 256)
  return wrk.format("GET", nil, {["X-Forwarded-For"] = from})
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(format(
    '\nRESULT {"requests":%d,"seconds":%.6f,"refused":%d,"errors":%d}\n',
    summary.requests, summary.duration / 1e6, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end
