// An endpoint of pushes on loopback.

import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

/** Starts an endpoint that answers with its `status`, which can be changed. */
export async function startEndpoint() {
  const arrived = new EventEmitter();
  const ids = [];
  const endpoint = { status: 200 };
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const id = request.headers["delay-queue-id"];
    response.writeHead(endpoint.status).end();
    ids.push(id);
    arrived.emit(id, { headers: request.headers, body });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${server.address().port}`;
  return Object.assign(endpoint, {
    origin,
    url: `${origin}/hooks`,
    /** Ids of the jobs of all requests so far. */
    ids,
    /** Returns the next request with this job. */
    next: async (id) => (await once(arrived, id))[0],
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  });
}
