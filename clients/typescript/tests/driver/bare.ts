interface Bare {
  topic: string;
  concurrency: number;
  jobs: number;
}

/** Pops and finishes jobs with fetch alone, one a request: what a worker's use of the CPU is compared with. */
export async function bare(
  url: string,
  token: string | undefined,
  { topic, concurrency, jobs }: Bare,
): Promise<object> {
  const authorization = token ? { authorization: `Bearer ${token}` } : undefined;
  let left = jobs;
  const loop = async (): Promise<void> => {
    while (left > 0) {
      const pop = await fetch(
        `${url}/v1/topics/${topic}/pop?count=1&wait=1s`,
        authorization && { headers: authorization },
      );
      const { jobs: popped } = (await pop.json()) as { jobs: { id: string; reservation: string }[] };
      for (const { id, reservation } of popped) {
        const finish = await fetch(`${url}/v1/jobs/${id}/finish`, {
          method: "POST",
          headers: { "content-type": "application/json", ...authorization },
          body: JSON.stringify({ reservation }),
        });
        await finish.arrayBuffer();
        left--;
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
  return {};
}
