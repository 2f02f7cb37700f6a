// A constant arrival rate: k6's open model. One virtual user is one connection.
import http from 'k6/http';

const body = __ENV.PEERS_BODY;
const url = __ENV.PEERS_URL;
const params = { headers: { 'Content-Type': 'application/json' } };

export const options = {
  discardResponseBodies: true,
  summaryTrendStats: ['p(99)', 'max'],
  scenarios: {
    constant: {
      executor: 'constant-arrival-rate',
      rate: Number(__ENV.PEERS_RATE),
      timeUnit: '1s',
      duration: `${__ENV.PEERS_SECONDS}s`,
      preAllocatedVUs: Number(__ENV.PEERS_CONNECTIONS),
      maxVUs: Number(__ENV.PEERS_CONNECTIONS),
      gracefulStop: '5s',
    },
  },
};

export default function () {
  http.post(url, body, params);
}

export function handleSummary(data) {
  return { [__ENV.PEERS_SUMMARY]: JSON.stringify(data.metrics) };
}
