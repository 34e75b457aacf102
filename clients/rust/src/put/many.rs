//! Puts of many jobs in few requests.

use serde_json::value::{RawValue, to_raw_value};

use super::{Pending, Put, PutJob};
use crate::{Error, Queue, batch, retry::Retries};

impl Queue {
    /// Puts many jobs, in requests of up to 1,000. Each put has its own result, in their order,
    /// and is repeated as a single put is.
    pub async fn put_many(
        &self,
        puts: impl IntoIterator<Item = Put>,
    ) -> Vec<Result<PutJob, Error>> {
        let puts = puts.into_iter().map(|put| put.pending().map(|(_, pending)| pending));
        let mut results = Vec::new();
        let mut chunk = Vec::new();
        let mut bytes = 0;
        for (index, put) in puts.enumerate() {
            let put = put.and_then(|pending| Ok((encoded(&pending)?.get().len(), pending)));
            match put {
                Err(error) => results.push((index, Err(error))),
                Ok((size, pending)) => {
                    if chunk.len() == batch::MAX_JOBS || bytes + size > batch::MAX_BYTES {
                        results.extend(self.put_chunk(std::mem::take(&mut chunk)).await);
                        bytes = 0;
                    }
                    bytes += size;
                    chunk.push((index, pending));
                }
            }
        }
        results.extend(self.put_chunk(chunk).await);
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Puts the jobs of one request, and repeats it with those whose result is not final.
    async fn put_chunk(
        &self,
        mut puts: Vec<(usize, Pending)>,
    ) -> Vec<(usize, Result<PutJob, Error>)> {
        let mut retries = Retries::new(self.retry_for);
        let mut results = Vec::with_capacity(puts.len());
        while !puts.is_empty() {
            let answers = self.send_chunk(&puts).await;
            let mut again = Vec::new();
            let mut last = None;
            for ((index, mut put), answer) in puts.into_iter().zip(answers) {
                match answer {
                    Err(error) if put.is_put(&error) => {
                        results.push((index, Ok(put.put_job(self, &error).await)));
                    }
                    Err(error) if error.is_passing() => {
                        put.failed(&error);
                        again.push((index, put, error.clone()));
                        last = Some(error);
                    }
                    answer => results.push((index, answer)),
                }
            }
            puts = Vec::new();
            if let Some(error) = last {
                let is_over = retries.pause(error).await.is_err();
                for (index, put, error) in again {
                    match is_over {
                        true => results.push((index, Err(error))),
                        false => puts.push((index, put)),
                    }
                }
            }
        }
        results
    }

    async fn send_chunk(&self, puts: &[(usize, Pending)]) -> Vec<Result<PutJob, Error>> {
        let jobs = puts.iter().map(|(_, put)| encoded(put)).collect::<Result<Vec<_>, _>>();
        let answers = match jobs {
            Ok(jobs) => batch::send(self, "jobs", &jobs).await,
            Err(error) => Err(error),
        };
        match answers {
            Ok(answers) => answers,
            Err(error) => puts.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

fn encoded(put: &Pending) -> Result<Box<RawValue>, Error> {
    to_raw_value(put.fields()).map_err(|error| Error::encode("put", error))
}
